/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Prompts of large bodies are hashed by a thread: a hostile body of 64 MiB takes seconds, and the
 * loop has others to serve. The thread reads the client's buffer, which stays as it is meanwhile: a
 * client that goes away leaves it to the job.
 */
#ifndef AGENT_HASHER_H
#define AGENT_HASHER_H

#include "agent/client.h"
#include "lib/facts.h"

/* The prompt of a whole request: the hashes that its client could have sent as a hint. */
int hasher_prompt(const struct client *c, struct kvsteer_prompt *ret, struct kv_facts *ret_facts);
/* The same of one whose client has sent its hashes. */
void hasher_facts(const struct client *c, struct kv_facts *ret);

/* Whether the thread has taken it: request_hashed follows. Else it is done at once. */
bool hasher_take(struct client *c);
/* The client's request is given up. */
void hasher_drop(struct client *c);
/* It has waited for long enough: request_hashed follows now, unless the thread is at it. */
void hasher_hurry(struct client *c);
void hasher_close(struct agent *agent);

#endif
