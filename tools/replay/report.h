/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef REPLAY_REPORT_H
#define REPLAY_REPORT_H

#include <stdio.h>
#include "replay.h"

struct report {
	const char *name; /* of the run */
	const struct outcome *outcomes;
	size_t n;
	unsigned int engines; /* how many there are; 0: those that answered */
	unsigned int connections;
};

/* One JSON object, the run's summary. */
int report_json(const struct report *r, FILE *out);

/* One line per request, tab-separated, with a header line. */
void report_tsv(const struct report *r, FILE *out);

#endif
