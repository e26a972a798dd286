/* SPDX-License-Identifier: BSD-2-Clause */
/* The gateway's own steering code, run over the pinned maps: asks, and changes nothing. */
#ifndef KVSTEER_CLI_STEERING_H
#define KVSTEER_CLI_STEERING_H

#include "view.h"

/* The backend is up and still has it. */
bool steering_live(__u64 holder, const struct kv_backend *backend);
/* By the engine's own events, which have been heard since. */
bool steering_told(__u64 holder, const struct kv_backend *backend);
/* Tokens that have entered the backend's cache since. */
__u64 steering_age(__u64 holder, const struct kv_backend *backend);
/* Tokens queued before a new request. */
__u64 steering_wait(const struct kv_backend *backend, __u64 now_ns);
/* Uncached tokens dispatched to all backends in the last 30 s, decaying. */
__u64 steering_used(const struct kv_service *service, __u64 now_ns);
/* What would be chosen for query now; -ENOENT: no backend takes requests. */
int steering_decide(const struct view *view, const struct kv_query *query, struct kv_choice *ret);

/* What the policy went by at one candidate. */
struct steering_candidate {
	__u32 backend;
	__u32 believed; /* tokens believed cached there … */
	__u32 matched;	/* … as far as that counts: */
	__u32 discount; /* … percent of it do not */
	__u32 own;	/* tokens it would compute for this request */
	__u32 wait;	/* tokens queued there before it */
	__u64 requests; /* in flight there; tokens: not yet computed of them, at dispatch */
	__u64 tokens;
	__u64 load; /* requests as least and hash count them: others' too */
	double wait_s;
	double own_s;
	double cost_s; /* what price, ttft, sticky and least compare */
	double chance; /* p2c: to be chosen */
	bool near;     /* sticky: holds enough to be kept to */
	bool full;     /* hash: at the bound */
};

struct steering_report {
	struct kv_choice choice;
	__u32 policy;
	__u32 rule;	/* the policy that decided: p2c where the service's has nothing to go by */
	__u32 need;	/* tokens of the prompt, reckoned from the body where not told */
	__u32 floor;	/* tokens: a shorter match does not count */
	__u32 affinity; /* enum kv_affinity: the service's */
	bool sampled;	/* too many backends to look at all: holders and two at random */
	bool chance;	/* the choice is the likeliest, not the only one possible */
	__u64 bound;	/* hash: requests in flight that a backend may not have yet */
	__u32 second;	/* what would be chosen were the choice not there; KV_NONE: nothing */
	__u32 deepest;	/* of those with the longest match the cheapest; KV_NONE: no match */
	__u32 n;
	struct steering_candidate candidates[KV_MAX_BACKENDS];
};

/* The same, and why; mask: only of these, or NULL. */
int steering_explain(const struct view *view, const struct kv_query *query, const __u64 *mask,
		     struct steering_report *ret);

#endif
