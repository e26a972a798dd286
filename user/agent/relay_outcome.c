// SPDX-License-Identifier: BSD-2-Clause
/* What a response's status says of its backend, and whether the client is to see it. */
#include <string.h>
#include <strings.h>

#include <kvsteer/framing.h>

#include "agent/follow.h"
#include "agent/head.h"
#include "agent/relay_private.h"
#include "agent/request.h"

/* The engine is full and has said so before it began with this request: a peer may have room. Its
 * connection is as good as before, if all of its answer is here. */
static void relay_pass_on(struct client *c)
{
	struct request *r = c->request;
	bool whole = kv_framing_done(&r->response) && !r->broken && r->sent == r->len &&
		     !(r->response.flags & KV_FRAMING_CLOSE);
	__u32 backend = r->up->backend;

	count(&c->agent->dp, agent_busy_passed_on);
	r->attempts++;
	relay_give_up(c, KV_CALL_SETTLE_FAILED, whole ? RELAY_REUSE : RELAY_ABORT);
	client_set_phase(c, CLIENT_READING);
	r->sent = 0;
	r->broken = false;
	r->answered = false;
	request_decide(c, backend);
}

bool relay_answered(struct client *c, bool begun, const char *head, size_t len)
{
	struct agent *agent = c->agent;
	struct request *r = c->request;
	enum outcome outcome = outcome_of_status(r->response.status);
	__u32 backend = r->up->backend;
	struct busy_case busy = {
		.tries = r->attempts + 1,
		.tries_most = CLIENT_ATTEMPTS,
		.begun = begun,
		.request_kept = r->len && !c->eof,
	};
	const char *after;
	size_t after_len;

	following_outcome(agent, backend, outcome);
	if (outcome != OUTCOME_BUSY)
		return false;
	after = head_value(head, len, "Retry-After", &after_len);
	following_busy(agent, backend, after, after_len);
	busy.peer = following_peer(agent, backend, r->masked ? r->mask : NULL);
	if (!busy_pass_on(&busy) || !relay_is_mine(c))
		return false;
	relay_pass_on(c);
	return true;
}
