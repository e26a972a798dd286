/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Does it work? Of one backend: how many prompt tokens were predicted to be in its cache, how
 * many it found there, over the last minute; when the two part, the likely cause. Two sources, as
 * available: answers that carry usage (exact, per request), and the engine's own counters (all of
 * its traffic, kvsteer's or not).
 */
#ifndef ENGINES_PROOF_H
#define ENGINES_PROOF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/worth.h"

#define PROOF_SLICES 12
#define PROOF_SLICE_NS 5000000000ull
#define PROOF_LEAST 16384 /* tokens in the window; with less nothing is said */
#define PROOF_LOW 80	  /* percent of what was predicted */
#define PROOF_HIGH 125
#define PROOF_UNSCALED_LOW 50 /* where our tokens may be others than the engine's */
#define PROOF_UNSCALED_HIGH 200
#define PROOF_DEPTHS 18 /* 0, up to 16, 32, … 512 Ki, above */

enum proof_class { PROOF_PLAIN, PROOF_SALTED, PROOF_ADAPTER, PROOF_CLASSES };

/* One answered request. */
struct proof_request {
	enum proof_class class;
	uint64_t prompt;    /* tokens, 0: not known */
	uint64_t reckoned;  /* of the same prompt by our count, 0: not known */
	uint64_t predicted; /* tokens */
	uint64_t cached;    /* tokens, by its usage … */
	bool has_cached;    /* … where it says so: absent is not 0 */
};

/* Sums of both sides, all only rising. */
struct proof_counters {
	uint64_t predicted;
	uint64_t prompt;
	uint64_t hits;
	uint64_t queries;
};

struct proof_tokens {
	uint64_t requests;
	uint64_t prompt;
	uint64_t predicted;
	uint64_t cached;
};

struct proof_slice {
	uint64_t slice;				     /* which one */
	struct proof_tokens by_class[PROOF_CLASSES]; /* requests that said what was cached */
	struct proof_counters counters;		     /* differences */
};

struct proof {
	struct proof_slice slices[PROOF_SLICES];
	struct proof_counters last;
	bool has_last;
	/* sums for the metrics page, only rising */
	struct proof_tokens total[PROOF_CLASSES]; /* as by_class */
	uint64_t lookups[PROOF_CLASSES];
	uint64_t misses[PROOF_CLASSES]; /* lookups without any match */
	uint64_t depths[PROOF_DEPTHS];	/* of matches */
	uint64_t depth_sum;
	struct worth worth; /* whether these predictions should steer */
	/* of answers that tell both: an engine's tokens over ours, which may be 4 bytes of text */
	uint64_t real, reckoned;
};

/* What else is known of the engine; 0: not known. */
struct proof_facts {
	uint64_t block_size, our_block_size; /* tokens */
	uint64_t capacity, our_capacity;     /* tokens */
};

enum proof_cause {
	PROOF_AGREES,
	PROOF_TOO_LITTLE, /* traffic, to say anything */
	PROOF_BLOCK_SIZE,
	PROOF_CAPACITY,
	PROOF_CACHING_OFF,
	PROOF_SALT,
	PROOF_LORA,
	PROOF_OTHER_TRAFFIC,
	PROOF_TEMPLATE,
	PROOF_UNDERRATED, /* it holds more than we know */
	PROOF_CAUSES,
};

struct proof_verdict {
	enum proof_cause cause;
	bool alarm;
	bool by_usage;	    /* else by the engine's counters */
	bool unscaled;	    /* … in tokens that may be others than ours */
	uint64_t predicted; /* in the window */
	uint64_t actual;
	double ratio; /* actual / predicted; 1 where nothing was predicted nor found */
};

void proof_lookup(struct proof *p, enum proof_class class, uint64_t matched);
/* True: worth is judged otherwise than before. */
bool proof_answered(struct proof *p, const struct proof_request *r, uint64_t now_ns);
bool proof_counted(struct proof *p, const struct proof_counters *c, uint64_t now_ns);
/* The engine or its incarnation is another one: its counters begin anew. */
void proof_restarted(struct proof *p);

struct proof_verdict proof_judge(const struct proof *p, const struct proof_facts *facts,
				 uint64_t now_ns);
/* One sentence or two. */
void proof_explain(const struct proof_verdict *v, const struct proof_facts *facts, char *text,
		   size_t size);
/* The likely cause only; "" where there is none. */
const char *proof_cause_text(const struct proof_verdict *v, const struct proof_facts *facts,
			     char *text, size_t size);
/* "block-size": for metrics and JSON. */
const char *proof_cause_name(enum proof_cause cause);
/* The upper bound of a bucket, its own value included; 0: none. */
uint64_t proof_depth_bound(unsigned int bucket);

#endif
