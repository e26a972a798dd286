/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The agent's side of following engines (user/engines/): from the maps to the follower, and back.
 * Which engines there are is read from the maps each second, so that it does not matter who adds
 * and removes them.
 */
#ifndef AGENT_FOLLOW_H
#define AGENT_FOLLOW_H

#include <yyjson.h>

#include "agent/agent.h"
#include "engines/follow.h"

struct following;

/* As the configuration has it. Prints what fails. */
int following_open(struct agent *agent);
void following_close(struct agent *agent);
/* Whether these pages could be served; errors as text. */
int following_check(struct agent *agent, const struct kv_config *to, char *err, size_t errlen);
/* The configuration was another one: what its keys change is changed. Prints what fails. */
void following_apply(struct agent *agent, const struct kv_config *from);

/* Its state has been changed by hand. */
void following_look(struct agent *agent, __u32 id);
/* Of a backend whose state is UP or DOWN: whether it is to get no requests although connections to
 * it can be opened. Whoever sets UP has to ask. */
bool following_holds(const struct agent *agent, __u32 id);
/* Its capacity: as configured, else as the engine says. */
void following_reckon(struct agent *agent, __u32 id);

/* How a request in hand of the agent ended; those of the kernel are seen in the maps. */
void following_outcome(struct agent *agent, __u32 id, enum outcome outcome);
/* err: -errno of opening a connection. */
void following_connect_failed(struct agent *agent, __u32 id, int err);
/* A connection was opened; and the first one after none could be. */
void following_opened(struct agent *agent, __u32 id);
void following_connected(struct agent *agent, __u32 id);
/* It may be another process by now. */
void following_suspect(struct agent *agent, __u32 id);
/* Its KV events began anew, and its epoch has been raised for that. */
void following_sequence_back(struct agent *agent, __u32 id);
/* retry_after: NULL: its answer has none */
void following_busy(struct agent *agent, __u32 id, const char *retry_after, size_t len);
/* It has said so a moment ago. */
bool following_is_busy(const struct agent *agent, __u32 id);

/* Those of a service that serve a model. False: none does. */
bool following_serving(struct agent *agent, __u32 service, const char *model, size_t len,
		       struct model_set *ret);
/* A prompt of which so many tokens are believed cached at this backend. */
void following_lookup(struct agent *agent, __u32 id, enum proof_class class, __u64 matched);
/* What an answer's usage says. */
void following_answered(struct agent *agent, __u32 id, const struct proof_request *r);

/* What `backend show` tells. */
void following_tell(const struct agent *agent, __u32 id, yyjson_mut_doc *doc, yyjson_mut_val *out);

#endif
