/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The agent's side of following engines (user/engines/): from the maps to the follower, and back.
 * Which engines there are is read from the maps each second, so that it does not matter who adds
 * and removes them.
 */
#ifndef AGENT_FOLLOW_H
#define AGENT_FOLLOW_H

#include "agent/agent.h"
#include "engines/follow.h"

struct following;

/* http: where /metrics, /healthz and /readyz are served; NULL: nowhere. Prints what fails. */
int following_open(struct agent *agent, const struct follow_options *options,
		   const struct kv_addr *http, struct following **ret);
void following_close(struct following *f);

/* Of a backend whose state is UP or DOWN: whether it is to get no requests although connections to
 * it can be opened. Whoever sets UP has to ask. */
bool following_holds(const struct following *f, __u32 id);
/* How a request in hand of the agent ended; those of the kernel are seen in the maps. */
void following_outcome(struct following *f, __u32 id, enum outcome outcome);
void following_busy(struct following *f, __u32 id, const char *retry_after, size_t len);
struct follow *following_follow(struct following *f);

/* As `backend show` tells it: a sentence or two. */
void following_explain(const struct following *f, __u32 id, char *text, size_t size);

#endif
