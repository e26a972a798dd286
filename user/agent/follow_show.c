// SPDX-License-Identifier: BSD-2-Clause
/* One backend, as `kvsteer backend show` tells of it. */
#include "agent/follow_private.h"
#include "agent/pool.h"
#include "common/affinity.h"
#include "engines/time.h"

#define MODELS_SHOWN 64

static void tell_health(const struct view_backend *v, yyjson_mut_doc *doc, yyjson_mut_val *out)
{
	yyjson_mut_val *health = yyjson_mut_obj_add_obj(doc, out, "health");

	yyjson_mut_obj_add_str(doc, health, "state", health_state_name(v->state));
	yyjson_mut_obj_add_str(doc, health, "why", v->why ?: "");
	yyjson_mut_obj_add_real(doc, health, "since_s", (kv_now_ns() - v->since_ns) / 1e9);
	yyjson_mut_obj_add_bool(doc, health, "draining", v->draining);
	yyjson_mut_obj_add_real(doc, health, "weight", (double)v->weight / HEALTH_FULL);
	yyjson_mut_obj_add_uint(doc, health, "restarts", v->restarts);
}

/* A figure that the engine has not told is left out: it is not 0. */
static void tell_figure(const struct engine_load *load, uint32_t has, yyjson_mut_doc *doc,
			yyjson_mut_val *out, const char *name, double value)
{
	if (load->has & has)
		yyjson_mut_obj_add_real(doc, out, name, value);
}

static void tell_report(const struct view_backend *v, yyjson_mut_doc *doc, yyjson_mut_val *out)
{
	yyjson_mut_val *engine = yyjson_mut_obj_add_obj(doc, out, "engine");
	const struct engine_report *r = v->report;
	const struct engine_load *load = r ? &r->load : NULL;
	enum report_age age = r ? report_age(r, kv_now_ns(), v->stale_ns) : REPORT_NONE;

	yyjson_mut_obj_add_bool(doc, engine, "asked", r);
	if (r && r->scrapes && r->result != FETCH_ANSWERED)
		yyjson_mut_obj_add_str(doc, engine, "trouble", fetch_result_text(r->result));
	if (age == REPORT_NONE)
		return;
	yyjson_mut_obj_add_str(doc, engine, "kind", engine_kind_name(load->kind));
	yyjson_mut_obj_add_real(doc, engine, "age_s", (kv_now_ns() - r->at_ns) / 1e9);
	yyjson_mut_obj_add_bool(doc, engine, "stale", age == REPORT_STALE);
	if (age == REPORT_STALE)
		return;
	tell_figure(load, LOAD_RUNNING, doc, engine, "running", load->running);
	tell_figure(load, LOAD_WAITING, doc, engine, "waiting", load->waiting);
	tell_figure(load, LOAD_CACHE_USE, doc, engine, "cache_use", load->cache_use);
	tell_figure(load, LOAD_BLOCK_SIZE, doc, engine, "block_size", load->block_size);
	tell_figure(load, LOAD_CAPACITY, doc, engine, "capacity_tokens", load->capacity);
}

static void tell_proof(const struct follow *f, __u32 id, const struct view_backend *v,
		       yyjson_mut_doc *doc, yyjson_mut_val *out)
{
	yyjson_mut_val *prediction = yyjson_mut_obj_add_obj(doc, out, "prediction");
	struct proof_facts facts = follow_facts(f, id);
	char text[512];

	proof_explain(&v->verdict, &facts, text, sizeof(text));
	yyjson_mut_obj_add_uint(doc, prediction, "predicted_tokens", v->verdict.predicted);
	yyjson_mut_obj_add_uint(doc, prediction, "found_tokens", v->verdict.actual);
	yyjson_mut_obj_add_real(doc, prediction, "ratio", v->verdict.ratio);
	yyjson_mut_obj_add_bool(doc, prediction, "alarm", v->verdict.alarm);
	yyjson_mut_obj_add_str(doc, prediction, "cause", proof_cause_name(v->verdict.cause));
	yyjson_mut_obj_add_strcpy(doc, prediction, "text", text);
}

void following_tell(const struct agent *agent, __u32 id, yyjson_mut_doc *doc, yyjson_mut_val *out)
{
	const struct kv_backend *backend = &agent->dp.backends[id];
	const struct following *f = agent->following;
	struct view_backend v = {};
	yyjson_mut_val *models;
	const char *name;

	yyjson_mut_obj_add_strcpy(doc, out, "name", backend->name);
	yyjson_mut_obj_add_strcpy(doc, out, "service", agent->dp.services[backend->service].name);
	if (!f || !f->backends[id].known)
		return;
	follow_view(f->follow, id, &v);
	yyjson_mut_obj_add_strcpy(
		doc, out, "address",
		kv_addr_format(&f->backends[id].addr, (char[KV_ADDR_TEXT]){}, KV_ADDR_TEXT));
	yyjson_mut_obj_add_bool(doc, out, "takes_requests", backend->state == KV_BACKEND_UP);
	yyjson_mut_obj_add_bool(doc, out, "connects", !f->agent->pools[id].away);
	yyjson_mut_obj_add_uint(doc, out, "capacity_tokens", backend->capacity);
	yyjson_mut_obj_add_str(doc, out, "capacity_from",
			       backend->capacity_set	  ? "configuration"
			       : f->backends[id].capacity ? "engine"
							  : "default");
	yyjson_mut_obj_add_uint(doc, out, "rate_tokens_per_s", backend->rate);
	yyjson_mut_obj_add_str(doc, out, "rate_from", rate_from(backend));
	yyjson_mut_obj_add_uint(doc, out, "foreign_requests", backend->foreign_requests);
	tell_health(&v, doc, out);
	tell_report(&v, doc, out);
	models = yyjson_mut_obj_add_arr(doc, out, "models");
	for (__u32 i = 0; i < MODELS_SHOWN && (name = follow_model(f->follow, id, i)); i++)
		yyjson_mut_arr_add_strcpy(doc, models, name);
	tell_proof(f->follow, id, &v, doc, out);
	affinity_add_json(doc, out, agent->dp.services[backend->service].affinity, backend);
}
