/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes Prometheus' text format (0.0.4). */
#ifndef ENGINES_EXPOSE_H
#define ENGINES_EXPOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPOSE_TYPE "text/plain; version=0.0.4; charset=utf-8"

struct expose {
	char *text; /* ended by NUL; to be freed */
	size_t len;
	size_t size;
	bool failed; /* out of memory: the text is not whole */
};

struct expose_label {
	const char *name;
	const char *value; /* NULL: the label is left out */
};

/* The labels of a sample: LABELS({"service", s}, {"backend", b}) */
struct expose_labels {
	const struct expose_label *labels;
	size_t n;
};
#define NO_LABELS ((struct expose_labels){NULL, 0})
#define LABELS(...)                                                                                \
	((struct expose_labels){                                                                   \
		(const struct expose_label[]){__VA_ARGS__},                                        \
		sizeof((const struct expose_label[]){__VA_ARGS__}) / sizeof(struct expose_label)})

/* type: "counter", "gauge", "histogram". Before all samples of that name. */
void expose_family(struct expose *e, const char *name, const char *type, const char *help);
void expose_count(struct expose *e, const char *name, struct expose_labels labels, uint64_t value);
void expose_number(struct expose *e, const char *name, struct expose_labels labels, double value);

#endif
