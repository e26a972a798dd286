// SPDX-License-Identifier: BSD-2-Clause
/* What the pages and `backend show` tell of engines. */
#include "engines/follow_private.h"

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
	ret->why = h->why;
	ret->since_ns = h->since_ns;
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

const char *follow_model(const struct follow *f, uint32_t id, uint32_t i)
{
	return engine_of(f, id) ? models_name(f->models, id, i) : NULL;
}
