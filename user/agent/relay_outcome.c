// SPDX-License-Identifier: BSD-2-Clause
/* What a response's status says of its backend, and whether the client is to see it. */
#include <string.h>

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
	bool whole = kv_framing_done(&r->response) && relay_reusable(r);
	__u32 backend = r->up->backend;

	count(&c->agent->dp, agent_busy_passed_on);
	request_avoid_busy(c);
	r->attempts++;
	relay_give_up(c, KV_CALL_SETTLE_FAILED, whole ? RELAY_REUSE : RELAY_ABORT);
	client_set_phase(c, CLIENT_READING);
	r->sent = 0;
	r->broken = false;
	r->answered = false;
	r->answer_len = 0;
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
	model_set_add(&r->avoid, backend);
	busy.peer = request_peer(c);
	if (!busy_pass_on(&busy) || !relay_is_mine(c))
		return false;
	relay_pass_on(c);
	return true;
}

/* The number behind the first such name; false: there is none. Quotes inside of strings are
 * escaped, so what looks like a name is one. */
static bool number_of(const char *text, const char *end, const char *name, uint64_t *ret)
{
	const char *at = memmem(text, end - text, name, strlen(name));
	size_t digits = 0;

	if (!at)
		return false;
	for (at += strlen(name); at < end && (*at == ' ' || *at == ':'); at++)
		;
	for (*ret = 0; at < end && *at >= '0' && *at <= '9' && digits < 10; at++, digits++)
		*ret = *ret * 10 + (*at - '0');
	return digits;
}

void relay_usage(struct client *c, const char *answer, size_t len)
{
	const struct request *r = c->request;
	const struct kv_query *query = &r->dispatch.query;
	const char *end = answer + len, *usage;
	struct proof_request proof = {.class = r->class, .reckoned = query->total};

	if (!r->head.completion || !query->total || r->response.status != 200)
		return;
	usage = memmem(answer, len, "\"usage\"", 7);
	if (!usage || !number_of(usage, end, "\"prompt_tokens\"", &proof.prompt))
		return;
	proof.has_cached = number_of(usage, end, "\"cached_tokens\"", &proof.cached);
	proof.predicted = r->dispatch.believed * proof.prompt / query->total;
	following_answered(c->agent, r->up->backend, &proof);
}
