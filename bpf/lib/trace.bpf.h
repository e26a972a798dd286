/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Writing the flight recorder (kvsteer/trace.h): a record begins with a decision, before that is
 * charged, and ends with its request. Switched off it costs a look-up in an array of one, which is
 * no call, and a comparison.
 */
#ifndef KVSTEER_TRACE_BPF_H
#define KVSTEER_TRACE_BPF_H

#include "steering.bpf.h"

KV_MAP(kv_tracing, BPF_MAP_TYPE_ARRAY, 1, __u32, struct kv_tracing, BPF_F_MMAPABLE);
KV_MAP(kv_traces, BPF_MAP_TYPE_ARRAY, 1, __u32, struct kv_trace, BPF_F_MMAPABLE);

KV_INLINE struct kv_tracing *kv_tracing_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&kv_tracing, &zero);
}

KV_INLINE struct kv_trace *kv_trace_place(const struct kv_tracing *tracing, __u64 number)
{
	__u32 place = number & tracing->mask;

	return bpf_map_lookup_elem(&kv_traces, &place);
}

/* A record that is there already, taken for writing; NULL, and it is counted why. */
static __noinline struct kv_trace *kv_trace_open(__u64 number)
{
	struct kv_tracing *tracing = kv_tracing_get();
	struct kv_trace *t;
	bool late = false;

	if (!tracing || !number || number == KV_TRACE_SKIPPED)
		return NULL;
	t = kv_trace_place(tracing, number);
	if (!t)
		return NULL;
	if (kv_trace_take(t, number, &late))
		return t;
	kv_world_count(late ? KV_CNT_trace_overwritten : KV_CNT_trace_missed);
	return NULL;
}

/* ---- the decision -------------------------------------------------------------------- */

struct kv_trace_walk {
	struct kv_steer *st;
	struct kv_trace *t;
};

KV_INLINE void kv_trace_list(struct kv_trace *t, const struct kv_steer *st, __u32 id,
			     const struct kv_backend *backend, __u64 wait, __u64 cost)
{
	struct kv_trace_backend *b = &t->backends[kv_index(t->listed, KV_TRACE_BACKENDS)];
	__u64 requests = kv_requests(backend);

	b->matched = st->match[kv_index(id, KV_MAX_BACKENDS)];
	b->wait = kv_saturate(wait);
	b->cost = kv_saturate(cost);
	b->requests = requests > 0xffff ? 0xffff : requests;
	b->backend = id;
	b->discount = kv_discount(st, backend);
	t->listed++;
}

static long kv_trace_step(__u32 i, void *ctx)
{
	struct kv_trace_walk *w = ctx;
	struct kv_steer *st = w->st;
	struct kv_trace *t = w->t;
	__u32 id = st->candidate[kv_index(i, KV_MAX_BACKENDS)], match;
	struct kv_backend *b = kv_world_backend(id);
	__u64 wait, cost = 0;
	bool holds;

	if (!b)
		return 0;
	match = kv_matched(st, id, b);
	wait = kv_wait(b, st->now);
	if (t->flags & KV_TRACE_BY_COST) {
		cost = kv_cost(st, b, wait, match);
		if (id != st->choice.backend && cost < st->cost) {
			st->cost = cost;
			t->second = id;
		}
	}
	holds = match && match == st->choice.best;
	if (holds && t->deepest == KV_TRACE_NOBODY)
		t->deepest = id;
	if (st->n <= KV_TRACE_BACKENDS || id == st->choice.backend ||
	    (holds && t->listed < KV_TRACE_HOLDERS))
		kv_trace_list(t, st, id, b, wait, cost);
	return 0;
}

/* The second choice of a large fleet, unless it stands there as a holder. */
KV_INLINE void kv_trace_second(struct kv_steer *st, struct kv_trace *t)
{
	__u32 id = t->second;
	struct kv_backend *b = id == KV_TRACE_NOBODY ? NULL : kv_world_backend(id);

	if (!b || st->n <= KV_TRACE_BACKENDS || t->listed >= KV_TRACE_BACKENDS)
		return;
	for (__u32 i = 0; i < KV_TRACE_BACKENDS; i++)
		if (i < t->listed && t->backends[i].backend == id)
			return;
	kv_trace_list(t, st, id, b, kv_wait(b, st->now), st->cost);
}

static __noinline int kv_trace_choice(struct kv_steer *st, struct kv_trace *t)
{
	struct kv_trace_walk walk = {st, t};
	__u32 rule = kv_rule(st);

	t->end = KV_TRACE_OPEN;
	t->decisions++;
	t->status = 0;
	t->answered_ns = 0;
	t->bytes = 0;
	t->total = st->need;
	t->rungs = st->query.n_rungs;
	t->looked = st->looked;
	t->session = st->query.session;
	t->service = st->query.service;
	t->best = st->choice.best;
	t->matched = st->choice.matched;
	t->own = st->choice.own;
	t->wait = st->choice.wait;
	t->price = st->choice.price;
	t->backend = st->choice.backend;
	t->intended = st->choice.intended;
	t->second = KV_TRACE_NOBODY;
	t->deepest = KV_TRACE_NOBODY;
	t->rule = rule;
	t->candidates = st->n > 255 ? 255 : st->n;
	t->listed = 0;
	t->flags &= KV_TRACE_AGENT;
	if (rule != KV_POLICY_ROUND_ROBIN && rule != KV_POLICY_HASH && rule != KV_POLICY_P2C)
		t->flags |= KV_TRACE_BY_COST;
	st->cost = ~0ull;
	kv_loop(st->n, kv_trace_step, &walk);
	kv_trace_second(st, t);
	return 0;
}

KV_INLINE void kv_trace_request(struct kv_trace *t, const struct kv_trace_from *from, __u64 now)
{
	t->at_ns = now;
	t->answered_ns = 0;
	t->ended_ns = 0;
	t->bytes = 0;
	t->tenant = from->tenant;
	t->model = from->model;
	__builtin_memcpy(t->client, from->client, sizeof(t->client));
	t->port = from->port;
	t->reason = from->reason;
	t->status = 0;
	t->decisions = 0;
	t->listed = 0;
	t->end = KV_TRACE_OPEN;
	t->flags = from->flags;
	t->zero = 0;
}

/* A new record, taken for writing: its number, or KV_TRACE_SKIPPED. */
KV_INLINE struct kv_trace *kv_trace_new(struct kv_tracing *tracing, __u64 *ret_number)
{
	struct kv_trace *t;

	*ret_number = KV_TRACE_SKIPPED;
	if (tracing->sample > 1 && kv_world_random() % tracing->sample)
		return NULL;
	*ret_number = kv_atomic_fetch_add(&tracing->next, 1);
	t = kv_trace_place(tracing, *ret_number);
	if (t && kv_trace_claim(t, *ret_number))
		return t;
	*ret_number = KV_TRACE_SKIPPED;
	kv_world_count(KV_CNT_trace_missed);
	return NULL;
}

static __noinline __u64 kv_trace_now(struct kv_tracing *tracing, struct kv_steer *st,
				     struct kv_trace_from *from)
{
	__u64 next = kv_read_once(tracing->next), number = 0;
	struct kv_trace *t = NULL;

	if (from->again == KV_TRACE_SKIPPED)
		return from->again;
	/* The low half says which of the last 2^32 it is. */
	if (from->again)
		t = kv_trace_open(next - (__u32)(next - from->again));
	if (t && t->end != KV_TRACE_AGAIN) {
		kv_trace_give(t); /* an earlier request of this connection */
		t = NULL;
	}
	if (t) {
		number = kv_trace_number(t->word);
		/* the lane that it is in now */
		t->flags = from->flags;
		if (from->flags & KV_TRACE_AGENT)
			t->reason = from->reason;
		if (from->model)
			t->model = from->model;
	} else {
		t = kv_trace_new(tracing, &number);
		if (!t)
			return number;
		kv_trace_request(t, from, st->now);
	}
	kv_trace_choice(st, t);
	kv_trace_give(t);
	return number;
}

/* A decision that is about to be charged: the number for its dispatch, 0 if nothing is traced. */
KV_INLINE __u64 kv_trace_decided(struct kv_steer *st, struct kv_trace_from *from)
{
	struct kv_tracing *tracing = kv_tracing_get();

	return tracing && tracing->sample ? kv_trace_now(tracing, st, from) : 0;
}

/* ---- what becomes of it -------------------------------------------------------------- */

/* The body of the final response has begun. */
KV_GLOBAL int kv_trace_answered(__u64 number, __u32 status)
{
	struct kv_trace *t = number ? kv_trace_open(number) : NULL;

	if (!t)
		return 0;
	if (!t->answered_ns) {
		t->answered_ns = kv_world_ns();
		t->status = status;
	}
	kv_trace_give(t);
	return 0;
}

/* flags: what is true of it from now on. */
KV_GLOBAL int kv_trace_flag(__u64 number, __u32 flags)
{
	struct kv_trace *t = number ? kv_trace_open(number) : NULL;

	if (!t)
		return 0;
	t->flags |= flags;
	kv_trace_give(t);
	return 0;
}

/* status: 0 keeps what was answered. What has ended stays so. closed: the client had closed its
 * side, and an engine that is told so may break off: that is the client's doing. */
KV_GLOBAL int kv_trace_ended(__u64 number, __u32 end, __u32 status, __u64 bytes, __u32 closed)
{
	struct kv_trace *t = number ? kv_trace_open(number) : NULL;

	if (!t)
		return 0;
	if (!KV_TRACE_ENDED(t->end)) {
		if (end == KV_TRACE_DONE && t->flags & KV_TRACE_CUT)
			end = KV_TRACE_BROKEN;
		if (closed && (end == KV_TRACE_BROKEN || end == KV_TRACE_FAILED))
			end = KV_TRACE_ABORTED;
		t->end = end;
		t->bytes = bytes;
		if (status)
			t->status = status;
		if (KV_TRACE_ENDED(end))
			t->ended_ns = kv_world_ns();
	}
	kv_trace_give(t);
	return 0;
}

/* A request that the gateway itself answers, and for which no backend was chosen. */
static __noinline int kv_trace_refused(struct kv_trace_from *from, const struct kv_query *query,
				       __u32 status)
{
	struct kv_tracing *tracing = kv_tracing_get();
	__u64 now = kv_world_ns(), number;
	struct kv_trace *t;

	if (!tracing || !tracing->sample)
		return 0;
	t = kv_trace_new(tracing, &number);
	if (!t)
		return 0;
	kv_trace_request(t, from, now);
	t->total = query->total;
	t->rungs = query->n_rungs;
	t->session = query->session;
	t->service = query->service;
	t->looked = 0;
	t->best = t->matched = t->own = t->wait = t->price = 0;
	t->backend = t->second = t->intended = t->deepest = KV_TRACE_NOBODY;
	t->rule = 0;
	t->candidates = 0;
	t->status = status;
	t->ended_ns = now;
	t->end = KV_TRACE_REFUSED;
	kv_trace_give(t);
	return 0;
}

#endif /* KVSTEER_TRACE_BPF_H */
