// SPDX-License-Identifier: BSD-2-Clause
/* What engines say and what becomes of it. */
#include <errno.h>
#include <string.h>

#include "common/log.h"
#include "engines/follow_private.h"

#define WEIGHT_STEP 32 /* smaller changes wait */

void follow_tell(struct follow *f, uint32_t service, uint64_t now_ns)
{
	bool changed = false;

	for (uint32_t id = 0; id < KV_MAX_BACKENDS; id++) {
		struct pool *pool = f->pools[service];
		struct engine *e = f->engines[id];
		enum health_state state;
		bool takes, near;
		uint32_t weight, limit;

		if (!pool || !e || e->service != service)
			continue;
		takes = health_takes(&pool->health, id);
		weight = health_weight(&pool->health, id, now_ns);
		limit = health_limit(&pool->health, id);
		state = pool->health.members[id].state;
		near = weight != HEALTH_FULL && weight < e->weight + WEIGHT_STEP &&
		       weight + WEIGHT_STEP > e->weight;
		if (e->told && takes == e->takes && limit == e->limit && state == e->state &&
		    (weight == e->weight || near))
			continue;
		changed |= !e->told || takes != e->takes;
		e->told = true;
		e->takes = takes;
		e->weight = weight;
		e->limit = limit;
		e->state = state;
		f->calls.state(f->calls.arg, id, takes, weight, limit, state);
	}
	if (changed)
		follow_tell_models(f, service);
}

/* It may serve other models than when it was asked. */
static void ask_models(struct engine *e)
{
	if (!e->prober || !e->follow->options.models_ms)
		return;
	models_unsure(e->follow->models, e->id);
	prober_models_anew(e->prober);
}

void engine_changed(void *arg, uint32_t id, enum health_state old, const char *why)
{
	struct pool *pool = arg;
	const struct health *h = &pool->health.members[id];
	struct engine *e = engine_of(pool->follow, id);

	if (!e || old == HEALTH_NONE || h->state == HEALTH_NONE || old == h->state)
		return;
	if (old == HEALTH_DOWN && h->state == HEALTH_UP)
		ask_models(e);
	if (why == health_refuses || why == health_takes_connections)
		kv_debug("backend %s: %s (%s)", e->name, health_state_name(h->state), why);
	else if (h->state == HEALTH_DOWN || h->state == HEALTH_EJECTED)
		kv_warn("backend %s: %s (%s): gets no requests for now", e->name,
			health_state_name(h->state), why);
	else
		kv_info("backend %s: %s (%s)", e->name, health_state_name(h->state), why);
}

void engine_renewed(struct engine *e, enum incarnation_sign sign, uint64_t now_ns)
{
	struct follow *f = e->follow;
	uint32_t id = e->id;

	if (sign == SIGN_NONE)
		return;
	kv_info("backend %s: was started again (%s): what it had cached is forgotten", e->name,
		incarnation_sign_text(sign));
	health_new_cache(health_of(e), e->id, now_ns);
	proof_restarted(&e->proof);
	engine_judged(e, false);
	e->foreign = (struct foreign){};
	ask_models(e);
	follow_tell_models(f, e->service);
	if (sign != SIGN_SEQUENCE)
		f->calls.new_cache(f->calls.arg, id);
}

/* ---- probes ---- */

void engine_probed(void *arg, enum health_probe probe)
{
	struct engine *e = arg;
	struct follow *f = e->follow;
	uint32_t id = e->id, service = e->service;
	uint64_t now_ns = kv_now_ns();

	if (probe == PROBE_REFUSED)
		incarnation_refused(&e->incarnation);
	else if (probe == PROBE_GOOD)
		engine_renewed(e, incarnation_answered(&e->incarnation, now_ns), now_ns);
	if (engine_of(f, id) == e)
		f->calls.hand_on(f->calls.arg, id);
	if (engine_of(f, id) != e)
		return;
	health_probed(health_of(e), id, probe, now_ns);
	follow_tell(f, service, now_ns);
}

void follow_tell_models(struct follow *f, uint32_t service)
{
	struct pool *pool = f->pools[service];
	enum models_alike alike = MODELS_ALIKE;
	struct model_set taking = {};

	if (!pool)
		return;
	for (uint32_t id = 0; id < KV_MAX_BACKENDS; id++)
		if (model_set_has(&pool->members, id) && health_takes(&pool->health, id))
			model_set_add(&taking, id);
	if (f->options.models_ms)
		alike = models_alike(f->models, &pool->members, &taking);
	if (alike == MODELS_OPEN ||
	    (pool->models_told && pool->models_differ == (alike == MODELS_DIFFER)))
		return;
	pool->models_told = true;
	pool->models_differ = alike == MODELS_DIFFER;
	f->calls.models(f->calls.arg, service, pool->models_differ);
}

static void say_models(const struct engine *e)
{
	const struct models *m = e->follow->models;

	kv_info("backend %s: serves %s%s", e->name, models_name(m, e->id, 0) ?: "no model",
		models_name(m, e->id, 1) ? " and more" : "");
}

void engine_listed(void *arg, const char *json, size_t len)
{
	struct engine *e = arg;
	struct models *m = e->follow->models;
	bool is_new = false;
	int err = json ? models_told(m, e->id, json, len, &is_new) : 0;

	if (err == -EBADMSG)
		kv_debug("backend %s: /v1/models is no list of models", e->name);
	if (!json || err)
		models_asked(m, e->id);
	if (is_new && !err)
		say_models(e);
	follow_tell_models(e->follow, e->service);
}

/* ---- whether affinity is worth it ---- */

static void say_turned(const struct engine *e, const struct worth *w)
{
	struct proof_facts facts = follow_facts(e->follow, e->id);
	struct proof_verdict v = proof_judge(&e->proof, &facts, kv_now_ns());
	unsigned int percent = w->verdict.found * 100 / w->verdict.predicted;
	char cause[320];

	if (w->down)
		kv_warn("backend %s: affinity is turned down: of the last %llu tokens predicted "
			"to be in its cache %u %% were: what it is believed to hold counts by that "
			"share. %s",
			e->name, (unsigned long long)w->verdict.predicted, percent,
			proof_cause_text(&v, &facts, cause, sizeof(cause)));
	else
		kv_info("backend %s: affinity is back: of the last %llu tokens predicted to be in "
			"its cache %u %% were",
			e->name, (unsigned long long)w->verdict.predicted, percent);
}

void engine_judged(struct engine *e, bool turned)
{
	const struct worth *w = &e->proof.worth;

	if (turned)
		say_turned(e, w);
	if (!memcmp(&w->verdict, &e->verdict, sizeof(w->verdict)))
		return;
	e->verdict = w->verdict;
	e->follow->calls.worth(e->follow->calls.arg, e->id, w);
}

/* ---- metrics ---- */

static void tell_size(struct engine *e, const struct engine_load *load)
{
	uint64_t capacity = load->has & LOAD_CAPACITY ? load->capacity : 0;
	uint64_t block_size = load->has & LOAD_BLOCK_SIZE ? load->block_size : 0;

	if (capacity == e->capacity && block_size == e->block_size)
		return;
	e->capacity = capacity;
	e->block_size = block_size;
	if (capacity)
		e->follow->calls.cache_size(e->follow->calls.arg, e->id, capacity);
}

static void compare(struct engine *e, const struct engine_load *load,
		    const struct kv_backend *backend, uint64_t now_ns)
{
	struct proof_counters c = {backend->predicted_tokens, backend->prompt_tokens, load->hits,
				   load->queries};

	if ((load->has & LOAD_HITS) && (load->has & LOAD_QUERIES))
		engine_judged(e, proof_counted(&e->proof, &c, now_ns));
}

void engine_reported(void *arg, const struct engine_report *r)
{
	struct engine *e = arg;
	struct follow *f = e->follow;
	const struct kv_backend *backend;
	const struct engine_load load = r->load;
	uint64_t now_ns = kv_now_ns();
	uint32_t id = e->id;
	double there;

	if (r->result == FETCH_REFUSED)
		incarnation_refused(&e->incarnation);
	if (r->result != FETCH_ANSWERED || r->status != 200 || r->error)
		return;
	engine_renewed(e,
		       incarnation_reported(
			       &e->incarnation, load.has & LOAD_STARTED ? load.started : 0,
			       load.has & LOAD_QUERIES ? load.queries : e->incarnation.counter,
			       now_ns),
		       now_ns);
	if (engine_of(f, id) == e)
		tell_size(e, &load);
	if (engine_of(f, id) != e)
		return;
	backend = f->calls.backend(f->calls.arg, id);
	if (!backend)
		return;
	compare(e, &load, backend, now_ns);
	foreign_reported(&e->foreign, &load, backend->inflight_requests, now_ns);
	there = (double)load.running + load.waiting;
	f->calls.foreign(f->calls.arg, id, e->foreign.requests + 0.5,
			 there ? e->foreign.requests * load.waiting / there + 0.5 : 0);
}
