// SPDX-License-Identifier: BSD-2-Clause
#include "explain.h"

#include <stdlib.h>

#include "common/affinity.h"
#include "common/cleanup.h"
#include "common/config.h"
#include "common/json.h"
#include "holder.h"

static void add_name(yyjson_mut_doc *doc, yyjson_mut_val *obj, const char *key,
		     const struct explain *e, __u32 id)
{
	const struct kv_backend *b = view_backend(e->view, id);
	char name[KV_NAME_LEN];

	if (b)
		yyjson_mut_obj_add_strcpy(doc, obj, key, view_name(b->name, name));
	else
		yyjson_mut_obj_add_null(doc, obj, key);
}

static void add_request(yyjson_mut_doc *doc, yyjson_mut_val *root, const struct explain *e)
{
	const struct explain_request *request = &e->request;
	const struct kv_service *service = view_service(e->view, request->query.service);
	const struct steering_report *r = &e->report;
	char name[KV_NAME_LEN];

	yyjson_mut_obj_add_strcpy(doc, root, "service", view_name(service->name, name));
	yyjson_mut_obj_add_str(doc, root, "policy", kv_policy_name(service->policy));
	yyjson_mut_obj_add_str(doc, root, "rule", kv_policy_name(r->rule));
	yyjson_mut_obj_add_str(doc, root, "lane", request->why == KV_CNT_MAX ? "express" : "agent");
	yyjson_mut_obj_add_str(doc, root, "lane_reason", explain_lane(request));
	yyjson_mut_obj_add_str(doc, root, "prompt", request->prompt);
	if (request->unreadable)
		yyjson_mut_obj_add_str(doc, root, "body_unreadable", request->unreadable);
	yyjson_mut_obj_add_uint(doc, root, "total_tokens", r->need);
	yyjson_mut_obj_add_uint(doc, root, "floor_tokens", r->floor);
}

static void add_rungs(yyjson_mut_doc *doc, yyjson_mut_val *root, const struct explain *e)
{
	yyjson_mut_val *list = yyjson_mut_obj_add_arr(doc, root, "rungs");
	const struct kv_query *query = &e->request.query;

	for (__u32 i = 0; i < query->n_rungs; i++) {
		yyjson_mut_val *rung = yyjson_mut_arr_add_obj(doc, list), *holders;

		yyjson_mut_obj_add_uint(doc, rung, "depth", query->rungs[i].depth);
		kv_json_add_hex(doc, rung, "hash", query->rungs[i].hash);
		holders = yyjson_mut_obj_add_arr(doc, rung, "holders");
		for (int j = 0; j < KV_HOLDERS; j++)
			if (e->rungs[i].holder[j])
				yyjson_mut_arr_append(
					holders, holder_json(doc, e->view, e->rungs[i].holder[j]));
	}
	if (e->home)
		yyjson_mut_obj_add_val(doc, root, "session", holder_json(doc, e->view, e->home));
}

static void add_affinity(yyjson_mut_doc *doc, yyjson_mut_val *obj, const struct explain *e,
			 const struct steering_candidate *c)
{
	char why[AFFINITY_TEXT];

	yyjson_mut_obj_add_uint(doc, obj, "believed_tokens", c->believed);
	yyjson_mut_obj_add_bool(doc, obj, "affinity_counts", c->discount < KV_DISCOUNT_ALL);
	yyjson_mut_obj_add_uint(doc, obj, "affinity_counts_percent", KV_DISCOUNT_ALL - c->discount);
	if (c->discount)
		yyjson_mut_obj_add_strcpy(
			doc, obj, "affinity_why",
			affinity_why(e->report.affinity, view_backend(e->view, c->backend), why));
}

static void add_candidate(yyjson_mut_doc *doc, yyjson_mut_val *obj, const struct explain *e,
			  const struct steering_candidate *c)
{
	const struct steering_report *r = &e->report;

	yyjson_mut_obj_add_uint(doc, obj, "matched_tokens", c->matched);
	add_affinity(doc, obj, e, c);
	yyjson_mut_obj_add_uint(doc, obj, "own_tokens", c->own);
	yyjson_mut_obj_add_uint(doc, obj, "inflight_tokens", c->tokens);
	yyjson_mut_obj_add_uint(doc, obj, "inflight_requests", c->requests);
	yyjson_mut_obj_add_uint(doc, obj, "waiting_tokens", c->wait);
	yyjson_mut_obj_add_real(doc, obj, "wait_s", c->wait_s);
	yyjson_mut_obj_add_real(doc, obj, "own_s", c->own_s);
	if (explain_has_cost(r))
		yyjson_mut_obj_add_real(doc, obj, "cost_s", c->cost_s);
	if (r->rule == KV_POLICY_STICKY)
		yyjson_mut_obj_add_bool(doc, obj, "holds_most", c->near);
	if (r->rule == KV_POLICY_HASH)
		yyjson_mut_obj_add_bool(doc, obj, "at_bound", c->full);
	if (r->rule == KV_POLICY_P2C && !r->sampled)
		yyjson_mut_obj_add_real(doc, obj, "chance", c->chance);
	yyjson_mut_obj_add_uint(doc, obj, "idle_upstreams", e->view->pool[c->backend].idle);
}

static void add_backends(yyjson_mut_doc *doc, yyjson_mut_val *root, const struct explain *e)
{
	yyjson_mut_val *list = yyjson_mut_obj_add_arr(doc, root, "backends");

	for (__u32 i = 0; i < KV_MAX_BACKENDS; i++) {
		const struct kv_backend *b = view_backend(e->view, i);
		const struct steering_candidate *c = explain_candidate(e, i);
		yyjson_mut_val *obj;

		if (!b || b->service != e->request.query.service)
			continue;
		obj = yyjson_mut_arr_add_obj(doc, list);
		add_name(doc, obj, "backend", e, i);
		yyjson_mut_obj_add_str(doc, obj, "state", view_backend_state(b->state));
		yyjson_mut_obj_add_bool(doc, obj, "candidate", c);
		if (c)
			add_candidate(doc, obj, e, c);
		else
			yyjson_mut_obj_add_str(doc, obj, "reason", explain_no_candidate(e, i));
	}
}

static void add_choice(yyjson_mut_doc *doc, yyjson_mut_val *root, const struct explain *e)
{
	const struct steering_report *r = &e->report;
	const struct steering_candidate *choice = explain_candidate(e, r->choice.backend);
	const struct steering_candidate *holder = explain_candidate(e, r->deepest);
	bool diverted = choice && holder && choice->matched < holder->matched;

	yyjson_mut_obj_add_real(doc, root, "price", r->choice.price / 1024.0);
	if (r->rule == KV_POLICY_HASH)
		yyjson_mut_obj_add_uint(doc, root, "bound_requests", r->bound);
	yyjson_mut_obj_add_uint(doc, root, "best_tokens", r->choice.best);
	add_name(doc, root, "deepest", e, r->deepest);
	add_name(doc, root, "choice", e, r->choice.backend);
	yyjson_mut_obj_add_bool(doc, root, "by_chance", r->chance);
	add_name(doc, root, "second", e, r->second);
	add_name(doc, root, "intended", e, r->choice.intended);
	yyjson_mut_obj_add_uint(doc, root, "matched_tokens", choice ? choice->matched : 0);
	yyjson_mut_obj_add_bool(doc, root, "diverted", diverted);
	yyjson_mut_obj_add_uint(doc, root, "diverted_tokens",
				diverted ? holder->matched - choice->matched : 0);
	if (explain_has_cost(r))
		yyjson_mut_obj_add_real(doc, root, "diverted_s",
					diverted ? holder->cost_s - choice->cost_s : 0);
}

int explain_json(struct cli *cli, const struct explain *e)
{
	_cleanup_json_mut_ yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *root = yyjson_mut_obj(doc);

	add_request(doc, root, e);
	add_rungs(doc, root, e);
	add_backends(doc, root, e);
	add_choice(doc, root, e);
	return cli_print(cli, doc, root);
}
