/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef ENGINES_METRIC_NAMES_H
#define ENGINES_METRIC_NAMES_H

#include "engines/metrics.h"

/* How series of one name come together. */
enum metric_join {
	JOIN_SUM,
	JOIN_MAX,
	JOIN_RANKS, /* ranks are added; of one rank's series (tensor parallel) the greatest */
	JOIN_INFO,  /* block size and number of blocks are labels, the value says nothing */
};

struct metric_name {
	const char *name;
	enum engine_kind kind;
	enum metric metric;
	unsigned int choice; /* the lowest that is there counts */
	enum metric_join join;
	const char *label; /* only series with this label … */
	const char *value; /* … of this value; JOIN_INFO: label of the block size, of the number */
};

extern const struct metric_name metric_names[];
extern const unsigned int n_metric_names;

#endif
