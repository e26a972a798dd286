/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads Prometheus' text format (0.0.4, and what OpenMetrics adds to a line) as it arrives, in
 * pieces of any size: a line at a time, in one buffer of fixed size. What is no sample is counted
 * and passed over.
 */
#ifndef ENGINES_PROM_H
#define ENGINES_PROM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROM_LINE_MAX 16384
#define PROM_LABELS_MAX 64

struct prom_label {
	const char *name;
	const char *value; /* escapes decoded */
};

struct prom_sample {
	const char *name;
	const struct prom_label *labels;
	unsigned int n_labels;
	double value; /* any, NaN and infinities too */
};

struct prom_sink {
	/* Asked first: most lines of a page are of no interest, and need not be read. */
	bool (*wants)(void *arg, const char *name);
	/* What s points to ends with the call. */
	void (*sample)(void *arg, const struct prom_sample *s);
	void *arg;
};

struct prom_reader {
	struct prom_sink sink;
	uint64_t limit;
	uint64_t bytes;
	uint64_t samples;
	uint64_t malformed; /* lines that are no samples, too long ones included */
	bool cut;	    /* the page is longer than limit */
	bool skipping;	    /* the line is longer than the buffer */
	size_t len;
	char line[PROM_LINE_MAX + 1];
};

void prom_begin(struct prom_reader *r, const struct prom_sink *sink, uint64_t limit);
/* false: more than limit bytes; the rest of the page is not looked at. */
bool prom_feed(struct prom_reader *r, const char *data, size_t n);
/* The last line may lack its newline. */
void prom_end(struct prom_reader *r);

/* NULL: the sample has no such label. */
const char *prom_label(const struct prom_sample *s, const char *name);

#endif
