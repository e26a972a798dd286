// SPDX-License-Identifier: BSD-2-Clause
/* The names that services' engines are found by, on /metrics. */
#include "engines/page_discover.h"

#define PREFIX "kvsteer_discovery_"

static double up(const struct view *v, const struct kv_service_found *f)
{
	(void)v;
	return f->answered_at && !f->failing;
}

static double engines(const struct view *v, const struct kv_service_found *f)
{
	(void)v;
	return f->engines;
}

static double passed_over(const struct view *v, const struct kv_service_found *f)
{
	(void)v;
	return f->passed_over;
}

static double age(const struct view *v, const struct kv_service_found *f)
{
	return v->now_ns > f->answered_at ? (v->now_ns - f->answered_at) / 1e9 : 0;
}

static double rounds(const struct view *v, const struct kv_service_found *f)
{
	(void)v;
	return f->rounds;
}

static double failures(const struct view *v, const struct kv_service_found *f)
{
	(void)v;
	return f->failures;
}

static const struct {
	const char *name, *type, *help;
	double (*value)(const struct view *v, const struct kv_service_found *f);
	bool answered; /* only of names that have been answered */
} families[] = {
	{PREFIX "up", "gauge", "1 where the last round of questions had addresses", up, false},
	{PREFIX "engines", "gauge", "engines that the name stands for, as last answered", engines,
	 false},
	{PREFIX "engines_passed_over", "gauge",
	 "of them, without requests: no room, or not possible as a backend", passed_over, false},
	{PREFIX "success_age_seconds", "gauge", "age of the last good answer", age, true},
	{PREFIX "rounds_total", "counter", "rounds of questions, by this agent", rounds, false},
	{PREFIX "failures_total", "counter",
	 "rounds of which a question failed, or without any address", failures, false},
};

void page_discover(struct expose *e, const struct view *v)
{
	for (size_t i = 0; i < sizeof(families) / sizeof(*families); i++) {
		expose_family(e, families[i].name, families[i].type, families[i].help);
		for (size_t k = 0; k < v->n_services; k++) {
			const struct view_service *s = &v->services[k];

			if (s->found && (s->found->answered_at || !families[i].answered))
				expose_number(e, families[i].name,
					      LABELS({"service", s->name}, {"dns", s->dns}),
					      families[i].value(v, s->found));
		}
	}
}
