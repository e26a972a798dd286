// SPDX-License-Identifier: BSD-2-Clause
#include "common/worth.h"

#include <string.h>

static struct worth_sums sum_of(const struct worth *w, enum worth_source source)
{
	struct worth_sums sum = {};

	for (uint32_t i = 0; i < WORTH_SLICES; i++) {
		sum.predicted += w->slices[i][source].predicted;
		sum.found += w->slices[i][source].found;
	}
	return sum;
}

static void conclude(struct worth *w, const struct worth_sums *verdict)
{
	uint64_t percent = verdict->found * 100 / verdict->predicted;

	w->verdict = *verdict;
	w->discount = percent < WORTH_WHOLE ? 100 - percent : 0;
	w->down = w->down ? percent <= WORTH_HIGH : percent < WORTH_LOW;
}

static bool judge(struct worth *w)
{
	struct worth_sums usage, counters, verdict;
	bool was = w->down;

	if (w->n < WORTH_SLICES)
		return false;
	usage = sum_of(w, WORTH_USAGE);
	counters = sum_of(w, WORTH_COUNTERS);
	verdict = usage.predicted * 4 >= counters.predicted ? usage : counters;
	/* Counters of hits may be ahead: an engine counts when it begins, we when it answers. */
	if (verdict.found > verdict.predicted)
		verdict.found = verdict.predicted;
	conclude(w, &verdict);
	return w->down != was;
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

void worth_go_on(struct worth *w, const struct worth_sums *verdict)
{
	struct worth_sums part = {verdict->predicted / WORTH_SLICES, verdict->found / WORTH_SLICES};

	worth_forget(w);
	if (!verdict->predicted)
		return;
	for (; w->n < WORTH_SLICES; w->n++)
		w->slices[w->n][WORTH_USAGE] = w->slices[w->n][WORTH_COUNTERS] = part;
	conclude(w, verdict);
}
