/* SPDX-License-Identifier: BSD-2-Clause */
/* What relay*.c share. */
#ifndef AGENT_RELAY_PRIVATE_H
#define AGENT_RELAY_PRIVATE_H

#include "agent/relay.h"

static inline void relay_deadline(struct client *c)
{
	c->last_ns = kv_now_ns();
	c->deadline_ns = c->last_ns + c->agent->config->timeouts.response_ms * MS;
}

/* Response and request are through, and the connection is as good as before. The response has been
 * read to its end. */
static inline bool relay_reusable(const struct request *r)
{
	return !r->broken && r->sent == r->len && !(r->response.flags & KV_FRAMING_CLOSE);
}

/* Gives back what the kernel has not. */
void relay_settle(struct client *c, __u32 slot, enum kv_call_op op);
/* No byte of a response has come: the request is still whole, so another backend can have it. */
void relay_retry(struct client *c, bool reset);

enum relay_upstream { RELAY_REUSE, RELAY_CLOSE, RELAY_ABORT };

/* Takes the upstream, which is ours, out of the request's hands. */
void relay_give_up(struct client *c, enum kv_call_op op, enum relay_upstream then);
/* The final response begins in this piece of its head. begun: bytes have gone to the client. True:
 * this piece is not the client's; the request is another backend's by now. */
bool relay_answered(struct client *c, bool begun, const char *head, size_t len);
/* What the usage of an answer that is whole in these bytes says of the cache. */
void relay_usage(struct client *c, const char *answer, size_t len);
/* All of the response has been read and written. */
void relay_finish(struct client *c);

#endif
