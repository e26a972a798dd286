// SPDX-License-Identifier: BSD-2-Clause
#include "agent/client.h"
#include "agent/clock.h"
#include "agent/expiry.h"
#include "agent/pool.h"
#include "agent/service.h"
#include "agent/upstream.h"

#define POOL_IDLE_MAX (60 * SECOND) /* surplus idle ones are closed after this */
#define POOL_PEAK_HOLD (5 * SECOND) /* then the peak comes down by an eighth per second */

__u32 pool_first_slot(const struct agent *agent, __u32 id)
{
	return id * agent->dp.upstreams_per_backend;
}

static bool pool_full(const struct agent *agent, __u32 id)
{
	const struct pool *pool = &agent->pools[id];

	return pool->n_open + pool->n_connecting >= agent->dp.upstreams_per_backend;
}

/* Half as many again as have been needed at a time: the kernel takes them without asking, and what
 * it does not find costs a request the express lane. */
static __u32 pool_target(const struct agent *agent, const struct pool *pool)
{
	__u32 target = pool->peak + pool->peak / 2;

	if (target < pool->peak + POOL_MIN_IDLE)
		target = pool->peak + POOL_MIN_IDLE;
	return target < agent->dp.upstreams_per_backend ? target : agent->dp.upstreams_per_backend;
}

static void pool_grow(struct agent *agent, __u32 id, __u64 now_ns)
{
	const struct pool *pool = &agent->pools[id];
	__u32 target = pool_target(agent, pool);

	if (!pool->open || pool->removing || agent->draining)
		return;
	while (pool->n_open + pool->n_connecting < target && pool->retry_at_ns <= now_ns)
		if (!pool_connect(agent, id))
			return;
}

static void pool_needed(struct pool *pool, __u32 n, __u64 now_ns)
{
	if (n < pool->peak)
		return;
	pool->peak = n;
	pool->peak_at_ns = now_ns;
}

void pool_want(struct agent *agent, __u32 id)
{
	struct pool *pool = &agent->pools[id];
	__u64 now_ns = kv_now_ns();
	const struct client *waiter;
	__u32 waiting = 0;

	TAILQ_FOREACH (waiter, &pool->waiters, wait)
		waiting++;
	pool_needed(pool, pool->n_open + waiting, now_ns);
	pool_grow(agent, id, now_ns);
	if (pool_full(agent, id))
		count(&agent->dp, upstreams_all_busy);
	/* A backend that is down is tried all the same. */
	if (!pool->n_connecting && !pool_full(agent, id))
		pool_connect(agent, id);
}

void pool_short(struct agent *agent, __u32 id)
{
	struct pool *pool = &agent->pools[id];
	__u64 now_ns = kv_now_ns();

	if (pool->n_connecting)
		return;
	pool_needed(pool, pool->n_open + 1, now_ns);
	pool_grow(agent, id, now_ns);
}

void pool_take_over(struct agent *agent, __u32 id)
{
	agent->pools[id] = (struct pool){
		.open = true,
		.known = true,
		.away = agent->dp.backends[id].state == KV_BACKEND_DOWN,
		.expiry = EXPIRY_GUESS,
	};
	TAILQ_INIT(&agent->pools[id].waiters);
}

void pool_open(struct agent *agent, __u32 id)
{
	struct pool *pool = &agent->pools[id];

	*pool = (struct pool){.open = true, .expiry = EXPIRY_GUESS};
	TAILQ_INIT(&pool->waiters);
	for (__u32 i = 0; i < POOL_MIN_IDLE; i++)
		pool_connect(agent, id);
}

bool pool_close_idle(struct agent *agent, __u32 id)
{
	struct upstream *up;

	while ((up = pool_claim(agent, id)))
		upstream_retire(up, true);
	return !agent->pools[id].n_open && !agent->pools[id].n_connecting;
}

void pools_spare(struct agent *agent)
{
	__u64 now_ns = kv_now_ns();

	for (__u32 i = 0; i < agent->dp.max_backends; i++) {
		struct pool *pool = &agent->pools[i];
		__u32 idle = pool->open ? pool_count_idle(agent, i) : 0;
		struct upstream *up;

		if (idle <= POOL_MIN_IDLE)
			continue;
		pool->peak = pool->n_open > idle ? pool->n_open - idle : 0;
		pool->peak_at_ns = now_ns;
		pool->retry_at_ns = now_ns + SECOND;
		while (idle-- > POOL_MIN_IDLE && (up = pool_claim(agent, i)))
			upstream_retire(up, true);
	}
}

void pool_close(struct agent *agent, __u32 id)
{
	agent->pools[id].open = false;
	agent->pools[id].removing = false;
	agent->pools[id].closed_ns = kv_now_ns();
}

bool pools_known(const struct agent *agent)
{
	for (__u32 i = 0; i < agent->dp.max_backends; i++)
		if (agent->pools[i].open && !agent->pools[i].known)
			return false;
	return true;
}

/* Also puts right what events have not told: read events taken out while the kernel had the
 * slot, slots left DONE when the ring buffer was full. */
static void pool_look_at_slots(struct agent *agent, __u32 id, __u64 now_ns, __u32 surplus)
{
	struct pool *pool = &agent->pools[id];
	__u64 connect_ns = agent->config->timeouts.connect_ms * MS;
	__u32 slot = pool_first_slot(agent, id), end, closing = 0;

	while (pool->end && !agent->upstreams[slot + pool->end - 1])
		pool->end--;
	end = slot + pool->end;

	/* High slots are the idle ones: claims take the lowest. */
	while (end-- > slot) {
		struct upstream *up = agent->upstreams[end];
		__u64 last_ns;
		__u32 state;

		if (!up)
			continue;
		state = kv_read_once(agent->dp.upstreams[end].state);
		last_ns = kv_read_once(agent->dp.upstreams[end].last_ns);
		if (up->phase == UPSTREAM_CLOSING) {
			closing++;
		} else if (up->phase == UPSTREAM_CONNECTING) {
			if (clock_since(up->since_ns, now_ns) > connect_ns)
				upstream_connect_timeout(up);
		} else if (up->phase == UPSTREAM_OPEN && state == KV_UP_IDLE) {
			upstream_watch(up, true);
			if (surplus && clock_since(last_ns, now_ns) > POOL_IDLE_MAX &&
			    pool_take(agent, id, end)) {
				upstream_retire(up, true);
				surplus--;
			} else if (pool->closing < agent->dp.upstreams_per_backend / 2 &&
				   expiry_due(up, now_ns) && pool_take(agent, id, end)) {
				/* Not too many: while they close their slots are in use. */
				upstream_expire(up);
				pool->closing++;
				closing++;
			}
		} else if (up->phase == UPSTREAM_OPEN && state == KV_UP_DONE &&
			   clock_since(last_ns, now_ns) > SECOND) {
			upstream_retire(up, false);
		}
	}
	pool->closing = closing;
}

static void pool_tick_one(struct agent *agent, __u32 id, __u64 now_ns)
{
	struct pool *pool = &agent->pools[id];
	__u32 idle = pool_count_idle(agent, id), all = pool->n_open, target;

	if (!TAILQ_EMPTY(&pool->waiters) && idle)
		client_serve_waiting(agent, id);
	if (pool->removing || agent->draining) {
		pool_look_at_slots(agent, id, now_ns, 0);
		if (pool->removing)
			backend_free_if_empty(agent, id);
		return;
	}
	if (pool->peak && clock_since(pool->peak_at_ns, now_ns) > POOL_PEAK_HOLD) {
		pool->peak -= (pool->peak + 7) / 8;
		pool->peak_at_ns += SECOND;
	}
	pool_needed(pool, all > idle ? all - idle : 0, now_ns);
	target = pool_target(agent, pool);
	pool_look_at_slots(agent, id, now_ns, all > target ? all - target : 0);
	pool_grow(agent, id, now_ns);
}

void pool_tick(struct agent *agent, __u64 now_ns)
{
	for (__u32 i = 0; i < agent->dp.max_backends; i++)
		if (agent->pools[i].open)
			pool_tick_one(agent, i, now_ns);
	upstream_sweep(agent, now_ns);
}

bool pools_busy(const struct agent *agent)
{
	if (!TAILQ_EMPTY(&agent->retiring))
		return true;
	for (__u32 i = 0; i < agent->dp.max_backends; i++)
		if (agent->pools[i].open &&
		    (agent->pools[i].n_connecting || !TAILQ_EMPTY(&agent->pools[i].waiters)))
			return true;
	return false;
}
