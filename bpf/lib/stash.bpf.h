/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Segments ahead of a hole, in a response whose framing must see every byte (a head, chunk lines).
 * The client gets them at once, so that its acks (SACK) have the backend send the missing one
 * again soon; their bytes are kept here until that has come, and are framed then.
 *
 * A client reads nothing behind the hole until it is filled, and it is filled only after what is
 * kept has been framed: if the response turns out to end before a byte that was passed on, the
 * connection is reset instead (kv_backend_commit).
 *
 * A fixed number of stashes; a pair that finds its own taken has such segments dropped, and sent
 * again. A stash stays its pair's for the pair's life.
 */
#ifndef KVSTEER_STASH_BPF_H
#define KVSTEER_STASH_BPF_H

#include "pair.bpf.h"

#define KV_STASHES 256
#define KV_STASH_STEP 256

struct kv_stash {
	__u64 owner; /* kv_stash_owner of a pair; 0: nobody's */
	__u8 bytes[KV_STASH_BYTES + KV_STASH_STEP];
};

KV_MAP(kv_stashes, BPF_MAP_TYPE_ARRAY, KV_STASHES, __u32, struct kv_stash, 0);

KV_INLINE __u64 kv_stash_owner(__u32 slot, __u32 gen)
{
	return (__u64)(slot + 1) << 32 | gen;
}

KV_INLINE struct kv_stash *kv_stash_of(__u32 slot)
{
	__u32 i = slot * 2654435761u >>
		  24; /* Fibonacci hashing: low slots of all backends are used most */

	return bpf_map_lookup_elem(&kv_stashes, &i);
}

/* Is that pair still under way? */
KV_INLINE bool kv_stash_held(__u64 owner)
{
	struct kv_upstream *u = kv_slot((__u32)(owner >> 32) - 1);

	return u && kv_read_once(u->state) == KV_UP_LENT && kv_read_once(u->gen) == (__u32)owner;
}

static __noinline struct kv_stash *kv_stash_claim(__u32 slot, __u32 gen)
{
	__u64 mine = kv_stash_owner(slot, gen), owner;
	struct kv_stash *stash = kv_stash_of(slot);

	if (!stash)
		return NULL;
	owner = kv_read_once(stash->owner);
	if (owner == mine)
		return stash;
	if (owner && kv_stash_held(owner))
		return NULL;
	return kv_atomic_cas(&stash->owner, owner, mine) == owner ? stash : NULL;
}

/* ---- keeping ------------------------------------------------------------------------- */

struct kv_stash_copy {
	struct __sk_buff *skb;
	struct kv_stash *stash;
	__u32 off; /* in the packet */
	__u32 end;
	__u32 pos; /* in the stash, of off */
};

static long kv_stash_step(__u32 i, void *ctx)
{
	struct kv_stash_copy *c = ctx;
	__u32 off = c->off + i * KV_STASH_STEP;
	__u64 n, pos = (c->pos + i * KV_STASH_STEP) & (KV_STASH_BYTES - 1);

	if (off >= c->end)
		return 1;
	n = c->end - off;
	if (n > KV_STASH_STEP)
		n = KV_STASH_STEP;
	asm volatile("" : "+r"(n));
	/* Signed, and two checks for two bounds: see kv_source_load. */
	if (n > KV_STASH_STEP)
		return 1;
	asm volatile("" : "+r"(n));
	if ((__s64)n <= 0)
		return 1;
	return bpf_skb_load_bytes(c->skb, off, c->stash->bytes + pos, n) ? 1 : 0;
}

/* Keeps the payload as the bytes from pos on. 0, or -1: no room, drop it. */
KV_GLOBAL int kv_stash_keep(struct __sk_buff *skb, const struct kv_packet *p, __u32 slot, __u32 gen,
			    __u32 pos)
{
	struct kv_stash_copy c = {.skb = skb, .pos = pos};

	if (!p || pos >= KV_STASH_BYTES || p->payload_len > KV_STASH_BYTES - pos)
		return -1;
	c.stash = kv_stash_claim(slot, gen);
	if (!c.stash)
		return -1;
	c.off = kv_payload_off(p);
	c.end = c.off + p->payload_len;
	kv_loop(KV_STASH_BYTES / KV_STASH_STEP, kv_stash_step, &c);
	return 0;
}

/* ---- framing what is kept ------------------------------------------------------------ */

/* The run that begins at the frontier, if there is one: framed, in scratch. 1: it was, *next is the
 * new frontier; 0: there is none; -1: the response ends before bytes that have been passed on. */
KV_GLOBAL int kv_stash_frame(__u32 slot, __u32 gen, __u32 base, __u32 *next)
{
	struct kv_scratch *scratch = kv_scratch_get();
	struct kv_stash *stash = kv_stash_of(slot);
	struct kv_source s = {};
	__u32 to;

	if (!scratch || !next || !stash)
		return -1;
	to = *next;
	for (int i = 0; i < KV_STASH_RUNS; i++) {
		const struct kv_run *run = &scratch->stashed[i];

		if (run->from != run->to && kv_seq_before_eq(run->from, *next) &&
		    kv_seq_after(run->to, *next))
			to = run->to;
	}
	s.len = to - *next;
	if (!s.len)
		return 0;
	s.stash = stash->bytes;
	s.base = *next - base;
	if (stash->owner != kv_stash_owner(slot, gen) ||
	    kv_framing_run(&scratch->framing, &s, 0, s.len) != s.len)
		return -1;
	*next = to;
	return 1;
}

/* ---- the runs that are kept; under the lock ------------------------------------------ */

KV_INLINE bool kv_stash_empty(const struct kv_pair *pair)
{
	__u32 any = 0;

#pragma unroll
	for (int i = 0; i < KV_STASH_RUNS; i++)
		any |= pair->stashed[i].from ^ pair->stashed[i].to;
	return !any;
}

/* Have runs been added since they were looked at? What is passed on between the look and the step
 * of the frontier has not been framed with it, and nobody would come by it again. */
KV_INLINE bool kv_stash_changed(const struct kv_pair *pair, const struct kv_run *looked)
{
	__u32 differ = 0;

#pragma unroll
	for (int i = 0; i < KV_STASH_RUNS; i++)
		differ |= (pair->stashed[i].from ^ looked[i].from) |
			  (pair->stashed[i].to ^ looked[i].to);
	return differ;
}

/* 0, or -1: too many. */
KV_INLINE int kv_stash_add(struct kv_pair *pair, __u32 from, __u32 to)
{
	bool done = false;

#pragma unroll
	for (int i = 0; i < KV_STASH_RUNS; i++) {
		struct kv_run *run = &pair->stashed[i];

		if (!done && run->from != run->to && kv_seq_before_eq(from, run->to) &&
		    kv_seq_after_eq(to, run->from)) {
			run->from = kv_seq_min(run->from, from);
			run->to = kv_seq_max(run->to, to);
			done = true;
		}
	}
#pragma unroll
	for (int i = 0; i < KV_STASH_RUNS; i++) {
		struct kv_run *run = &pair->stashed[i];

		if (!done && run->from == run->to) {
			run->from = from;
			run->to = to;
			done = true;
		}
	}
	return done ? 0 : -1;
}

/* Those that the frontier has passed. */
KV_INLINE void kv_stash_forget(struct kv_pair *pair)
{
#pragma unroll
	for (int i = 0; i < KV_STASH_RUNS; i++)
		if (kv_seq_before_eq(pair->stashed[i].to, pair->resp_next))
			pair->stashed[i].from = pair->stashed[i].to;
}

#endif /* KVSTEER_STASH_BPF_H */
