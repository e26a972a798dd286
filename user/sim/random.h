/* SPDX-License-Identifier: BSD-2-Clause */
/* Chance that is the same each time (Knuth's MMIX generator). */
#ifndef KVSTEER_SIM_RANDOM_H
#define KVSTEER_SIM_RANDOM_H

#include "kvsteer/types.h"

/* The next state, of which the high bits are the random ones. */
static inline __u64 sim_random(__u64 *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return *state;
}

#endif
