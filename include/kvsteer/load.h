/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is read off a backend, a holder, a service: load, life, utilisation. Included by steer.h. */
#ifndef KVSTEER_LOAD_H
#define KVSTEER_LOAD_H

KV_INLINE __u32 kv_saturate(__u64 x)
{
	return x > 0xffffffff ? 0xffffffff : x;
}

/* What is left to compute of a prompt. */
KV_INLINE __u32 kv_left(__u32 need, __u32 matched)
{
	return need > matched ? need - matched : 0;
}

/* ---- backends ------------------------------------------------------------------------ */

KV_INLINE __u64 kv_rate(const struct kv_backend *b)
{
	return b->rate ? b->rate : 1;
}

/* A count in flight. Below zero it would be another's fault; it must not look like a full queue. */
KV_INLINE __u64 kv_count(const __u64 *count)
{
	__u64 n = kv_read_once(*count);

	return n >> 63 ? 0 : n;
}

/* Requests there, ours and, by its own report, others'. */
KV_INLINE __u64 kv_requests(const struct kv_backend *b)
{
	return kv_count(&b->inflight_requests) + kv_read_once(b->foreign_requests);
}

#define KV_WAIT_MAX (1ull << 33) /* more than kv_wait returns */

/*
 * Tokens queued before a new request. The prefill at the head of the queue has been going on since
 * head_ns, so part of it is done by now: counting it whole makes a busy engine look up to one
 * prompt further behind than it is, and on real traces costs 10 to 40 % of the mean time to first
 * token. An engine that stalls must not look idle for that, so no more is taken off than the
 * largest request that may be at the head.
 */
KV_INLINE __u64 kv_wait(const struct kv_backend *b, __u64 now)
{
	__u64 tokens = kv_saturate(kv_count(&b->inflight_tokens)), since = kv_read_once(b->head_ns);
	__u64 head = kv_read_once(b->head_tokens), done = 0;
	__u64 foreign = kv_saturate(kv_read_once(b->foreign_tokens));

	if (!tokens)
		return foreign;
	if (now > since)
		done = kv_saturate((now - since) / 1000) * kv_rate(b) / 1000000;
	if (done > head)
		done = head;
	return foreign + (tokens > done ? tokens - done : 0);
}

/* Two CPUs at once may leave the smaller of their requests as the largest: a little early. */
KV_INLINE void kv_queue_add(struct kv_backend *b, __u64 now, __u32 tokens)
{
	if (!kv_atomic_fetch_add(&b->inflight_tokens, tokens)) {
		kv_write_once(b->head_ns, now);
		kv_write_once(b->head_tokens, tokens);
	} else if (tokens > kv_read_once(b->head_tokens)) {
		kv_write_once(b->head_tokens, tokens);
	}
}

KV_INLINE void kv_queue_remove(struct kv_backend *b, __u64 now, __u32 tokens)
{
	kv_atomic_add(&b->inflight_tokens, -(__u64)tokens);
	kv_write_once(b->head_ns, now);
}

/* 1/1024 tokens at a rate, in 1/1024 ms. */
KV_INLINE __u64 kv_time_at(__u64 tokens1024, __u64 rate)
{
	return tokens1024 * 1000 / rate;
}

KV_INLINE __u64 kv_time(__u64 tokens1024, const struct kv_backend *b)
{
	return kv_time_at(tokens1024, kv_rate(b));
}

/* ---- holders ------------------------------------------------------------------------- */

#define KV_CLOCK_MASK ((1ull << 40) - 1)
#define KV_CLOCK_AHEAD (1ull << 32) /* an entry may be newer than our reading of the clock */

/* Tokens that have entered the backend's cache since: estimates the LRU stack distance. */
KV_INLINE __u64 kv_holder_age(__u64 holder, __u64 clock)
{
	__u64 age = (clock - kv_holder_clock(holder)) & KV_CLOCK_MASK;

	return age > KV_CLOCK_MASK - KV_CLOCK_AHEAD ? 0 : age;
}

/* The engine itself says so, and has not lost its thread since. */
KV_INLINE bool kv_holder_told(__u64 holder, const struct kv_backend *b)
{
	return holder & KV_HOLDER_TOLD &&
	       ((kv_holder_clock(holder) - b->told_from) & KV_CLOCK_MASK) <= KV_CLOCK_MASK / 2;
}

KV_INLINE bool kv_holder_live(__u64 holder, const struct kv_backend *b)
{
	if (b->state != KV_BACKEND_UP || kv_holder_epoch(holder) != (b->epoch & 0xfff))
		return false;
	return kv_holder_told(holder, b) || kv_holder_age(holder, b->clock) < b->capacity;
}

/* ---- utilisation --------------------------------------------------------------------- */

/* A sum of the service's that decays with KV_UTIL_TAU_NS, as of now. */
KV_INLINE __u64 kv_faded(const struct kv_service *svc, const __u64 *sum, __u64 now)
{
	__u64 was = kv_count(sum), at = kv_read_once(svc->used_at);

	/* Clocks of two CPUs may differ by a little. */
	return now > at ? kv_scale(was, kv_exp_decay(now - at, KV_UTIL_TAU_NS)) : was;
}

/* Uncached tokens dispatched. */
KV_INLINE __u64 kv_used(const struct kv_service *svc, __u64 now)
{
	return kv_faded(svc, &svc->used_tokens, now);
}

/* Requests dispatched, in 1/1024. */
KV_INLINE __u64 kv_came(const struct kv_service *svc, __u64 now)
{
	return kv_faded(svc, &svc->used_requests, now);
}

KV_INLINE void kv_fade(__u64 *sum, __u64 factor)
{
	__u64 was = kv_count(sum);

	kv_atomic_add(sum, kv_scale(was, factor) - was);
}

/* Decays in steps, so that rounding does not matter and many CPUs need no lock: who moves
 * used_at takes off what has faded since. */
KV_INLINE void kv_used_add(struct kv_service *svc, __u64 now, __u32 tokens)
{
	__u64 at = kv_read_once(svc->used_at), factor;

	if (now > at && now - at >= KV_UTIL_STEP_NS &&
	    kv_atomic_cas(&svc->used_at, at, now) == at) {
		factor = kv_exp_decay(now - at, KV_UTIL_TAU_NS);
		kv_fade(&svc->used_tokens, factor);
		kv_fade(&svc->used_requests, factor);
	}
	kv_atomic_add(&svc->used_tokens, tokens);
	kv_atomic_add(&svc->used_requests, 1024);
}

/*
 * What a second of own work costs those who come after, in 1/1024 s: as many of them as come before
 * the queue that it lengthens is empty again wait so much longer.
 *
 *	p = u / (1 - u) + λ w / (1 - u)		u = used / (rate × 30 s), λ = came / 30 s
 *
 * The first is the queue that a request meets by chance. The second is the one that is there: w,
 * the shortest in the fleet, as nobody can avoid that one; at 1 - u it is worked off, and λ come to
 * each engine until then. It counts for 30 s at most: nothing more is known of the load.
 */
KV_INLINE __u32 kv_price(__u64 used, __u64 rate, __u64 came, __u64 wait)
{
	const __u64 tau_ms = KV_UTIL_TAU_NS / 1000000;
	__u64 all = rate * (tau_ms / 1000), room, price, busy;

	if (used * (KV_PRICE_MAX + 1) >= all * KV_PRICE_MAX) {
		room = all / (KV_PRICE_MAX + 1) + 1;
		price = KV_PRICE_MAX * 1024;
	} else {
		room = all - used;
		price = used * 1024 / room;
	}
	busy = wait < tau_ms * 1024 ? wait * 1024 / tau_ms : 1 << 20; /* of 30 s, in 2^-20 */
	busy = busy * all / room;
	if (busy > 1 << 20)
		busy = 1 << 20;
	price += (__u64)kv_saturate(came) * busy >> 20;
	return price < KV_PRICE_TOP ? price : KV_PRICE_TOP;
}

#endif /* KVSTEER_LOAD_H */
