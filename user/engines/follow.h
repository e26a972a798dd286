/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Follows all engines: health, load, models, incarnations, proof. Whoever uses it says which
 * engines there are and what happened to requests, and is told what changes.
 */
#ifndef ENGINES_FOLLOW_H
#define ENGINES_FOLLOW_H

#include "engines/models.h"
#include "engines/page.h"
#include "engines/prober.h"
#include "engines/scrape.h"

#define FOLLOW_SERVICES KV_MAX_SERVICES

struct follow;

struct follow_options {
	const char *health_path; /* lives as long as the follower */
	uint32_t health_ms;	 /* 0: not asked; health is judged by requests alone */
	uint32_t health_timeout_ms;
	uint32_t models_ms;  /* 0: not asked; all serve all */
	uint32_t metrics_ms; /* 0: not scraped */
	uint32_t metrics_timeout_ms;
	uint32_t stale_ms;
	struct health_options health;
};

#define FOLLOW_DEFAULTS                                                                            \
	((struct follow_options){.health_path = "/health",                                         \
				 .health_ms = 2000,                                                \
				 .health_timeout_ms = 2000,                                        \
				 .models_ms = 30000,                                               \
				 .metrics_ms = 1000,                                               \
				 .metrics_timeout_ms = 1000,                                       \
				 .stale_ms = 5000,                                                 \
				 .health = HEALTH_DEFAULTS})

/* From the loop, and from within the functions below: of that engine, and of others of its pool.
 * Engines may be added and removed within. */
struct follow_calls {
	/* Whether it takes requests; weight: of HEALTH_FULL; limit: requests at a time, 0: none;
	 * state: why, to be shown */
	void (*state)(void *arg, uint32_t id, bool takes, uint32_t weight, uint32_t limit,
		      enum health_state state);
	/* Its cache is empty: raise the epoch. */
	void (*new_cache)(void *arg, uint32_t id);
	/* A size that it had not told before; tokens. */
	void (*cache_size)(void *arg, uint32_t id, uint64_t capacity);
	/* Outcomes that somebody counts for it: hand them on now, by follow_counted(). What came
	 * before a probe is judged before it, and is no sign of health afterwards. */
	void (*hand_on)(void *arg, uint32_t id);
	/* The maps' sums of it, as they are now. */
	const struct kv_backend *(*backend)(void *arg, uint32_t id);
	/* Requests there that are not ours, about; waiting: of these, not begun. */
	void (*foreign)(void *arg, uint32_t id, uint64_t requests, uint64_t waiting);
	/* How much of what it is believed to hold is worth going by: what was measured has
	 * changed. */
	void (*worth)(void *arg, uint32_t id, const struct worth *worth);
	/* Engines of a service serve other models than others of it, or may; or all the same. Not
	 * called before those that take requests have been asked. */
	void (*models)(void *arg, uint32_t service, bool differ);
	void *arg;
};

/* NULL: no memory. Does not own the loop. Options are copied. */
struct follow *follow_new(struct event_base *base, const struct follow_options *options,
			  const struct follow_calls *calls);
void follow_free(struct follow *f);
/* What is known stays; only what is asked otherwise is asked anew. 0, or -ENOMEM: some engines are
 * not asked any more. */
int follow_change(struct follow *f, const struct follow_options *options);

/* id: of the backend, below KV_MAX_BACKENDS; service: whose pool it is in; takes: it gets requests
 * while it is first asked; warm: without a slow start. 0 or -errno. */
int follow_add(struct follow *f, uint32_t id, uint32_t service, const char *name,
	       const struct kv_addr *addr, bool takes, bool warm);
/* It has been judged by somebody before: that stays until there is evidence to the contrary. */
void follow_go_on(struct follow *f, uint32_t id, const struct worth_sums *verdict);
void follow_remove(struct follow *f, uint32_t id);
void follow_drain(struct follow *f, uint32_t id, bool draining);

/* What came of an attempt. retry_after: of OUTCOME_BUSY, may be NULL. */
void follow_outcome(struct follow *f, uint32_t id, enum outcome outcome);
/* Outcomes that somebody else has counted. */
void follow_counted(struct follow *f, uint32_t id, uint32_t successes, uint32_t failures);
/* One was opened; what refused a moment ago takes connections after all. */
void follow_opened(struct follow *f, uint32_t id);
/* Connections can be opened again. */
void follow_connected(struct follow *f, uint32_t id);
/* It may be another process by now: it is asked at once. */
void follow_suspect(struct follow *f, uint32_t id);
void follow_busy(struct follow *f, uint32_t id, const char *retry_after, size_t len);
bool follow_is_busy(const struct follow *f, uint32_t id);
/* Its KV events began anew: who follows those has raised the epoch. */
void follow_sequence_back(struct follow *f, uint32_t id);
void follow_lookup(struct follow *f, uint32_t id, enum proof_class class, uint64_t matched);
void follow_answered(struct follow *f, uint32_t id, const struct proof_request *r);

/* Who serves this model; asks again, soon, when nobody does. */
struct model_set follow_serving(struct follow *f, uint32_t service, const char *model, size_t len);

/* What the pages and `backend show` tell; the caller adds names and the map's entry. */
void follow_view(const struct follow *f, uint32_t id, struct view_backend *ret);
void follow_view_service(const struct follow *f, uint32_t service, struct view_service *ret);
/* Names of models that it serves, by their order; NULL: no more, or it has not said any. */
const char *follow_model(const struct follow *f, uint32_t id, uint32_t i);
struct proof_facts follow_facts(const struct follow *f, uint32_t id);

#endif
