// SPDX-License-Identifier: BSD-2-Clause
/*
 * What cannot be told at once after taking over. The kernel may be in the middle of a packet whose
 * effect is seen a moment later; two looks a second apart, with the slot's generation unchanged,
 * leave no doubt.
 */
#include <stdlib.h>

#include "agent/client.h"
#include "agent/clock.h"
#include "agent/handover.h"
#include "agent/pool.h"
#include "agent/steer.h"
#include "agent/upstream.h"
#include "common/log.h"

#define DIED_AFTER (50 * MS) /* packets that were on their way are through */
#define REST_TIME (5 * SECOND)

/* ---- slots --------------------------------------------------------------------------- */

/* Idle, its bit cleared, and no request: the agent before had taken it. True the second time. */
static bool in_no_hands(struct agent *agent, struct upstream *up)
{
	const struct kv_upstream *slot = upstream_slot(up);
	__u32 first = up->backend * agent->dp.upstreams_per_backend, i = up->slot - first;
	__u32 gen = kv_read_once(slot->gen), *seen = &agent->handover->gen[up->slot];
	bool again = *seen == gen + 1;

	if (kv_read_once(slot->state) != KV_UP_IDLE ||
	    kv_read_once(agent->dp.backends[up->backend].idle[i / 64]) >> (i % 64) & 1) {
		*seen = 0;
		return false;
	}
	*seen = gen + 1;
	return again;
}

static void abandon(struct agent *agent, struct upstream *up)
{
	steer_settle(&agent->dp, up->slot, KV_CALL_SETTLE_FAILED);
	upstream_retire(up, true);
}

static void orphan_look(struct agent *agent, struct upstream *up)
{
	switch (kv_read_once(upstream_slot(up)->state)) {
	case KV_UP_LENT:
		break; /* runs to its end without its home sockets */
	case KV_UP_IDLE:
		if (pool_take(agent, up->backend, up->slot))
			upstream_retire(up, true);
		else if (in_no_hands(agent, up))
			abandon(agent, up);
		break;
	case KV_UP_RELAY:
		abandon(agent, up);
		break;
	default:
		upstream_retire(up, true);
	}
}

static void doubts_look(struct agent *agent)
{
	__u32 per = agent->dp.upstreams_per_backend;

	for (__u32 id = 0; id < agent->dp.max_backends; id++)
		for (__u32 i = 0; agent->pools[id].open && i < agent->pools[id].end; i++) {
			struct upstream *up = agent->upstreams[id * per + i];

			if (up && up->phase == UPSTREAM_OPEN && !up->client &&
			    in_no_hands(agent, up))
				abandon(agent, up);
		}
}

/* ---- charges ------------------------------------------------------------------------- */

/*
 * A backend's load is the sum of what its slots are charged, and of what waits for a slot. What the
 * agent before had charged for requests in its memory is in no slot. A sum is taken only while no
 * request came or went, and what all of them show too much is taken off; those on their way between
 * the two can only make it look like more.
 */
static void charges_look(struct agent *agent, __u32 id)
{
	struct handover_charge *over = &agent->handover->over[id];
	struct kv_backend *b = &agent->dp.backends[id];
	__u64 requests = kv_read_once(b->requests), running = kv_read_once(b->inflight_requests);
	__u64 tokens = kv_read_once(b->inflight_tokens);
	__s64 n = running, t = tokens;
	const struct client *waiter;

	for (__u32 i = 0; i < agent->pools[id].end; i++) {
		const struct kv_dispatch *d =
			&agent->dp.dispatches[id * agent->dp.upstreams_per_backend + i];

		n -= kv_read_once(d->charged_request);
		t -= kv_read_once(d->charged_tokens);
	}
	TAILQ_FOREACH (waiter, &agent->pools[id].waiters, wait) {
		n -= waiter->request->dispatch.charged_request;
		t -= waiter->request->dispatch.charged_tokens;
	}
	if (requests != kv_read_once(b->requests) ||
	    running != kv_read_once(b->inflight_requests) ||
	    tokens != kv_read_once(b->inflight_tokens))
		return;
	n = n < 0 ? 0 : n;
	t = t < 0 ? 0 : t;
	over->requests = !over->looks || (__u64)n < over->requests ? (__u64)n : over->requests;
	over->tokens = !over->looks || (__u64)t < over->tokens ? (__u64)t : over->tokens;
	over->looks++;
}

static void charges_settle(struct agent *agent, __u32 id)
{
	struct handover_charge *over = &agent->handover->over[id];
	struct kv_backend *b = &agent->dp.backends[id];

	if (!over->looks)
		return;
	kv_atomic_add(&b->inflight_requests, -over->requests);
	kv_atomic_add(&b->inflight_tokens, -over->tokens);
	if (over->requests || over->tokens)
		kv_debug("backend %s: %llu requests in no slot: given back", b->name,
			 (unsigned long long)over->requests);
}

/* ---- time ---------------------------------------------------------------------------- */

void handover_tick(struct agent *agent, __u64 now_ns)
{
	struct handover *h = agent->handover;

	if (!TAILQ_EMPTY(&h->died)) {
		clock_hurry(agent);
		if (now_ns - h->since_ns >= DIED_AFTER)
			handover_died(agent);
	}
	if (h->charged || !h->gen)
		return;
	for (__u32 i = 0; i < agent->dp.max_backends; i++)
		if (agent->pools[i].open)
			charges_look(agent, i);
}

void handover_second(struct agent *agent, __u64 now_ns)
{
	struct handover *h = agent->handover;
	struct upstream *up, *next;

	for (up = TAILQ_FIRST(&h->orphans); up; up = next) {
		next = TAILQ_NEXT(up, link);
		orphan_look(agent, up);
	}
	if (!h->gen)
		return;
	doubts_look(agent);
	if (now_ns - h->since_ns < REST_TIME)
		return;
	for (__u32 i = 0; !h->charged && i < agent->dp.max_backends; i++)
		if (agent->pools[i].open)
			charges_settle(agent, i);
	h->charged = true;
	if (!TAILQ_EMPTY(&h->orphans))
		return;
	free(h->gen);
	h->gen = NULL;
}
