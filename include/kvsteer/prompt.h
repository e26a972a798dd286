/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Prompts: what a request says about its own, what was decided, who holds what. Included by
 * shared.h. */
#ifndef KVSTEER_PROMPT_H
#define KVSTEER_PROMPT_H

struct kv_rung {
	__u64 hash;  /* chain hash of the prompt up to depth */
	__u32 depth; /* tokens */
	__u32 zero;
};

/* What a request says about its prompt: from the KV-Prefix header (express lane) or from
 * the agent, which hashed the body. Rungs by rising depth. */
struct kv_query {
	__u32 service;
	__u32 total;	/* prompt length in tokens, 0 = not known */
	__u64 session;	/* hash of the session key, 0 = none */
	__u64 body_len; /* bytes, for requests whose token count is not known */
	__u32 n_rungs;
	__u32 exclude; /* backend not to choose (it has just failed), KV_NONE = none */
	struct kv_rung rungs[KV_MAX_RUNGS];
};

/* How it was decided. */
struct kv_choice {
	__u32 backend;	/* KV_NONE: no backend takes requests */
	__u32 matched;	/* tokens counted on to be cached there */
	__u32 best;	/* tokens of the longest match anywhere */
	__u32 own;	/* tokens of prefill this request costs there */
	__u32 wait;	/* tokens queued there before it */
	__u32 price;	/* p of the price policy, in 1/1024 */
	__u32 intended; /* backend to be learned as home: the choice, unless diverted */
	__u32 believed; /* tokens believed cached there, whether that counts or not */
	__u32 total;	/* tokens of the prompt, reckoned from the body where not told */
	__u32 zero;
};

/* A holder is one word, so that it changes in one atomic step:
 * clock (40 bits) | epoch (12) | tier (2) | backend (8) | flags (2). 0 = empty. */
#define KV_HOLDER_TENTATIVE 1ull /* the request that taught it has not been answered yet */
#define KV_HOLDER_TOLD 2ull	 /* from the engine's own events, not learned at dispatch */
#define KV_HOLDER_TIER(tier) ((__u64)(tier) << 10) /* flag: where it is, if it was told */
#define KV_HOLDER_TIER_MASK KV_HOLDER_TIER(KV_TIER_COUNT - 1)
/* A tentative one's backend and flag. */
#define KV_HOLDER_TENTATIVE_OF(backend) ((__u64)(backend) << 2 | KV_HOLDER_TENTATIVE)

/* Tiers as engines name them: GPU, CPU, disk, external. */
#define KV_TIER_COUNT 4
#define KV_TIER_WHOLE 256 /* weight of what is as good as in the GPU */

KV_INLINE __u64 kv_holder_make(__u32 backend, __u32 epoch, __u64 clock, __u64 flags)
{
	return clock << 24 | (__u64)(epoch & 0xfff) << 12 | (__u64)(backend & 0xff) << 2 | flags;
}

KV_INLINE __u32 kv_holder_backend(__u64 h)
{
	return h >> 2 & 0xff;
}

KV_INLINE __u32 kv_holder_tier(__u64 h)
{
	return h >> 10 & (KV_TIER_COUNT - 1);
}

KV_INLINE __u32 kv_holder_epoch(__u64 h)
{
	return h >> 12 & 0xfff;
}

KV_INLINE __u64 kv_holder_clock(__u64 h)
{
	return h >> 24;
}

/* Each word is bound to the entry's prefix (prefixes.h). */
struct kv_prefix {
	__u64 holder[KV_HOLDERS];
};

#define KV_WAYS 8

/* Hashes, ages, and each entry lie in a cache line of their own. */
struct kv_prefix_set {
	__u64 hash[KV_WAYS];	/* 0: free */
	__u32 touched[KV_WAYS]; /* when a holder was last entered, in ticks */
	__u32 busy;		/* a CPU is entering a prefix */
	__u32 zero[7];
	struct kv_prefix entry[KV_WAYS];
};
_Static_assert(sizeof(struct kv_prefix_set) == 64 * (KV_WAYS + 2), "whole cache lines");

struct kv_session {
	__u64 holder;
	__u64 body_len; /* bytes of its last request's body */
	__u32 total;	/* tokens of its last request's prompt, 0 = not known */
	__u32 zero;
};

#endif /* KVSTEER_PROMPT_H */
