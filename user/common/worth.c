// SPDX-License-Identifier: BSD-2-Clause
#include "common/worth.h"

#include <string.h>

static struct worth_sums sum_of(const struct worth *w, enum worth_source source, uint32_t slices)
{
	struct worth_sums sum = {};

	for (uint32_t i = 1; i <= slices; i++) {
		const struct worth_sums *s = &w->slices[(w->n - i) % WORTH_SLICES][source];

		sum.predicted += s->predicted;
		sum.found += s->found;
	}
	return sum;
}

static bool judge(struct worth *w)
{
	uint32_t slices = w->doubted ? WORTH_BACK : WORTH_SLICES;
	struct worth_sums usage, counters;
	bool otherwise;

	if (w->n < slices)
		return false;
	usage = sum_of(w, WORTH_USAGE, slices);
	counters = sum_of(w, WORTH_COUNTERS, slices);
	w->verdict = usage.predicted * 4 >= counters.predicted ? usage : counters;
	/* Counters of hits may be ahead: an engine counts when it begins, we when it answers. */
	if (w->verdict.found > w->verdict.predicted)
		w->verdict.found = w->verdict.predicted;
	otherwise = w->doubted ? w->verdict.found * 100 > w->verdict.predicted * WORTH_HIGH
			       : w->verdict.found * 100 < w->verdict.predicted * WORTH_LOW;
	if (otherwise) {
		w->doubted = !w->doubted;
		w->n = 0;
	}
	return otherwise;
}

bool worth_add(struct worth *w, enum worth_source source, uint64_t predicted, uint64_t found)
{
	struct worth_sums *s = &w->filling[source];

	s->predicted += predicted;
	s->found += found;
	if (s->predicted < WORTH_SLICE)
		return false;
	memcpy(w->slices[w->n++ % WORTH_SLICES], w->filling, sizeof(w->filling));
	memset(w->filling, 0, sizeof(w->filling));
	return judge(w);
}

void worth_forget(struct worth *w)
{
	memset(w, 0, sizeof(*w));
}
