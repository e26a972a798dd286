// SPDX-License-Identifier: BSD-2-Clause
/* Requests that are whole: hashed, decided, sent to a backend. */
#include <errno.h>
#include <string.h>
#include <xxhash.h>

#include "agent/answer.h"
#include "agent/follow.h"
#include "agent/hasher.h"
#include "agent/pool.h"
#include "agent/relay.h"
#include "agent/request.h"
#include "agent/request_private.h"
#include "agent/steer.h"
#include "agent/tenancy.h"
#include "agent/tokenize.h"
#include "lib/query.h"

/* One that the kernel would have taken, had it found an upstream and the sockets quiet. */
static bool request_express(const struct kv_request *head)
{
	return head->lane == KV_LANE_EXPRESS &&
	       (!head->completion || head->hint_state == KV_HINT_OK || head->session);
}

static bool request_may_go_to(const struct client *c, __u32 id)
{
	const struct kv_backend *backend = &c->agent->dp.backends[id];
	const struct request *r = c->request;

	return backend->state == KV_BACKEND_UP && backend->service == c->service &&
	       (!r->masked || model_set_has(&r->serving, id)) && !model_set_has(&r->avoid, id);
}

bool request_peer(const struct client *c)
{
	for (__u32 id = 0; id < c->agent->dp.max_backends; id++)
		if (request_may_go_to(c, id) && !following_is_busy(c->agent, id))
			return true;
	return false;
}

void request_avoid_busy(struct client *c)
{
	for (__u32 id = 0; id < c->agent->dp.max_backends; id++)
		if (following_is_busy(c->agent, id))
			model_set_add(&c->request->avoid, id);
}

/* Whom to ask. False: all. */
static bool request_candidates(const struct client *c, struct model_set *ret)
{
	const struct request *r = c->request;

	*ret = (struct model_set){};
	if (r->attempts)
		for (__u32 id = 0; id < c->agent->dp.max_backends; id++)
			if (request_may_go_to(c, id))
				model_set_add(ret, id);
	if (!model_set_empty(ret))
		return true;
	*ret = r->serving;
	return r->masked;
}

void request_decide(struct client *c, __u32 exclude)
{
	struct agent *agent = c->agent;
	struct request *r = c->request;
	struct kv_choice choice = {};
	struct model_set candidates;
	struct upstream *up;
	__u32 backend;

	r->dispatch.query.exclude = exclude;
	if (exclude != KV_NONE)
		model_set_add(&r->avoid, exclude);
	backend = steer_decide(&agent->dp, &r->dispatch,
			       request_candidates(c, &candidates) ? &candidates : NULL, &r->from,
			       &choice);
	r->matched = choice.matched;
	r->total = choice.total;
	if (backend == KV_NONE) {
		if (exclude != KV_NONE && r->gen)
			answer_bad_gateway(c);
		else if (exclude != KV_NONE)
			answer_unavailable(c, "no backend can be reached");
		else if (!client_hopes(c))
			answer_unavailable(c, "no backend takes requests");
		return;
	}
	r->dispatch.backend = backend;
	if (r->dispatch.query.n_rungs)
		following_lookup(agent, backend, r->class, r->dispatch.believed);
	if (exclude == KV_NONE && request_express(&r->head) && dataplane_no_upstream(&agent->dp))
		pool_short(agent, backend);
	up = pool_claim(agent, backend);
	if (up) {
		relay_start(c, up);
		return;
	}
	client_set_phase(c, CLIENT_WAITING);
	c->deadline_ns = c->last_ns + agent->config->timeouts.connect_ms * MS + SECOND;
	TAILQ_INSERT_TAIL(&agent->pools[backend].waiters, c, wait);
	pool_want(agent, backend);
}

/* Only now: until it is whole it may still be refused, and each request is counted once. The kernel
 * counts the hints of what it serves itself. */
static void request_count(struct client *c)
{
	const struct kv_request *head = &c->request->head;

	count(&c->agent->dp, requests_agent);
	if (head->hint_state == KV_HINT_OK)
		count(&c->agent->dp, hint_prefix);
	else if (head->hint_state == KV_HINT_MALFORMED)
		count(&c->agent->dp, hint_malformed);
	if (head->session)
		count(&c->agent->dp, hint_session);
}

/* Only those that serve its model are asked for it. False: there is none, and it is answered. */
static bool request_model(struct client *c, const struct kv_facts *facts)
{
	struct request *r = c->request;

	if (!facts->model_len)
		return true;
	r->masked = true;
	if (following_serving(c->agent, c->service, facts->model, facts->model_len, &r->serving))
		return true;
	answer_no_model(c, facts->model, facts->model_len);
	return false;
}

static bool request_models_differ(const struct client *c)
{
	return kv_read_once(c->agent->dp.services[c->service].flags) & KV_SERVICE_MODELS;
}

void request_hashed(struct client *c, int err, const struct kvsteer_prompt *prompt,
		    const struct kv_facts *facts)
{
	struct kv_query *query = &c->request->dispatch.query;

	if (err == -EAGAIN) {
		count(&c->agent->dp, agent_body_unhashed);
	} else if (err) {
		count(&c->agent->dp, agent_body_unparsed);
	} else {
		c->request->text = prompt->domain == KVSTEER_TEXT;
		kv_query_set_prompt(query, prompt);
		tenancy_apply(c->agent, &c->request->head, query);
	}
	if (facts->model_len)
		c->request->from.model = XXH3_64bits(facts->model, facts->model_len);
	c->request->class = facts->salted    ? PROOF_SALTED
			    : facts->adapter ? PROOF_ADAPTER
					     : PROOF_PLAIN;
	if (!request_models_differ(c) || request_model(c, facts))
		request_decide(c, KV_NONE);
}

static void request_hash(struct client *c)
{
	struct kvsteer_prompt prompt;
	struct kv_facts facts;
	int err = hasher_prompt(c, &prompt, &facts);

	request_hashed(c, err, &prompt, &facts);
}

void request_ready(struct client *c)
{
	struct request *r = c->request;

	request_count(c);
	if (r->head.has_tenant)
		r->from.tenant = kv_tenant_mix(&r->head.tenant, 0);
	r->dispatch.query = (struct kv_query){
		.service = c->service,
		.session = r->head.session,
		.body_len = r->len - r->head.head_len,
		.exclude = KV_NONE,
	};
	if (r->head.hint_state == KV_HINT_OK) {
		r->dispatch.query.total = r->head.hint.total;
		r->dispatch.query.n_rungs = r->head.hint.n;
		memcpy(r->dispatch.query.rungs, r->head.hint.rungs,
		       r->head.hint.n * sizeof(r->head.hint.rungs[0]));
	} else if (r->head.completion) {
		if (!hasher_take(c))
			request_hash(c);
		return;
	}
	if (r->head.completion && request_models_differ(c)) {
		struct kv_facts facts;

		hasher_facts(c, &facts);
		if (!request_model(c, &facts))
			return;
	}
	request_decide(c, KV_NONE);
}
