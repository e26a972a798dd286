// SPDX-License-Identifier: BSD-2-Clause
#include "engines/page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engines/expose.h"
#include "engines/page_backends.h"
#include "engines/page_discover.h"

static void counters(struct expose *e, const struct view *v)
{
#define COUNTER(name, meaning)                                                                     \
	expose_family(e, "kvsteer_" #name "_total", "counter", meaning);                           \
	expose_count(e, "kvsteer_" #name "_total", NO_LABELS, v->counters[KV_CNT_##name]);

	KV_COUNTERS(COUNTER)
#undef COUNTER
}

static bool ready(const struct view *v)
{
	if (v->draining)
		return false;
	for (size_t i = 0; i < v->n_services; i++)
		if (!v->services[i].taking)
			return false;
	return true;
}

static void process(struct expose *e, const struct view *v)
{
	expose_family(e, "kvsteer_build_info", "gauge", "version of the running agent");
	expose_count(e, "kvsteer_build_info", LABELS({"version", v->version}), 1);
	expose_family(e, "process_start_time_seconds", "gauge",
		      "start of the agent, seconds since the epoch");
	expose_number(e, "process_start_time_seconds", NO_LABELS, v->started);
	expose_family(e, "kvsteer_ready", "gauge", "1 where /readyz answers 200");
	expose_count(e, "kvsteer_ready", NO_LABELS, ready(v));
}

static void services(struct expose *e, const struct view *v)
{
	const struct view_service *s = v->services;

	expose_family(e, "kvsteer_service_info", "gauge", "a service and its policy");
	for (size_t i = 0; i < v->n_services; i++)
		expose_count(e, "kvsteer_service_info",
			     LABELS({"service", s[i].name}, {"policy", s[i].policy}), 1);
	expose_family(e, "kvsteer_service_backends", "gauge", "backends of a service");
	for (size_t i = 0; i < v->n_services; i++)
		expose_count(e, "kvsteer_service_backends", LABELS({"service", s[i].name}),
			     s[i].backends);
	expose_family(e, "kvsteer_service_backends_available", "gauge",
		      "backends of a service that take requests");
	for (size_t i = 0; i < v->n_services; i++)
		expose_count(e, "kvsteer_service_backends_available",
			     LABELS({"service", s[i].name}), s[i].taking);
	expose_family(e, "kvsteer_service_ejections_spared_total", "counter",
		      "ejections not done: too many were out already, or it was the last");
	for (size_t i = 0; i < v->n_services; i++)
		expose_count(e, "kvsteer_service_ejections_spared_total",
			     LABELS({"service", s[i].name}), s[i].spared);
}

struct page page_metrics(const struct view *v)
{
	struct expose e = {0};

	process(&e, v);
	services(&e, v);
	page_discover(&e, v);
	page_backends(&e, v);
	if (v->counters)
		counters(&e, v);
	if (e.failed) {
		free(e.text);
		return (struct page){.status = 500};
	}
	return (struct page){200, EXPOSE_TYPE, e.text, e.len};
}

static struct page text_page(int status, char *text)
{
	return (struct page){text ? status : 500, "text/plain; charset=utf-8", text,
			     text ? strlen(text) : 0};
}

struct page page_healthz(const struct view *v)
{
	(void)v;
	return text_page(200, strdup("ok\n"));
}

struct page page_readyz(const struct view *v)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f;

	if (ready(v))
		return text_page(200, strdup("ok\n"));
	f = open_memstream(&text, &len);
	if (!f)
		return text_page(503, NULL);
	if (v->draining)
		fputs("draining: no further request is taken\n", f);
	for (size_t i = 0; i < v->n_services; i++)
		if (!v->services[i].taking)
			fprintf(f, "service %s: none of its %u backends takes requests\n",
				v->services[i].name, v->services[i].backends);
	return fclose(f) ? text_page(503, NULL) : text_page(503, text);
}

struct page page_of(const struct view *v, const char *path)
{
	if (path && !strcmp(path, "/metrics"))
		return page_metrics(v);
	if (path && !strcmp(path, "/healthz"))
		return page_healthz(v);
	if (path && !strcmp(path, "/readyz"))
		return page_readyz(v);
	return text_page(404, strdup("there are /metrics, /healthz and /readyz\n"));
}
