/* SPDX-License-Identifier: BSD-2-Clause */
/* What kvsteerd tells over HTTP: /metrics, /healthz, /readyz, of a view of its state. */
#ifndef ENGINES_PAGE_H
#define ENGINES_PAGE_H

#include <kvsteer/counters.h>
#include <kvsteer/shared.h>

#include "engines/health.h"
#include "engines/proof.h"
#include "engines/report.h"

/* Names are those of the maps; pointers that are NULL are not known, and not shown. */
struct view_backend {
	const char *service;
	const char *name;
	const char *address;
	const struct kv_backend *map;
	enum health_state state;
	const char *why; /* it is in it */
	uint64_t since_ns;
	bool draining;
	uint32_t discount; /* percent of what it is believed to hold that do not count */
	uint32_t weight;   /* of HEALTH_FULL */
	uint64_t restarts; /* incarnations but the first */
	const struct engine_report *report;
	uint64_t stale_ns; /* of the report */
	const struct proof *proof;
	struct proof_verdict verdict;
};

struct view_service {
	const char *name;
	const char *policy;
	uint32_t backends;
	uint32_t taking; /* of these, that take requests */
	uint64_t spared; /* ejections that were forbidden */
	const char *dns; /* the name that its engines are found by */
	const struct kv_service_found *found;
};

struct view {
	const char *version;
	double started; /* Unix time */
	uint64_t now_ns;
	bool draining;
	const __u64 *counters; /* by enum kv_counter */
	const struct view_service *services;
	size_t n_services;
	const struct view_backend *backends;
	size_t n_backends;
};

struct page {
	int status;
	const char *type;
	char *text; /* to be freed; NULL: no memory */
	size_t len;
};

struct page page_metrics(const struct view *v);
/* The process works. */
struct page page_healthz(const struct view *v);
/* It takes requests, and each service has an engine that does; else 503 and what is missing. */
struct page page_readyz(const struct view *v);
/* NULL path or another: 404. */
struct page page_of(const struct view *v, const char *path);

#endif
