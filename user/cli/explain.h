/* SPDX-License-Identifier: BSD-2-Clause */
/* kvsteer explain: a request that is not sent, what the gateway would do with it, and why. */
#ifndef KVSTEER_CLI_EXPLAIN_H
#define KVSTEER_CLI_EXPLAIN_H

#include <kvsteer/lane.h>

#include "hash.h"
#include "steering.h"

struct explain_options {
	const char *file;
	const char *hint;
	const char *session;
	const char *service;
	const char *as;
	struct hash_options hash;
};

/* A request as the gateway's own parser reads it. */
struct explain_request {
	struct kv_request head;
	struct kv_query query;
	enum kv_counter why; /* what keeps it out of the express lane; KV_CNT_MAX: nothing */
	const char *prompt;  /* what says the prompt: "hint", "body", "session", "none" */
	bool masked;	     /* only backends of the mask serve its model */
	__u64 mask[KV_MAX_BACKENDS / 64];
	bool tenants;		/* the gateway keeps them apart */
	const char *unreadable; /* why the body's prompt could not be read; NULL */
};

struct explain {
	const struct view *view;
	struct explain_request request;
	struct kv_prefix rungs[KV_MAX_RUNGS]; /* entries of query.rungs; zero: not known */
	__u64 home;			      /* the session's holder, 0: none */
	struct steering_report report;
	int err; /* -ENOENT: no backend takes requests */
};

/* 0, or an exit code after the error was told; also for what the gateway would refuse. */
int explain_read(struct cli *cli, const struct view *view, struct explain_options *o,
		 struct explain_request *ret);

const char *explain_lane(const struct explain_request *request);
/* Why a backend is no candidate; NULL: it is one. */
const char *explain_no_candidate(const struct explain *e, __u32 id);
/* NULL: no candidate. */
const struct steering_candidate *explain_candidate(const struct explain *e, __u32 id);

/* The policy compares what candidates cost in time. */
static inline bool explain_has_cost(const struct steering_report *r)
{
	return r->rule == KV_POLICY_PRICE || r->rule == KV_POLICY_TTFT ||
	       r->rule == KV_POLICY_STICKY;
}

void explain_text(const struct explain *e);
int explain_json(struct cli *cli, const struct explain *e);

#endif
