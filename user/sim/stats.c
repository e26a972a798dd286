// SPDX-License-Identifier: BSD-2-Clause
#include "sim/stats.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

/* ---- quantiles ------------------------------------------------------------------------ */

/* Below 2^SIM_TIMES_BITS every value has a bin of its own; above, every octave has that many. */
static uint32_t bin_of(uint64_t v)
{
	unsigned int shift = v >> SIM_TIMES_BITS ? 63 - __builtin_clzll(v) - SIM_TIMES_BITS : 0;

	return (shift << SIM_TIMES_BITS) + (v >> shift);
}

static double middle_of(uint32_t bin)
{
	unsigned int shift;
	uint64_t low;

	if (bin >> SIM_TIMES_BITS < 2)
		return bin;
	shift = (bin >> SIM_TIMES_BITS) - 1;
	low = (uint64_t)(bin - (shift << SIM_TIMES_BITS)) << shift;
	return low + ((1ull << shift) - 1) / 2.0;
}

int sim_times_init(struct sim_times *t)
{
	*t = (struct sim_times){.bins = calloc(SIM_TIMES_BINS, sizeof(*t->bins))};
	return t->bins ? 0 : -ENOMEM;
}

void sim_times_add(struct sim_times *t, double seconds, int times)
{
	t->n += times;
	t->sum += times * seconds;
	t->bins[bin_of(seconds * 1e9 + 0.5)] += times;
}

double sim_times_quantile(const struct sim_times *t, double q)
{
	uint64_t rank = q * t->n, seen = 0;

	if (rank >= t->n)
		rank = t->n ? t->n - 1 : 0;
	for (uint32_t i = 0; i < SIM_TIMES_BINS; i++) {
		seen += t->bins[i];
		if (seen > rank)
			return middle_of(i) / 1e9;
	}
	return 0;
}

void sim_times_free(struct sim_times *t)
{
	free(t->bins);
	t->bins = NULL;
}

/* ---- distinct ids --------------------------------------------------------------------- */

static bool insert(uint64_t *slots, uint32_t room, uint64_t hash)
{
	uint32_t i = (uint32_t)(hash >> 20);

	for (;; i++) {
		uint64_t *slot = &slots[i & (room - 1)];

		if (*slot == hash)
			return false;
		if (!*slot) {
			*slot = hash;
			return true;
		}
	}
}

static bool counts(const struct sim_distinct *d, uint64_t hash)
{
	return !d->halvings || hash >> (64 - d->halvings) == 0;
}

/* Twice the room, or half of the ids. */
static int rehash(struct sim_distinct *d)
{
	uint32_t room = d->room ? 2 * d->room : 1u << 12, n = 0;
	uint64_t *slots;

	if (d->n >= SIM_DISTINCT_MAX) {
		room = d->room;
		d->halvings++;
	}
	slots = calloc(room, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	for (uint32_t i = 0; i < d->room; i++)
		if (d->slots[i] && counts(d, d->slots[i]))
			n += insert(slots, room, d->slots[i]);
	free(d->slots);
	d->slots = slots;
	d->room = room;
	d->n = n;
	return 0;
}

int sim_distinct_add(struct sim_distinct *d, uint64_t hash)
{
	if (!counts(d, hash))
		return 0;
	if (2ull * d->n >= d->room && rehash(d))
		return -ENOMEM;
	if (counts(d, hash))
		d->n += insert(d->slots, d->room, hash);
	return 0;
}

double sim_distinct_count(const struct sim_distinct *d)
{
	return (double)d->n * (double)(1ull << d->halvings);
}

void sim_distinct_free(struct sim_distinct *d)
{
	free(d->slots);
	*d = (struct sim_distinct){0};
}
