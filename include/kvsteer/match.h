/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Candidates for a request, and what each is believed to hold of its prompt. Included by policy.h.
 */
#ifndef KVSTEER_MATCH_H
#define KVSTEER_MATCH_H

#include "load.h"

/* bpf_loop takes its context from the stack: loops pass a pointer to the pointer to the state. */
#define kv_steer_of(ctx) (*(struct kv_steer **)(ctx))

/* ---- candidates ---------------------------------------------------------------------- */

KV_INLINE bool kv_is_candidate(const struct kv_steer *st, __u32 id)
{
	return st->known[kv_index(id / 64, KV_MAX_BACKENDS / 64)] >> (id & 63) & 1;
}

/* Not now: at its limit, or it starts slowly and others are to have this one. A request whose
 * prompt it holds is not new to it. */
KV_INLINE bool kv_passes(struct kv_steer *st, const struct kv_backend *b, bool holds)
{
	if (st->luck == KV_LUCK_ALL)
		return false;
	if (b->limit && kv_count(&b->inflight_requests) >= b->limit)
		return true;
	if (!b->weight || holds)
		return false;
	if (st->luck == KV_LUCK_NONE)
		st->luck = kv_world_random() % KV_WEIGHT_FULL;
	return st->luck >= b->weight;
}

/* Queues of hash and round-robin are not asked for. */
KV_INLINE void kv_wait_note(struct kv_steer *st, __u32 id, const struct kv_backend *b)
{
	__u64 wait = kv_wait(b, st->now), rate = kv_rate(b);

	st->wait[kv_index(id, KV_MAX_BACKENDS)] = wait;
	/* Compared as products, below 2^63, lest each costs a division. */
	if (wait * st->least_rate < st->least_tokens * rate) {
		st->least_tokens = wait;
		st->least_rate = rate;
	}
}

KV_INLINE void kv_candidate_add(struct kv_steer *st, __u32 id, bool holds)
{
	struct kv_backend *b = kv_world_backend(id);
	__u32 n = st->n;

	if (!b || id >= KV_MAX_BACKENDS || n >= KV_MAX_BACKENDS)
		return;
	if (b->state != KV_BACKEND_UP || id == st->query.exclude || kv_is_candidate(st, id))
		return;
	if (st->masked && !(st->mask[kv_index(id / 64, KV_MAX_BACKENDS / 64)] >> (id & 63) & 1))
		return;
	if (kv_passes(st, b, holds))
		return;
	st->known[kv_index(id / 64, KV_MAX_BACKENDS / 64)] |= 1ull << (id & 63);
	st->match[kv_index(id, KV_MAX_BACKENDS)] = 0;
	st->candidate[kv_index(n, KV_MAX_BACKENDS)] = id;
	st->n = n + 1;
	st->rates += kv_rate(b);
	st->requests += kv_requests(b);
	if (st->policy != KV_POLICY_HASH && st->policy != KV_POLICY_ROUND_ROBIN)
		kv_wait_note(st, id, b);
}

static long kv_scan_step(__u32 i, void *ctx)
{
	struct kv_steer *st = kv_steer_of(ctx);
	struct kv_service *svc = kv_world_service(st->query.service);

	if (!svc || i >= KV_MAX_BACKENDS)
		return 1;
	kv_candidate_add(st, svc->backends[kv_index(i, KV_MAX_BACKENDS)], false);
	return 0;
}

/* All backends of the service. */
static __noinline void kv_scan(struct kv_steer *st)
{
	kv_loop(st->listed, kv_scan_step, &st);
}

static long kv_sample_step(__u32 i, void *ctx)
{
	struct kv_steer *st = kv_steer_of(ctx);
	struct kv_service *svc = kv_world_service(st->query.service);
	__u32 at;

	(void)i;
	if (!svc || st->n >= 2)
		return 1;
	at = kv_world_random() % (st->listed ? st->listed : 1);
	kv_candidate_add(st, svc->backends[kv_index(at, KV_MAX_BACKENDS)], false);
	return 0;
}

/* ---- matches ------------------------------------------------------------------------- */

/* What is told to be in a slower tier is worth less than computing it saves. */
KV_INLINE __u32 kv_worth(struct kv_steer *st, __u64 holder, const struct kv_backend *b,
			 __u32 tokens)
{
	__u32 tier = kv_holder_tier(holder);

	if (!tier || !kv_holder_told(holder, b))
		return tokens;
	st->weighed = 1;
	return (__u64)tokens * st->tier_weight[kv_index(tier, KV_TIER_COUNT)] / KV_TIER_WHOLE;
}

/* Percent of what a backend is believed to hold that do not count. */
KV_INLINE __u32 kv_discount(const struct kv_steer *st, const struct kv_backend *b)
{
	return kv_affinity_discount(st->affinity, b);
}

/* Tokens of its match that count. */
KV_INLINE __u32 kv_matched(const struct kv_steer *st, __u32 id, const struct kv_backend *b)
{
	return kv_discounted(st->match[kv_index(id, KV_MAX_BACKENDS)], kv_discount(st, b));
}

/* In a fleet too large to scan, holders become candidates by being found. */
KV_INLINE void kv_match_note(struct kv_steer *st, __u64 holder, __u32 tokens)
{
	__u32 id = kv_holder_backend(holder);
	struct kv_backend *b;

	/* known to hold as much already: none is worth more than its depth */
	if (kv_is_candidate(st, id) && st->match[kv_index(id, KV_MAX_BACKENDS)] >= tokens)
		return;
	b = kv_world_backend(id);
	if (!b || id >= KV_MAX_BACKENDS || !kv_holder_live(holder, b))
		return;
	tokens = kv_worth(st, holder, b, tokens);
	if (!tokens || tokens < st->floor)
		return;
	if (!kv_is_candidate(st, id)) {
		if ((st->scan && !b->weight) || b->service != st->query.service)
			return;
		kv_candidate_add(st, id, true);
		if (!kv_is_candidate(st, id))
			return;
	}
	id = kv_index(id, KV_MAX_BACKENDS);
	if (st->match[id] >= tokens)
		return;
	if (!st->match[id])
		st->matched++;
	st->match[id] = tokens;
	st->age[id] = kv_saturate(kv_holder_age(holder, b->clock));
	tokens = kv_discounted(tokens, kv_discount(st, b));
	if (tokens > st->choice.best)
		st->choice.best = tokens;
}

static long kv_match_holder_step(__u32 j, void *ctx)
{
	struct kv_steer *st = kv_steer_of(ctx);
	__u64 holder = st->holder[kv_index(j, KV_HOLDERS)];

	if (holder)
		kv_match_note(st, holder, st->depth);
	return 0;
}

/* All rungs' places, one soon after the other, so that they come from memory together: between two
 * look-ups there are more instructions than a CPU has in hand at a time. */
static long kv_fetch_rung_step(__u32 i, void *ctx)
{
	const struct kv_steer *st = kv_steer_of(ctx);
	__u64 hash = st->query.rungs[kv_index(i, KV_MAX_RUNGS)].hash;
	const struct kv_prefix_set *set = kv_world_prefix_set(hash);

	if (set)
		kv_prefix_fetch(set, hash);
	return 0;
}

/* Deepest rung first: a backend's first live entry is its match. */
static long kv_match_rung_step(__u32 i, void *ctx)
{
	struct kv_steer *st = kv_steer_of(ctx);
	__u32 at = kv_index(st->query.n_rungs - 1 - i, KV_MAX_RUNGS);
	__u64 hash = st->query.rungs[at].hash;

	st->depth = st->query.rungs[at].depth;
	if (st->depth < st->floor)
		return 1;
	st->looked++;
	if (!kv_prefix_read(st->holder, kv_world_prefix_set(hash), hash)) {
		st->absent |= 1u << at;
		return 0;
	}
	kv_loop(KV_HOLDERS, kv_match_holder_step, &st);
	return st->scan && st->matched == st->n && !st->weighed;
}

/*
 * A session says where its last request went and how long that was; what this one is longer by
 * is new. One that is shorter has been cut, and what it was cut by is taken to differ too. Rungs,
 * where there are any, know better: one session key may carry several conversations.
 */
KV_INLINE void kv_match_session(struct kv_steer *st)
{
	struct kv_session *s = kv_world_session(st->query.session);
	__u64 was, is;

	if (!s || !s->holder)
		return;
	was = s->total;
	is = st->query.total;
	if (!was || !is) {
		was = s->body_len;
		is = st->query.body_len;
	}
	if (is < was)
		was = 2 * is > was ? 2 * is - was : 0;
	if (!st->query.total || !s->total)
		was /= KV_BYTES_PER_TOKEN;
	kv_match_note(st, s->holder, kv_saturate(was));
}

#endif /* KVSTEER_MATCH_H */
