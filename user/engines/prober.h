/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Asks one engine how it is (/health) and, less often, which models it serves (/v1/models). As
 * with scrapes: a timer, a time-out and one request of its own.
 */
#ifndef ENGINES_PROBER_H
#define ENGINES_PROBER_H

#include "engines/fetch.h"
#include "engines/health.h"

struct prober;

struct prober_options {
	const char *health_path; /* lives as long as the prober */
	uint32_t interval_ms;
	uint32_t timeout_ms;
	uint32_t models_ms; /* 0: not asked */
	void (*probed)(void *arg, enum health_probe probe);
	/* A whole answer of status 200; NULL: there was none. */
	void (*models)(void *arg, const char *json, size_t len);
	void *arg;
};

/* name: what lines call it. NULL: no memory. The prober may be freed within its calls. */
struct prober *prober_new(struct event_base *base, const char *name, const struct kv_addr *to,
			  const struct prober_options *options);
void prober_free(struct prober *p);
/* Soon: a request has failed, or a model is not known. At most one a second. */
void prober_now(struct prober *p, bool models);
/* It may be another process by now: what was asked before does not count. */
void prober_models_anew(struct prober *p);

enum health_probe probe_of(enum fetch_result result, int status);

#endif
