/* SPDX-License-Identifier: BSD-2-Clause */
/* Quantiles and distinct counts in bounded memory. */
#ifndef KVSTEER_SIM_STATS_H
#define KVSTEER_SIM_STATS_H

#include <stdint.h>

/* Times in nanoseconds, each kept to a thousandth. */
#define SIM_TIMES_BITS 10
#define SIM_TIMES_BINS ((64 - SIM_TIMES_BITS + 1) << SIM_TIMES_BITS)

struct sim_times {
	uint64_t n;
	double sum;
	uint32_t *bins; /* SIM_TIMES_BINS */
};

int sim_times_init(struct sim_times *t);
/* times: below zero to take it back */
void sim_times_add(struct sim_times *t, double seconds, int times);
/* The value that q of all lie below; 0 if there is none. */
double sim_times_quantile(const struct sim_times *t, double q);
void sim_times_free(struct sim_times *t);

/*
 * How many different ids: exact up to SIM_DISTINCT_MAX, beyond it by counting only ids whose hash
 * is below a bound that halves whenever they become too many (a thousandth off at most).
 */
#define SIM_DISTINCT_MAX (1u << 23)

struct sim_distinct {
	uint64_t *slots; /* hashes, 0 = free */
	uint32_t n, room;
	unsigned int halvings;
};

int sim_distinct_add(struct sim_distinct *d, uint64_t hash);
double sim_distinct_count(const struct sim_distinct *d);
void sim_distinct_free(struct sim_distinct *d);

#endif
