// SPDX-License-Identifier: BSD-2-Clause
#include "engines/follow.h"

#include <errno.h>
#include <event2/event_struct.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/log.h"
#include "engines/foreign.h"
#include "engines/incarnation.h"
#include "engines/time.h"

#define TICK_MS 1000
#define WEIGHT_STEP 32 /* smaller changes wait */

_Static_assert(HEALTH_MEMBERS >= KV_MAX_BACKENDS, "indexed by the maps' ids");
_Static_assert(MODELS_ENGINES >= KV_MAX_BACKENDS, "indexed by the maps' ids");

struct engine {
	struct follow *follow;
	uint32_t id;
	uint32_t service;
	char name[KV_NAME_LEN];
	struct scraper *scraper;
	struct prober *prober;
	struct incarnation incarnation;
	struct busy busy;
	struct foreign foreign;
	struct proof proof;
	uint64_t capacity, block_size; /* told last */
	/* what the caller was told last */
	bool told;
	bool takes;
	uint32_t weight;
	uint32_t limit;
};

struct pool {
	struct follow *follow;
	uint32_t n;
	struct model_set members;
	struct health_pool health;
};

struct follow {
	struct event_base *base;
	struct follow_options options;
	struct follow_calls calls;
	struct models *models;
	struct pool *pools[FOLLOW_SERVICES];
	struct engine *engines[KV_MAX_BACKENDS];
	struct event tick;
};

static struct engine *engine_of(const struct follow *f, uint32_t id)
{
	return id < KV_MAX_BACKENDS ? f->engines[id] : NULL;
}

static struct health_pool *health_of(const struct engine *e)
{
	return &e->follow->pools[e->service]->health;
}

/* Tells what has changed, of all engines of a pool: what happens to one may bring back another. */
static void tell(struct follow *f, uint32_t service, uint64_t now_ns)
{
	for (uint32_t id = 0; id < KV_MAX_BACKENDS; id++) {
		struct pool *pool = f->pools[service];
		struct engine *e = f->engines[id];
		bool takes, near;
		uint32_t weight, limit;

		if (!pool || !e || e->service != service)
			continue;
		takes = health_takes(&pool->health, id);
		weight = health_weight(&pool->health, id, now_ns);
		limit = health_limit(&pool->health, id);
		near = weight != HEALTH_FULL && weight < e->weight + WEIGHT_STEP &&
		       weight + WEIGHT_STEP > e->weight;
		if (e->told && takes == e->takes && limit == e->limit &&
		    (weight == e->weight || near))
			continue;
		e->told = true;
		e->takes = takes;
		e->weight = weight;
		e->limit = limit;
		f->calls.state(f->calls.arg, id, takes, weight, limit);
	}
}

static void changed(void *arg, uint32_t id, enum health_state old, const char *why)
{
	struct pool *pool = arg;
	const struct health *h = &pool->health.members[id];
	const struct engine *e = engine_of(pool->follow, id);

	if (!e || old == HEALTH_NONE || h->state == HEALTH_NONE || old == h->state)
		return;
	if (h->state == HEALTH_DOWN || h->state == HEALTH_EJECTED)
		kv_warn("backend %s: %s (%s): gets no requests for now", e->name,
			health_state_name(h->state), why);
	else
		kv_info("backend %s: %s (%s)", e->name, health_state_name(h->state), why);
}

static void renewed(struct engine *e, enum incarnation_sign sign, uint64_t now_ns)
{
	if (sign == SIGN_NONE)
		return;
	kv_info("backend %s: was started again (%s): what it had cached is forgotten", e->name,
		incarnation_sign_text(sign));
	health_new_cache(health_of(e), e->id, now_ns);
	proof_restarted(&e->proof);
	e->foreign = (struct foreign){};
	e->follow->calls.new_cache(e->follow->calls.arg, e->id, incarnation_sign_text(sign));
}

/* ---- probes ---- */

static void probed(void *arg, enum health_probe probe)
{
	struct engine *e = arg;
	struct follow *f = e->follow;
	uint32_t id = e->id, service = e->service;
	uint64_t now_ns = kv_now_ns();

	if (probe == PROBE_REFUSED)
		incarnation_refused(&e->incarnation);
	else if (probe == PROBE_GOOD)
		renewed(e, incarnation_answered(&e->incarnation, now_ns), now_ns);
	if (engine_of(f, id) != e)
		return;
	health_probed(health_of(e), id, probe, now_ns);
	tell(f, service, now_ns);
}

static void listed(void *arg, const char *json, size_t len)
{
	struct engine *e = arg;
	bool is_new = false;
	int err = models_told(e->follow->models, e->id, json, len, &is_new);

	if (err == -EBADMSG)
		kv_debug("backend %s: /v1/models is no list of models", e->name);
	else if (!err && is_new)
		kv_info("backend %s: serves %s%s", e->name,
			models_name(e->follow->models, e->id, 0) ?: "no model",
			models_name(e->follow->models, e->id, 1) ? " and more" : "");
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
	e->follow->calls.cache_size(e->follow->calls.arg, e->id, capacity, block_size);
}

static void compare(struct engine *e, const struct engine_load *load,
		    const struct kv_backend *backend, uint64_t now_ns)
{
	struct proof_counters c = {backend->matched_tokens, backend->prompt_tokens, load->hits,
				   load->queries};

	if ((load->has & LOAD_HITS) && (load->has & LOAD_QUERIES))
		proof_counted(&e->proof, &c, now_ns);
}

static void reported(void *arg, const struct engine_report *r)
{
	struct engine *e = arg;
	struct follow *f = e->follow;
	const struct kv_backend *backend;
	const struct engine_load load = r->load;
	uint64_t now_ns = kv_now_ns();
	uint32_t id = e->id;

	if (r->result == FETCH_REFUSED)
		incarnation_refused(&e->incarnation);
	if (r->result != FETCH_ANSWERED || r->status != 200 || r->error)
		return;
	renewed(e,
		incarnation_reported(
			&e->incarnation, load.has & LOAD_STARTED ? load.started : 0,
			load.has & LOAD_QUERIES ? load.queries : e->incarnation.counter, now_ns),
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
	f->calls.foreign(f->calls.arg, id, e->foreign.requests + 0.5);
}

/* ---- engines ---- */

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct follow *f = arg;
	uint64_t now_ns = kv_now_ns();

	(void)fd;
	(void)what;
	for (uint32_t i = 0; i < FOLLOW_SERVICES; i++)
		if (f->pools[i]) {
			health_tick(&f->pools[i]->health, now_ns);
			tell(f, i, now_ns);
		}
}

struct follow *follow_new(struct event_base *base, const struct follow_options *options,
			  const struct follow_calls *calls)
{
	struct timeval every = ms_timeval(TICK_MS);
	struct follow *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->base = base;
	f->options = *options;
	f->calls = *calls;
	f->models = models_new();
	if (!f->models) {
		free(f);
		return NULL;
	}
	event_assign(&f->tick, base, -1, EV_PERSIST, on_tick, f);
	event_add(&f->tick, &every);
	return f;
}

static void engine_free(struct engine *e)
{
	if (!e)
		return;
	scraper_free(e->scraper);
	prober_free(e->prober);
	free(e);
}

void follow_free(struct follow *f)
{
	if (!f)
		return;
	event_del(&f->tick);
	for (uint32_t id = 0; id < KV_MAX_BACKENDS; id++)
		engine_free(f->engines[id]);
	for (uint32_t i = 0; i < FOLLOW_SERVICES; i++)
		free(f->pools[i]);
	models_free(f->models);
	free(f);
}

static struct pool *pool_get(struct follow *f, uint32_t service)
{
	struct pool *pool = f->pools[service];

	if (pool)
		return pool;
	pool = calloc(1, sizeof(*pool));
	if (!pool)
		return NULL;
	pool->follow = f;
	pool->health.options = f->options.health;
	pool->health.changed = changed;
	pool->health.arg = pool;
	return f->pools[service] = pool;
}

static void pool_put(struct follow *f, uint32_t service)
{
	if (f->pools[service]->n)
		return;
	free(f->pools[service]);
	f->pools[service] = NULL;
}

static int watch(struct engine *e, const struct kv_addr *addr)
{
	const struct follow_options *o = &e->follow->options;
	struct scrape_options scrape = {o->metrics_ms, o->metrics_timeout_ms, o->stale_ms, reported,
					e};
	struct prober_options probe = {
		.health_path = o->health_path,
		.interval_ms = o->health_ms,
		.timeout_ms = o->health_timeout_ms,
		.models_ms = o->models_ms,
		.probed = probed,
		.models = listed,
		.arg = e,
	};

	if (o->metrics_ms) {
		e->scraper = scraper_new(e->follow->base, e->name, addr, &scrape);
		if (!e->scraper)
			return -ENOMEM;
	}
	if (o->health_ms || o->models_ms) {
		e->prober = prober_new(e->follow->base, e->name, addr, &probe);
		if (!e->prober)
			return -ENOMEM;
	}
	return 0;
}

int follow_add(struct follow *f, uint32_t id, uint32_t service, const char *name,
	       const struct kv_addr *addr, bool up)
{
	uint64_t now_ns = kv_now_ns();
	struct pool *pool;
	struct engine *e;

	if (id >= KV_MAX_BACKENDS || service >= FOLLOW_SERVICES)
		return -EINVAL;
	if (f->engines[id])
		return -EEXIST;
	e = calloc(1, sizeof(*e));
	pool = e ? pool_get(f, service) : NULL;
	if (!pool) {
		free(e);
		return -ENOMEM;
	}
	e->follow = f;
	e->id = id;
	e->service = service;
	snprintf(e->name, sizeof(e->name), "%s", name);
	if (watch(e, addr)) {
		engine_free(e);
		pool_put(f, service);
		return -ENOMEM;
	}
	f->engines[id] = e;
	pool->n++;
	model_set_add(&pool->members, id);
	health_add(&pool->health, id, f->options.health_ms && !up, now_ns);
	if (up)
		pool->health.members[id].warm_ns = 0;
	tell(f, service, now_ns);
	return 0;
}

void follow_remove(struct follow *f, uint32_t id)
{
	struct engine *e = engine_of(f, id);
	struct pool *pool;
	uint64_t now_ns = kv_now_ns();
	uint32_t service;

	if (!e)
		return;
	service = e->service;
	pool = f->pools[service];
	f->engines[id] = NULL;
	engine_free(e);
	models_forget(f->models, id);
	pool->n--;
	model_set_remove(&pool->members, id);
	health_remove(&pool->health, id, now_ns);
	pool_put(f, service);
	tell(f, service, now_ns);
}

void follow_drain(struct follow *f, uint32_t id, bool draining)
{
	struct engine *e = engine_of(f, id);
	uint64_t now_ns = kv_now_ns();

	if (!e)
		return;
	health_drain(health_of(e), id, draining, now_ns);
	tell(f, e->service, now_ns);
}

/* ---- requests ---- */

void follow_outcome(struct follow *f, uint32_t id, enum outcome outcome)
{
	struct engine *e = engine_of(f, id);
	uint64_t now_ns = kv_now_ns();

	if (!e)
		return;
	health_outcome(health_of(e), id, outcome, now_ns);
	if (outcome == OUTCOME_REFUSED)
		incarnation_refused(&e->incarnation);
	if (outcome >= OUTCOME_FAILURE && e->prober)
		prober_now(e->prober, false);
	tell(f, e->service, now_ns);
}

void follow_busy(struct follow *f, uint32_t id, const char *retry_after, size_t len)
{
	struct engine *e = engine_of(f, id);

	if (e)
		busy_note(&e->busy, retry_after, len, kv_now_ns());
}

bool follow_is_busy(const struct follow *f, uint32_t id)
{
	const struct engine *e = engine_of(f, id);

	return e && busy_is(&e->busy, kv_now_ns());
}

void follow_sequence_back(struct follow *f, uint32_t id)
{
	struct engine *e = engine_of(f, id);
	uint64_t now_ns = kv_now_ns();

	if (e)
		renewed(e, incarnation_sequence_back(&e->incarnation, now_ns), now_ns);
}

void follow_lookup(struct follow *f, uint32_t id, enum proof_class class, uint64_t matched)
{
	struct engine *e = engine_of(f, id);

	if (e)
		proof_lookup(&e->proof, class, matched);
}

void follow_answered(struct follow *f, uint32_t id, const struct proof_request *r)
{
	struct engine *e = engine_of(f, id);

	if (e)
		proof_answered(&e->proof, r, kv_now_ns());
}

struct model_set follow_serving(struct follow *f, uint32_t service, const char *model, size_t len)
{
	struct model_set serving = {};

	if (service >= FOLLOW_SERVICES || !f->pools[service])
		return serving;
	serving = models_serving(f->models, &f->pools[service]->members, model, len);
	if (!model_set_empty(&serving))
		return serving;
	/* an adapter may have been loaded just now */
	for (uint32_t id = 0; id < KV_MAX_BACKENDS; id++)
		if (f->engines[id] && f->engines[id]->service == service && f->engines[id]->prober)
			prober_now(f->engines[id]->prober, true);
	return serving;
}

/* ---- what is told ---- */

struct proof_facts follow_facts(const struct follow *f, uint32_t id)
{
	const struct engine *e = engine_of(f, id);
	const struct kv_backend *backend = e ? f->calls.backend(f->calls.arg, id) : NULL;

	return (struct proof_facts){
		.block_size = e ? e->block_size : 0,
		.capacity = e ? e->capacity : 0,
		.our_capacity = backend ? backend->capacity : 0,
	};
}

void follow_view(const struct follow *f, uint32_t id, struct view_backend *ret)
{
	const struct engine *e = engine_of(f, id);
	struct proof_facts facts = follow_facts(f, id);
	uint64_t now_ns = kv_now_ns();
	const struct health *h;

	if (!e)
		return;
	h = &health_of(e)->members[id];
	ret->state = h->state;
	ret->draining = h->draining;
	ret->weight = health_weight(health_of(e), id, now_ns);
	ret->restarts = e->incarnation.restarts;
	ret->report = e->scraper ? scraper_report(e->scraper) : NULL;
	ret->stale_ns = f->options.stale_ms * MS_NS;
	ret->proof = &e->proof;
	ret->verdict = proof_judge(&e->proof, &facts, now_ns);
}

void follow_view_service(const struct follow *f, uint32_t service, struct view_service *ret)
{
	const struct pool *pool = service < FOLLOW_SERVICES ? f->pools[service] : NULL;

	ret->backends = pool ? pool->n : 0;
	ret->taking = pool ? health_taking(&pool->health) : 0;
	ret->spared = pool ? pool->health.spared : 0;
}
