// SPDX-License-Identifier: BSD-2-Clause
#include "engines/follow.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engines/follow_private.h"

#define TICK_MS 1000

_Static_assert(HEALTH_MEMBERS >= KV_MAX_BACKENDS, "indexed by the maps' ids");
_Static_assert(MODELS_ENGINES >= KV_MAX_BACKENDS, "indexed by the maps' ids");

/* ---- engines ---- */

static void on_tick(void *arg)
{
	struct follow *f = arg;
	uint64_t now_ns = kv_now_ns();

	for (uint32_t i = 0; i < FOLLOW_SERVICES; i++)
		if (f->pools[i]) {
			health_tick(&f->pools[i]->health, now_ns);
			follow_tell(f, i, now_ns);
		}
}

struct follow *follow_new(struct event_base *base, const struct follow_options *options,
			  const struct follow_calls *calls)
{
	struct follow *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->base = base;
	f->options = *options;
	f->options.health_path = f->path = strdup(options->health_path);
	f->calls = *calls;
	f->models = models_new();
	if (!f->models || !f->path) {
		models_free(f->models);
		free(f->path);
		free(f);
		return NULL;
	}
	if (kv_timer_open(&f->tick, base, on_tick, f)) {
		models_free(f->models);
		free(f->path);
		free(f);
		return NULL;
	}
	kv_timer_set(&f->tick, TICK_MS, TICK_MS);
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
	kv_timer_close(&f->tick);
	for (uint32_t id = 0; id < KV_MAX_BACKENDS; id++)
		engine_free(f->engines[id]);
	for (uint32_t i = 0; i < FOLLOW_SERVICES; i++)
		free(f->pools[i]);
	models_free(f->models);
	free(f->path);
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
	pool->health.changed = engine_changed;
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

static int watch_load(struct engine *e)
{
	const struct follow_options *o = &e->follow->options;
	struct scrape_options scrape = {o->metrics_ms, o->metrics_timeout_ms, o->stale_ms,
					engine_reported, e};

	scraper_free(e->scraper);
	e->scraper = NULL;
	if (!o->metrics_ms)
		return 0;
	e->scraper = scraper_new(e->follow->base, e->name, &e->addr, &scrape);
	return e->scraper ? 0 : -ENOMEM;
}

static int watch_health(struct engine *e)
{
	const struct follow_options *o = &e->follow->options;
	struct prober_options probe = {
		.health_path = o->health_path,
		.interval_ms = o->health_ms,
		.timeout_ms = o->health_timeout_ms,
		.models_ms = o->models_ms,
		.probed = engine_probed,
		.models = engine_listed,
		.arg = e,
	};

	prober_free(e->prober);
	e->prober = NULL;
	if (!o->health_ms && !o->models_ms)
		return 0;
	e->prober = prober_new(e->follow->base, e->name, &e->addr, &probe);
	return e->prober ? 0 : -ENOMEM;
}

int follow_add(struct follow *f, uint32_t id, uint32_t service, const char *name,
	       const struct kv_addr *addr, bool takes, bool warm)
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
	e->addr = *addr;
	if (watch_load(e) || watch_health(e)) {
		engine_free(e);
		pool_put(f, service);
		return -ENOMEM;
	}
	f->engines[id] = e;
	pool->n++;
	model_set_add(&pool->members, id);
	/* Those of the beginning are taken for what they were. */
	if (!warm && f->options.models_ms)
		models_unsure(f->models, id);
	health_add(&pool->health, id, f->options.health_ms && !takes, warm, now_ns);
	follow_tell(f, service, now_ns);
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
	follow_tell(f, service, now_ns);
	follow_tell_models(f, service);
}

void follow_go_on(struct follow *f, uint32_t id, const struct worth_sums *verdict)
{
	struct engine *e = engine_of(f, id);

	if (!e)
		return;
	worth_go_on(&e->proof.worth, verdict);
	e->verdict = *verdict;
}

void follow_drain(struct follow *f, uint32_t id, bool draining)
{
	struct engine *e = engine_of(f, id);
	uint64_t now_ns = kv_now_ns();

	if (!e)
		return;
	health_drain(health_of(e), id, draining, now_ns);
	follow_tell(f, e->service, now_ns);
}

/* ---- other options ---- */

static bool load_differs(const struct follow_options *a, const struct follow_options *b)
{
	return a->metrics_ms != b->metrics_ms || a->metrics_timeout_ms != b->metrics_timeout_ms ||
	       a->stale_ms != b->stale_ms;
}

static bool health_differs(const struct follow_options *a, const struct follow_options *b)
{
	return strcmp(a->health_path, b->health_path) || a->health_ms != b->health_ms ||
	       a->health_timeout_ms != b->health_timeout_ms || a->models_ms != b->models_ms;
}

/* What was found by questions that are not asked any more would stay for ever. */
static void forget_unasked(struct engine *e, uint64_t now_ns)
{
	struct follow *f = e->follow;

	if (!f->options.models_ms)
		models_forget(f->models, e->id);
	if (!f->options.health_ms)
		health_unprobed(health_of(e), e->id, now_ns);
	if (f->options.metrics_ms)
		return;
	worth_forget(&e->proof.worth);
	engine_judged(e, false);
	e->foreign = (struct foreign){};
	f->calls.foreign(f->calls.arg, e->id, 0, 0);
}

int follow_change(struct follow *f, const struct follow_options *options)
{
	bool load = load_differs(&f->options, options),
	     health = health_differs(&f->options, options);
	char *old = f->path, *path = health ? strdup(options->health_path) : old;
	uint64_t now_ns = kv_now_ns();
	int err = 0;

	if (!path)
		return -ENOMEM;
	f->options = *options;
	f->options.health_path = f->path = path;
	for (uint32_t id = 0; id < KV_MAX_BACKENDS; id++) {
		struct engine *e = f->engines[id];

		if (!e)
			continue;
		health_of(e)->options = options->health;
		if (load && watch_load(e))
			err = -ENOMEM;
		if (health && watch_health(e))
			err = -ENOMEM;
		forget_unasked(e, now_ns);
	}
	/* Probers have it no more. */
	if (health)
		free(old);
	for (uint32_t i = 0; i < FOLLOW_SERVICES; i++) {
		follow_tell(f, i, now_ns);
		follow_tell_models(f, i);
	}
	return err;
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
	follow_tell(f, e->service, now_ns);
}

void follow_counted(struct follow *f, uint32_t id, uint32_t successes, uint32_t failures)
{
	struct engine *e = engine_of(f, id);
	uint64_t now_ns = kv_now_ns();

	if (!e || !(successes + failures))
		return;
	health_outcomes(health_of(e), id, successes, failures, now_ns);
	if (failures && e->prober)
		prober_now(e->prober, false);
	follow_tell(f, e->service, now_ns);
}

void follow_suspect(struct follow *f, uint32_t id)
{
	struct engine *e = engine_of(f, id);

	if (e && e->prober)
		prober_now(e->prober, false);
	if (e && e->scraper)
		scraper_now(e->scraper);
}

void follow_connected(struct follow *f, uint32_t id)
{
	struct engine *e = engine_of(f, id);
	uint64_t now_ns = kv_now_ns();

	if (!e)
		return;
	/* Who cannot tell that it is the same process may be another one. */
	if (!e->incarnation.started)
		incarnation_refused(&e->incarnation);
	engine_renewed(e, incarnation_answered(&e->incarnation, now_ns), now_ns);
	health_connected(health_of(e), id, now_ns);
	follow_suspect(f, id);
	follow_tell(f, e->service, now_ns);
}

void follow_opened(struct follow *f, uint32_t id)
{
	struct engine *e = engine_of(f, id);

	if (e && health_is_refused(health_of(e), id))
		follow_connected(f, id);
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
		engine_renewed(e, incarnation_sequence_back(&e->incarnation, now_ns), now_ns);
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
		engine_judged(e, proof_answered(&e->proof, r, kv_now_ns()));
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
