// SPDX-License-Identifier: BSD-2-Clause
/* Connections to a backend that succeed, fail or end: what they say of it. */
#include <errno.h>
#include <string.h>

#include "agent/client.h"
#include "agent/clock.h"
#include "agent/follow.h"
#include "agent/pool.h"
#include "agent/upstream.h"
#include "common/log.h"

#define POOL_PROBE_GAP (100 * MS)
#define POOL_BACKOFF_MIN (500 * MS)
#define POOL_BACKOFF_MAX (5 * SECOND)
#define POOL_SHORT_TOLD (10 * SECOND) /* one line of the log stands for so long */

/* What this host lacks is no fault of the backend: it stays up, and those who wait for one of its
 * connections in use go on waiting. */
static bool pool_shortage(struct agent *agent, __u32 id, int err)
{
	struct pool *pool = &agent->pools[id];
	const char *name = agent->dp.backends[id].name;
	__u64 now_ns = kv_now_ns();
	bool told = clock_since(pool->short_ns, now_ns) < POOL_SHORT_TOLD;

	if (err == -EMFILE || err == -ENFILE)
		count(&agent->dp, upstreams_out_of_files);
	else if (err == -EADDRNOTAVAIL)
		count(&agent->dp, upstreams_out_of_ports);
	else if (err == -ENOMEM || err == -ENOBUFS)
		count(&agent->dp, upstreams_out_of_memory);
	else
		return false;
	if (!told) {
		pool->short_ns = now_ns;
		kv_warn("backend %s: no further connection: %s", name,
			err == -EADDRNOTAVAIL
				? "no local port is free: widen net.ipv4.ip_local_port_range"
				: strerror(-err));
	}
	pool->known = true;
	pool->retry_at_ns = now_ns + POOL_BACKOFF_MIN;
	if (!pool->n_open && !pool->n_connecting && !TAILQ_EMPTY(&pool->waiters))
		client_fail_waiting(agent, id);
	return true;
}

void pool_has(struct agent *agent, __u32 id, __u32 slot)
{
	if (slot - pool_first_slot(agent, id) >= agent->pools[id].end)
		agent->pools[id].end = slot - pool_first_slot(agent, id) + 1;
}

bool pool_connect(struct agent *agent, __u32 id)
{
	__u32 slot = pool_first_slot(agent, id), end = slot + agent->dp.upstreams_per_backend;
	int err;

	while (slot < end && agent->upstreams[slot])
		slot++;
	if (slot == end)
		return false;
	agent->pools[id].tried_at_ns = kv_now_ns();
	clock_hurry(agent);
	err = upstream_open(agent, slot);
	if (err) {
		count(&agent->dp, upstreams_failed);
		if (!pool_shortage(agent, id, err))
			pool_connect_failed(agent, id, err);
	} else {
		pool_has(agent, id, slot);
	}
	return !err;
}

bool pools_probe(struct agent *agent, __u32 service)
{
	__u64 now_ns = kv_now_ns();
	bool any = false;

	for (__u32 i = 0; i < agent->dp.max_backends; i++) {
		struct pool *pool = &agent->pools[i];

		if (!pool->open || pool->removing || agent->dp.backends[i].service != service ||
		    agent->dp.backends[i].state != KV_BACKEND_DOWN)
			continue;
		if (!pool->n_connecting && clock_since(pool->tried_at_ns, now_ns) > POOL_PROBE_GAP)
			pool_connect(agent, i);
		any |= pool->n_connecting > 0;
	}
	return any;
}

void pool_connected(struct agent *agent, __u32 id)
{
	struct kv_backend *backend = &agent->dp.backends[id];
	struct pool *pool = &agent->pools[id];

	pool->known = true;
	pool->retry_at_ns = 0;
	pool->backoff_ns = 0;
	if (!pool->away) {
		following_opened(agent, id);
		return;
	}
	pool->away = false;
	following_connected(agent, id);
	if (backend->state == KV_BACKEND_DOWN && !following_holds(agent, id))
		kv_write_once(backend->state, KV_BACKEND_UP);
	kv_info("backend %s: up again", backend->name);
}

void pool_connect_failed(struct agent *agent, __u32 id, int err)
{
	struct kv_backend *backend = &agent->dp.backends[id];
	struct pool *pool = &agent->pools[id];

	pool->known = true;
	kv_atomic_add(&backend->failures, 1);
	following_connect_failed(agent, id, err);
	pool->backoff_ns = pool->backoff_ns ? pool->backoff_ns * 2 : POOL_BACKOFF_MIN;
	if (pool->backoff_ns > POOL_BACKOFF_MAX)
		pool->backoff_ns = POOL_BACKOFF_MAX;
	pool->retry_at_ns = kv_now_ns() + pool->backoff_ns;
	if (!pool->away && !pool_count_idle(agent, id)) {
		pool->away = true;
		if (backend->state == KV_BACKEND_UP)
			kv_write_once(backend->state, KV_BACKEND_DOWN);
		kv_warn("backend %s: down: %s", backend->name, strerror(-err));
	}
	if (!pool->n_connecting && !TAILQ_EMPTY(&pool->waiters))
		client_fail_waiting(agent, id);
}

void pool_lost(struct agent *agent, __u32 id)
{
	struct pool *pool = &agent->pools[id];

	/* At once, not at the next tick: it is also the question whether the backend lives. */
	if (pool->open && !pool->removing && !pool->n_connecting &&
	    pool_count_idle(agent, id) < POOL_MIN_IDLE && pool->retry_at_ns <= kv_now_ns())
		pool_connect(agent, id);
}

void pool_suspect(struct agent *agent, __u32 id)
{
	struct upstream *up;

	kv_atomic_add(&agent->dp.backends[id].failures, 1);
	following_suspect(agent, id);
	while ((up = pool_claim(agent, id)))
		upstream_retire(up, true);
	pool_lost(agent, id);
}

void pool_ask(struct agent *agent, __u32 id)
{
	struct pool *pool = &agent->pools[id];
	__u64 now_ns = kv_now_ns();

	if (clock_since(pool->asked_all_ns, now_ns) < POOL_PROBE_GAP)
		return;
	pool->asked_all_ns = now_ns;
	for (__u32 i = 0; i < pool->end; i++) {
		const struct upstream *up = agent->upstreams[pool_first_slot(agent, id) + i];

		if (up && up->phase == UPSTREAM_OPEN &&
		    kv_read_once(upstream_slot(up)->state) == KV_UP_IDLE)
			probe_ask(up->fd);
	}
}
