/* SPDX-License-Identifier: BSD-2-Clause */
/* The agent lane's second half: request to the upstream, response to the client. */
#ifndef AGENT_RELAY_H
#define AGENT_RELAY_H

#include "agent/client.h"
#include "agent/upstream.h"

/* Offers the pair to the kernel and sends the request. up is claimed: its idle bit is cleared. */
void relay_start(struct client *c, struct upstream *up);
void relay_to_upstream(struct client *c);
void relay_from_upstream(struct client *c);
/* The client's socket has taken all that was kept for it. */
void relay_client_writable(struct client *c);
/* The upstream has ended, or (reset) failed: on to another one, or the client's end. */
void relay_upstream_ended(struct client *c, bool reset);
/* Something happened on the client's socket meanwhile. */
void relay_client_readable(struct client *c);
/* Whether the slot is still this request's, in state RELAY. */
bool relay_is_mine(const struct client *c);
/* The kernel has finished this pair: nothing is in hand. */
void relay_let_go(struct client *c);
/* The same, and closes the client if no further request is expected of it. */
void relay_forget(struct client *c);
/* The request comes to nothing: settles it and gives up the upstream if they are still ours. */
void relay_drop(struct client *c, bool abort);
/* Each second: has the kernel finished it; is it late? */
void relay_check(struct client *c, __u64 now_ns);

#endif
