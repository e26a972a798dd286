/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads one engine's metrics page now and then. Each engine has a timer, a time-out and at most
 * one request of its own: one that hangs holds up nobody else.
 */
#ifndef ENGINES_SCRAPE_H
#define ENGINES_SCRAPE_H

#include "engines/report.h"

struct scraper;

struct scrape_options {
	uint32_t interval_ms; /* 10 % more or less each time, so that engines are asked apart */
	uint32_t timeout_ms;
	uint32_t stale_ms;
	/* After each try, good or bad. The report lives as long as the scraper, which may be freed
	 * from within. */
	void (*reported)(void *arg, const struct engine_report *report);
	void *arg;
};

/* name: what lines call it. NULL: no memory. */
struct scraper *scraper_new(struct event_base *base, const char *name, const struct kv_addr *to,
			    const struct scrape_options *options);
/* Now, unless that was just before. */
void scraper_now(struct scraper *s);
void scraper_free(struct scraper *s);
const struct engine_report *scraper_report(const struct scraper *s);
enum report_age scraper_age(const struct scraper *s, uint64_t now_ns);

#endif
