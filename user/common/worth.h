/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Is affinity worth it? Of one backend: of the tokens that were believed to be in its cache when
 * requests were sent there, how many did it find? Where it is next to none (its prefix cache is
 * off, or thrashes, or what is the same text here is other tokens there) it is doubted: what it is
 * believed to hold does not count, until it is found again.
 *
 * The window is of tokens, not of time: the same evidence is asked for whatever the load is, and an
 * idle night says nothing. Beliefs are counted whole, also while they do not count in steering:
 * else the measure would see its own doing.
 *
 * Two sources, as in proof.h: the answers' usage, where that covers a quarter of what the counters
 * do, since it tells requests apart; else the engine's counters. Those hold others' hits as well:
 * by them it may be trusted where it should not, not the other way round.
 */
#ifndef COMMON_WORTH_H
#define COMMON_WORTH_H

#include <stdbool.h>
#include <stdint.h>

#define WORTH_SLICE 8192ull /* predicted tokens */
#define WORTH_SLICES 8	    /* asked for before it is doubted: 64 Ki tokens … */
#define WORTH_BACK 2	    /* … and before it is trusted again */
#define WORTH_LOW 20	    /* percent of what was predicted: below that it is doubted */
#define WORTH_HIGH 50	    /* above that it is trusted again */

enum worth_source { WORTH_USAGE, WORTH_COUNTERS, WORTH_SOURCES };

struct worth_sums {
	uint64_t predicted; /* tokens */
	uint64_t found;	    /* of them */
};

struct worth {
	struct worth_sums slices[WORTH_SLICES][WORTH_SOURCES];
	struct worth_sums filling[WORTH_SOURCES];
	struct worth_sums verdict; /* what it was made of; 0 and 0: there has been none yet */
	uint64_t n;		   /* slices since it was judged otherwise */
	bool doubted;
};

/* What came of an answer (found: of what was predicted, no more), or of all between two looks at
 * the counters. True: it is judged otherwise than before. */
bool worth_add(struct worth *w, enum worth_source source, uint64_t predicted, uint64_t found);
/* Another process, with another cache: trusted, until there is evidence. */
void worth_forget(struct worth *w);

#endif
