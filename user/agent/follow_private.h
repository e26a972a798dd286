/* SPDX-License-Identifier: BSD-2-Clause */
/* What the parts of the agent's following share. */
#ifndef AGENT_FOLLOW_PRIVATE_H
#define AGENT_FOLLOW_PRIVATE_H

#include "agent/follow.h"
#include "common/pins.h"
#include "common/rate.h"
#include "engines/page_server.h"

/* A backend as the follower knows it, and what the follower has said of it. */
struct followed {
	bool known;
	bool draining;
	bool held;
	char name[KV_NAME_LEN];
	struct kv_addr addr;
	__u32 service;
	__u64 capacity;		     /* as the engine says; 0: it has not */
	__u64 answers, errors, busy; /* the map's sums as handed on */
	__u32 successes;	     /* of the agent, not yet handed on */
};

struct following {
	struct agent *agent;
	struct follow *follow;
	struct page_server *server;
	struct kv_pins *pins; /* counters, for the page; NULL: the maps are not pinned */
	struct kv_timer second;
	double started;
	bool looked; /* once at all backends */
	struct followed backends[KV_MAX_BACKENDS];
	struct rate rates[KV_MAX_BACKENDS];
};

static inline struct kv_backend *following_backend(const struct following *f, __u32 id)
{
	return id < f->agent->dp.max_backends ? &f->agent->dp.backends[id] : NULL;
}

/* To the follower what the kernel has passed on, and we have, since the last time. */
void following_hand_on(struct following *f, __u32 id);

/* What the follower tells. */
extern const struct follow_calls following_calls;

/* The pages. Prints what fails. */
int following_serve(struct following *f, const struct kv_addr *http);
void following_serve_end(struct following *f);

#endif
