/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Deciding between candidates. Included by steer.h. */
#ifndef KVSTEER_POLICY_H
#define KVSTEER_POLICY_H

#include "match.h"

/* ---- policies ------------------------------------------------------------------------ */

/* What a backend would cost: time, so that unequal engines compare. */
KV_INLINE __u64 kv_cost(const struct kv_steer *st, const struct kv_backend *b, __u64 wait,
			__u32 match)
{
	return kv_time(wait * 1024 + (__u64)kv_left(st->need, match) * st->weight, b);
}

/* Worth keeping to, under sticky. */
KV_INLINE bool kv_near(const struct kv_steer *st, __u32 match)
{
	return match && (__u64)match * 100 >= (__u64)st->need * KV_STICKY_KEEP;
}

/*
 * Of equal costs the least. The cache that has taken in least is the one with room for what is new.
 * Among those that hold as much of the prompt, what each has taken in since it was asked for that
 * counts once more: so the one that was asked last goes on, and what others hold ages away, until
 * its cache takes in twice as much as theirs. But a belief that does not count whole is put to the
 * test where that costs nothing: so it is seen when it has become worth more again.
 */
KV_INLINE __u64 kv_tie(const struct kv_steer *st, __u32 id, const struct kv_backend *b, __u32 match)
{
	__u32 at = kv_index(id, KV_MAX_BACKENDS), believed = st->match[at];

	if (believed && st->affinity == KV_AFFINITY_AUTO && kv_discount(st, b))
		return kv_left(st->need, believed);
	/* more than is left of any prompt, and than any age */
	return b->clock + (1ull << 32) + (match ? st->age[at] : 1ull << 32);
}

static long kv_score_step(__u32 i, void *ctx)
{
	struct kv_steer *st = kv_steer_of(ctx);
	__u32 id = st->candidate[kv_index(i, KV_MAX_BACKENDS)];
	struct kv_backend *b = kv_world_backend(id);
	__u64 wait, cost, tie, since;
	__u32 match;

	if (!b)
		return 0;
	match = kv_matched(st, id, b);
	wait = st->wait[kv_index(id, KV_MAX_BACKENDS)];
	cost = kv_cost(st, b, wait, match);
	tie = kv_tie(st, id, b, match);
	since = 0;
	/* The fewest requests, then whose queue has not moved for longest, so that equals take
	 * turns. */
	if (st->policy == KV_POLICY_LEAST) {
		tie = kv_requests(b);
		since = kv_read_once(b->head_ns);
	}
	if (cost < st->cost ||
	    (cost == st->cost && (tie < st->tie || (tie == st->tie && since < st->since)))) {
		st->cost = cost;
		st->tie = tie;
		st->since = since;
		st->pick = id;
	}
	if (st->policy != KV_POLICY_STICKY)
		return 0;
	wait = kv_time(wait * 1024, b);
	if (wait < st->least_wait)
		st->least_wait = wait;
	if (!kv_near(st, match))
		return 0;
	if (wait < st->near_wait ||
	    (wait == st->near_wait &&
	     (match > st->near_match || (match == st->near_match && b->clock < st->near_clock)))) {
		st->near = id;
		st->near_wait = wait;
		st->near_match = match;
		st->near_clock = b->clock;
	}
	return 0;
}

/* As of now, for this request's candidates. */
KV_INLINE __u32 kv_price_now(struct kv_steer *st, const struct kv_service *svc)
{
	__u64 rates = st->rates;
	__u32 n = st->n;

	if (!st->scan) { /* a sample */
		rates = rates / n * st->listed;
		n = st->listed;
	}
	return kv_price(kv_used(svc, st->now), rates, kv_came(svc, st->now) / n,
			kv_time_at(st->least_tokens * 1024, st->least_rate));
}

/*
 * price: own work is paid by all who come after, waiting by this request alone, so own work weighs
 * 1 + p (kv_price). No threshold and no release rule: an idle fleet minimises the time to the first
 * token, a busy one saves work. ttft: p = 0. least: waiting alone.
 * sticky: among holders of most of the prompt the least loaded, unless its queue leads by too
 * much, then as ttft (llm-d's rule of August 2026, to compare with).
 */
KV_INLINE void kv_choose_cost(struct kv_steer *st)
{
	st->weight = st->policy == KV_POLICY_LEAST ? 0 : 1024 + st->choice.price;
	st->cost = st->tie = st->since = st->least_wait = st->near_wait = ~0ull;
	st->near_clock = 0;
	st->near_match = 0;
	st->near = KV_NONE;
	kv_loop(st->n, kv_score_step, &st);
	st->choice.intended = st->pick;
	if (st->near == KV_NONE)
		return;
	st->choice.intended = st->near;
	if (st->near_wait - st->least_wait <= KV_STICKY_LEAD_MS * 1024ull)
		st->pick = st->near;
}

KV_INLINE __u32 kv_candidate(const struct kv_steer *st, __u32 at)
{
	return st->candidate[kv_index(at, KV_MAX_BACKENDS)];
}

/* Is b less loaded than a, by more than nothing? */
KV_INLINE bool kv_less_loaded(const struct kv_steer *st, const struct kv_backend *b,
			      const struct kv_backend *a)
{
	__u64 wait_a = kv_time(kv_wait(a, st->now) * 1024, a);
	__u64 wait_b = kv_time(kv_wait(b, st->now) * 1024, b);

	return wait_b < wait_a || (wait_b == wait_a && kv_requests(b) < kv_requests(a));
}

/* Two at random, the less loaded of them: what is left when nothing can be known of a request.
 * A sampled fleet has drawn its two already. */
KV_INLINE void kv_choose_p2c(struct kv_steer *st)
{
	__u32 one = 0, two = 1, n = st->n;
	struct kv_backend *a, *b;

	st->pick = kv_candidate(st, 0);
	if (n >= 2) {
		if (st->scan) {
			one = kv_world_random() % n;
			two = kv_world_random() % (n - 1);
			two += two >= one;
		}
		st->pick = kv_candidate(st, one);
		a = kv_world_backend(st->pick);
		b = kv_world_backend(kv_candidate(st, two));
		if (a && b && kv_less_loaded(st, b, a))
			st->pick = kv_candidate(st, two);
	}
	st->choice.intended = st->pick;
}

/* Of this request at a backend, under hash. */
KV_INLINE __u64 kv_hash_weight(const struct kv_steer *st, __u32 id)
{
	return kv_mix(st->key ^ kv_mix(id + 1));
}

/* Highest random weight; st->load is the bound, st->cost and st->tie the best weights so far
 * among all and among those below the bound. */
static long kv_hash_step(__u32 i, void *ctx)
{
	struct kv_steer *st = kv_steer_of(ctx);
	__u32 id = kv_candidate(st, i);
	struct kv_backend *b = kv_world_backend(id);
	__u64 weight = kv_hash_weight(st, id);

	if (!b)
		return 0;
	if (weight >= st->cost) {
		st->cost = weight;
		st->choice.intended = id;
	}
	if (weight >= st->tie && kv_requests(b) < st->load) {
		st->tie = weight;
		st->pick = id;
	}
	return 0;
}

/* Rendezvous hashing with bounded load: the key's home, or while that has more than its share of
 * the requests in flight, the next one. No memory: the same key goes the same way anywhere. */
KV_INLINE void kv_choose_hash(struct kv_steer *st)
{
	st->load = (KV_HASH_BOUND * (st->requests + 1) + 100 * st->n - 1) / (100 * st->n);
	st->cost = st->tie = 0;
	kv_loop(st->n, kv_hash_step, &st);
	if (st->pick == KV_NONE) /* the counts moved under us */
		st->pick = st->choice.intended;
}

/* The shallowest rung that is worth something: what a group of prompts has in common. */
static long kv_key_step(__u32 i, void *ctx)
{
	struct kv_steer *st = kv_steer_of(ctx);

	i = kv_index(i, KV_MAX_RUNGS);
	st->key = st->query.rungs[i].hash;
	return st->query.rungs[i].depth >= st->floor;
}

/* The policy, where it has something to go by: without a key, or a prompt to compute, only load is
 * left. st->key is set. */
KV_INLINE __u32 kv_rule(const struct kv_steer *st)
{
	if (st->policy == KV_POLICY_ROUND_ROBIN || st->policy == KV_POLICY_LEAST)
		return st->policy;
	if (st->policy == KV_POLICY_HASH)
		return st->key ? KV_POLICY_HASH : KV_POLICY_P2C;
	return st->need ? st->policy : KV_POLICY_P2C;
}

KV_INLINE void kv_choose(struct kv_steer *st, __u32 turn)
{
	__u32 rule;

	st->pick = KV_NONE;
	st->key = st->query.session;
	if (st->policy == KV_POLICY_HASH && !st->key)
		kv_loop(st->query.n_rungs, kv_key_step, &st);

	rule = kv_rule(st);
	if (rule == KV_POLICY_ROUND_ROBIN)
		st->choice.intended = st->pick = kv_candidate(st, turn % st->n);
	else if (rule == KV_POLICY_HASH)
		kv_choose_hash(st);
	else if (rule == KV_POLICY_P2C)
		kv_choose_p2c(st);
	else
		kv_choose_cost(st);
}

/* ---- the decision -------------------------------------------------------------------- */

KV_INLINE void kv_steer_reset(struct kv_steer *st)
{
	__builtin_memset(&st->choice, 0, sizeof(st->choice));
	st->choice.backend = KV_NONE;
	st->choice.intended = KV_NONE;
	__builtin_memset(st->known, 0, sizeof(st->known));
	if (st->query.n_rungs > KV_MAX_RUNGS)
		st->query.n_rungs = KV_MAX_RUNGS;
	st->need = st->query.total;
	if (!st->need)
		st->need = kv_saturate(st->query.body_len / KV_BYTES_PER_TOKEN);
	st->now = kv_world_ns();
	st->n = 0;
	st->matched = 0;
	st->looked = 0;
	st->absent = 0;
	st->weighed = 0;
	st->rates = 0;
	st->requests = 0;
	st->least_tokens = KV_WAIT_MAX;
	st->least_rate = 1;
	st->luck = KV_LUCK_NONE;
}

KV_ENTRY int kv_steer_decide(struct kv_steer *st)
{
	struct kv_service *svc = kv_world_service(st->query.service);
	struct kv_backend *b;
	__u32 turn = 0;

	kv_steer_reset(st);
	if (!svc)
		return -ENOENT;
	st->policy = svc->policy;
	st->floor = svc->floor;
	st->affinity = svc->affinity;
	__builtin_memcpy(st->tier_weight, svc->events.weight, sizeof(st->tier_weight));
	st->listed = svc->n_backends;
	st->scan = st->listed <= KV_SCAN_MAX || st->policy == KV_POLICY_HASH ||
		   st->policy == KV_POLICY_ROUND_ROBIN;
	if (st->policy == KV_POLICY_ROUND_ROBIN)
		turn = kv_atomic_fetch_add(&svc->turn, 1);

	if (!st->scan)
		kv_loop(8, kv_sample_step, &st);
	if (!st->n) { /* also a large fleet that is mostly down */
		st->scan = 1;
		kv_scan(st);
	}
	if (!st->n) {
		st->luck = KV_LUCK_ALL;
		kv_scan(st);
	}
	if (!st->n)
		return -ENOENT;
	if (KV_FETCHES && st->query.n_rungs > 1)
		kv_loop(st->query.n_rungs, kv_fetch_rung_step, &st);
	if (st->query.n_rungs)
		kv_loop(st->query.n_rungs, kv_match_rung_step, &st);
	else if (st->query.session)
		kv_match_session(st);

	if (st->policy == KV_POLICY_PRICE)
		st->choice.price = kv_price_now(st, svc);
	kv_choose(st, turn);

	b = kv_world_backend(st->pick);
	if (!b)
		return -ENOENT;
	st->choice.backend = st->pick;
	st->choice.matched = kv_matched(st, st->pick, b);
	st->choice.believed = st->match[kv_index(st->pick, KV_MAX_BACKENDS)];
	st->choice.total = st->need;
	st->choice.own = kv_left(st->need, st->choice.matched);
	st->choice.wait = kv_saturate(kv_wait(b, st->now));
	return 0;
}

#endif /* KVSTEER_POLICY_H */
