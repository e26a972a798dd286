/* SPDX-License-Identifier: BSD-2-Clause */
/* What the parts of the follower share. */
#ifndef ENGINES_FOLLOW_PRIVATE_H
#define ENGINES_FOLLOW_PRIVATE_H

#include "common/timer.h"
#include "engines/follow.h"
#include "engines/foreign.h"
#include "engines/incarnation.h"
#include "engines/time.h"

struct engine {
	struct follow *follow;
	uint32_t id;
	uint32_t service;
	char name[KV_NAME_LEN];
	struct kv_addr addr;
	struct scraper *scraper;
	struct prober *prober;
	struct incarnation incarnation;
	struct busy busy;
	struct foreign foreign;
	struct proof proof;
	uint64_t capacity, block_size; /* told last */
	struct worth_sums verdict;     /* likewise, what came of what it is believed to hold */
	/* what the caller was told last */
	bool told;
	bool takes;
	uint32_t weight;
	uint32_t limit;
	enum health_state state;
};

struct pool {
	struct follow *follow;
	uint32_t n;
	struct model_set members;
	struct health_pool health;
	bool models_told, models_differ; /* what the caller was told last */
};

struct follow {
	struct event_base *base;
	struct follow_options options;
	char *path; /* the options' health_path: probers read it */
	struct follow_calls calls;
	struct models *models;
	struct pool *pools[FOLLOW_SERVICES];
	struct engine *engines[KV_MAX_BACKENDS];
	struct kv_timer tick;
};

static inline struct engine *engine_of(const struct follow *f, uint32_t id)
{
	return id < KV_MAX_BACKENDS ? f->engines[id] : NULL;
}

static inline struct health_pool *health_of(const struct engine *e)
{
	return &e->follow->pools[e->service]->health;
}

/* Tells the caller what has changed, of all engines of a pool: what happens to one may bring back
 * another. */
void follow_tell(struct follow *f, uint32_t service, uint64_t now_ns);
/* Tells whether a pool's models differ. */
void follow_tell_models(struct follow *f, uint32_t service);
/* It is another process than before, or not. */
void engine_renewed(struct engine *e, enum incarnation_sign sign, uint64_t now_ns);

/* What has been measured of its predictions is told; turned: it is judged otherwise than before. */
void engine_judged(struct engine *e, bool turned);

/* What engines say: of their pool, their prober, their scraper. */
void engine_changed(void *arg, uint32_t id, enum health_state old, const char *why);
void engine_probed(void *arg, enum health_probe probe);
void engine_listed(void *arg, const char *json, size_t len);
void engine_reported(void *arg, const struct engine_report *r);

#endif
