/* SPDX-License-Identifier: BSD-2-Clause */
/* The agent lane's first half: read a request, parse it, hash its prompt, decide. */
#ifndef AGENT_REQUEST_H
#define AGENT_REQUEST_H

#include "agent/client.h"
#include "lib/facts.h"

#define REQUEST_STEP (32u << 10) /* bytes of a body that must come within timeouts.request */

/* A client that is IDLE has become readable, or has sent bytes ahead (pipelining). */
void request_begin(struct client *c);
void request_next(struct client *c);
/* The kernel has forgotten a lend, and the client will send its request again: to us, who count how
 * often it is tried, and where. Unless the kernel is faster. */
void request_expect(struct client *c);
void request_read(struct client *c);
/* Whether what a client reads next of a body finds room: -EDQUOT: not at its address, -ENOMEM: not
 * in the agent. */
int request_fits(const struct client *c);
/* The prompt of a whole request has been hashed, or (err) has not. */
void request_hashed(struct client *c, int err, const struct kvsteer_prompt *prompt,
		    const struct kv_facts *facts);
/* Its record, if there is one that has not ended; 0: none. */
__u64 request_trace_number(const struct request *r);
/* Its record ends; unless the kernel has the pair. status: 0 as answered. */
void request_trace_end(struct client *c, enum kv_trace_end end, __u32 status);
/* Decides (again); exclude: backend that has just failed, or KV_NONE. Those that have failed the
 * request before are asked again only where nobody else is left. */
void request_decide(struct client *c, __u32 exclude);
/* A backend takes requests, serves its model, has neither failed it nor been busy. */
bool request_peer(const struct client *c);
/* Who is busy is asked again only where nobody else is left. */
void request_avoid_busy(struct client *c);

#endif
