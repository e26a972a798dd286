/* SPDX-License-Identifier: BSD-2-Clause */
/* What an engine says of itself, and how old that is. */
#ifndef ENGINES_REPORT_H
#define ENGINES_REPORT_H

#include "engines/fetch.h"
#include "engines/metrics.h"

enum report_age {
	REPORT_NONE,  /* it has never said anything */
	REPORT_STALE, /* not to be believed any more, and not to be read as idle */
	REPORT_FRESH,
};

struct engine_report {
	struct engine_load load; /* of at_ns */
	uint64_t at_ns;		 /* CLOCK_MONOTONIC; 0: never */
	uint64_t took_ns;
	/* the last try, which may have failed */
	enum fetch_result result;
	int status;
	int error; /* of metrics_end() */
	/* sums, only rising */
	uint64_t scrapes;
	uint64_t failures;  /* of these: no answer, not 200, not readable */
	uint64_t timeouts;  /* of the failures */
	uint64_t too_large; /* of the failures */
	uint64_t malformed; /* lines */
};

static inline enum report_age report_age(const struct engine_report *r, uint64_t now_ns,
					 uint64_t stale_ns)
{
	if (!r->at_ns)
		return REPORT_NONE;
	return now_ns - r->at_ns > stale_ns ? REPORT_STALE : REPORT_FRESH;
}

#endif
