/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Is affinity worth it? Of one backend: of the tokens that were believed to be in its cache when
 * requests were sent there, how many did it find? By that share what it is believed to hold counts.
 * Where it is next to none (its prefix cache is off, or thrashes, or what is the same text here is
 * other tokens there) nothing counts, until it is found again.
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
#define WORTH_SLICES 8	    /* 64 Ki tokens; with less nothing is said */
/* Percent of what was predicted: */
#define WORTH_WHOLE 80 /* from there on all counts: rungs of text end elsewhere than blocks */
#define WORTH_LOW 20   /* below that it is said to be turned down … */
#define WORTH_HIGH 50  /* … and above that to be back */

enum worth_source { WORTH_USAGE, WORTH_COUNTERS, WORTH_SOURCES };

struct worth_sums {
	uint64_t predicted; /* tokens */
	uint64_t found;	    /* of them */
};

struct worth {
	struct worth_sums slices[WORTH_SLICES][WORTH_SOURCES];
	struct worth_sums filling[WORTH_SOURCES];
	struct worth_sums verdict; /* what it was made of; 0 and 0: there has been none yet */
	uint64_t n;		   /* slices */
	uint32_t discount;	   /* percent of what it is believed to hold that do not count */
	bool down;		   /* as it was said last */
};

/* What came of an answer (found: of what was predicted, no more), or of all between two looks at
 * the counters. True: it is down, or back, and that is to be said. */
bool worth_add(struct worth *w, enum worth_source source, uint64_t predicted, uint64_t found);
/* From what another has made of it, by whichever source; 0 and 0: nothing. */
void worth_go_on(struct worth *w, const struct worth_sums *verdict);
/* Another process, with another cache: trusted, until there is evidence. */
void worth_forget(struct worth *w);

#endif
