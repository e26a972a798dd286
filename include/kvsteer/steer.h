/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Steering: which backend serves a request, and what is learned from sending it there.
 *
 *	kv_steer_decide(st)          st->query -> st->choice; changes nothing that is
 *	                             shared but round-robin's turn
 *	kv_steer_commit(st, d)       charges the choice, learns the prompt, fills d
 *	kv_dispatch_timed(d)         of a stream, before the next: its backend's rate is learned
 *	kv_dispatch_answered(d)      first byte of the body: queue shrinks, learned entries hold
 *	kv_dispatch_refused(d)       the same of a refusal: the backend has nothing of the prompt
 *	kv_dispatch_finished(d)      end of the response, however it ended
 *	kv_dispatch_failed(d)        no response: everything taken back (also for a decision that
 *	                             was never carried out)
 *
 * The last four may be called in any order, any number of times and by several CPUs at once: each
 * charge is given back exactly once. Units are tokens everywhere; time is CLOCK_MONOTONIC in ns.
 *
 * Who includes this file first defines the world below: over BPF maps (bpf/lib) or over tables.
 * All of struct kv_steer is scratch but query, mask and choice; in BPF it lives in map memory, one
 * per CPU (or one per caller that is alone), and so must every struct kv_dispatch.
 */
#ifndef KVSTEER_STEER_H
#define KVSTEER_STEER_H

#include <asm-generic/errno-base.h>

#include "counters.h"
#include "fixed.h"
#include "prefixes.h"
#include "shared.h"

/* ---- the world ----------------------------------------------------------------------- */

/* Look up, NULL if there is none. Pointers stay readable until the program (the caller) ends;
 * an entry that is replaced meanwhile may then show another key's content. */
static struct kv_prefix_set *kv_world_prefix_set(__u64 hash); /* where it is if it is known */
static struct kv_session *kv_world_session(__u64 key);
static struct kv_backend *kv_world_backend(__u32 id);
static struct kv_service *kv_world_service(__u32 id);
/* Insert a zeroed entry unless there is one, then look it up. NULL: the table is full. */
static struct kv_session *kv_world_session_create(__u64 key);
static __u64 kv_world_ns(void);
static __u32 kv_world_random(void);
static void kv_world_count(enum kv_counter counter);

/* ---- constants of the policies (docs/design.md, section 5) ----------------------------- */

#define KV_SCAN_MAX 64 /* backends looked at one by one; beyond: holders and a sample */
#define KV_UTIL_TAU_NS 30000000000ull /* memory of the fleet's utilisation */
#define KV_UTIL_STEP_NS (1ull << 24)  /* 17 ms: it is not decayed more often than this */
#define KV_PRICE_MAX 16		/* of the first part of the price (load.h): u counts up to 16/17 */
#define KV_PRICE_TOP (1 << 20)	/* of both, in 1/1024: its product with a prompt fits 64 bits */
#define KV_LUCK_NONE 0xffffffff /* not drawn yet */
#define KV_LUCK_ALL 0xfffffffe	/* there is nobody else: weights and limits do not count */
#define KV_STICKY_KEEP 80	/* percent of the prompt that make a holder worth keeping to */
#define KV_STICKY_LEAD_MS 14000 /* queued work that a holder may have over the idlest */
#define KV_HASH_BOUND 125	/* percent of the mean load that a hashed backend may have */
#define KV_BYTES_PER_TOKEN 4	/* where only the body's length is known */

/* ---- state --------------------------------------------------------------------------- */

/* Worth of a place in a prefix entry, for a new holder: live ones by age / capacity, below these.
 */
#define KV_PLACE_DEAD (1ull << 61)
#define KV_PLACE_FREE (1ull << 62)
#define KV_PLACE_OWN (1ull << 63)

struct kv_steer {
	struct kv_query query;
	struct kv_choice choice;
	/* beside the query: of those backends only; the kernel's own decisions never set it */
	__u32 masked;
	__u32 zero;
	__u64 mask[KV_MAX_BACKENDS / 64];

	/* everything below is scratch: of a decision, and some of it for its commit */
	__u64 now;
	__u32 need; /* tokens of the prompt, reckoned from the body where not told */
	__u32 policy;
	__u32 floor;
	__u32 affinity;
	__u32 listed;  /* backends of the service, whatever their state */
	__u32 scan;    /* all that take requests are candidates; else holders and a sample */
	__u32 n;       /* candidates */
	__u32 matched; /* of them with a match */
	__u32 looked;  /* rungs looked up */
	__u32 absent;  /* bit per rung: looked up and not there, so not again for the commit */
	__u32 todo;    /* bit per rung: to be learned yet */
	__u32 luck;    /* drawn when a backend's weight asks for it; else KV_LUCK_* */
	__u32 weight;  /* of own work, in 1/1024 */
	__u64 rates;   /* sums over the candidates */
	__u64 requests;
	__u64 key; /* of policy hash */
	/* best so far of the loop at work */
	__u64 cost;
	__u64 tie;
	__u64 since;
	__u64 load;
	__u64 least_wait;
	__u64 least_tokens; /* queued where they take least time, and its rate */
	__u64 least_rate;
	__u64 near_wait;
	__u64 near_clock;
	__u32 near_match;
	__u32 near;
	__u32 pick;
	__u32 place;
	/* the rung at work */
	__u32 depth;
	__u32 prev;		  /* depth of the one before */
	__u64 holder[KV_HOLDERS]; /* a copy: the entry may change at any time */
	/* the chosen backend, while learning */
	__u64 clock;
	__u64 capacity;
	__u64 generation; /* of its cache: the clock when it began */
	__u64 entered;
	__u64 epoch;
	__u32 tier;    /* telling: where the blocks are */
	__u32 weighed; /* some match counts less than its depth: a shallower one may be worth more
			*/
	__u8 own[KV_MAX_RUNGS];		   /* its place in each rung's entry; KV_HOLDERS: none */
	__u16 tier_weight[KV_TIER_COUNT];  /* the service's */
	__u64 known[KV_MAX_BACKENDS / 64]; /* one bit per candidate */
	__u64 wait[KV_MAX_BACKENDS];	   /* tokens queued there, where known; not under hash */
	__u32 match[KV_MAX_BACKENDS];	   /* tokens believed held; valid where known */
	__u32 age[KV_MAX_BACKENDS]; /* tokens taken in since that was asked for; where held */
	__u16 candidate[KV_MAX_BACKENDS];
};

/* ---- entry points -------------------------------------------------------------------- */

#define KV_ENTRY static __noinline __attribute__((unused))

/* 0, or -ENOENT and choice.backend = KV_NONE when no backend takes this request. */
KV_ENTRY int kv_steer_decide(struct kv_steer *st);
KV_ENTRY void kv_steer_commit(struct kv_steer *st, struct kv_dispatch *d);
KV_ENTRY void kv_dispatch_timed(struct kv_dispatch *d);
KV_ENTRY void kv_dispatch_answered(struct kv_dispatch *d);
KV_ENTRY void kv_dispatch_refused(struct kv_dispatch *d);
KV_ENTRY void kv_dispatch_finished(struct kv_dispatch *d);
KV_ENTRY void kv_dispatch_failed(struct kv_dispatch *d);

#include "policy.h"
#include "learn.h"
#include "settle.h"

#endif /* KVSTEER_STEER_H */
