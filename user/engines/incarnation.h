/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One engine = its address and its incarnation: a process that has been started again is another
 * engine, with an empty cache. Nothing says so directly, so several signs are watched. One restart
 * shows in several of them, in any order and seconds apart, and must count once: each sign counts
 * once per incarnation, unless it comes so late that it must be a further restart's.
 */
#ifndef ENGINES_INCARNATION_H
#define ENGINES_INCARNATION_H

#include <stdbool.h>
#include <stdint.h>

enum incarnation_sign {
	SIGN_NONE,
	SIGN_STARTED,  /* the process says that it started at another time */
	SIGN_SEQUENCE, /* KV events began anew */
	SIGN_COUNTERS, /* counters that only rise have fallen */
	SIGN_REFUSED,  /* nobody listened, now somebody does */
	SIGNS,
};

/* Signs of one restart are no further apart than this. */
#define INCARNATION_SETTLE_NS 60000000000ull
/* So long after an engine is back its process may tell when it started, before the rest counts. */
#define INCARNATION_ASK_NS 5000000000ull

struct incarnation {
	uint32_t seen;	   /* signs of this incarnation: 1 << sign */
	uint64_t since_ns; /* its first sign; 0: none yet */
	double started;	   /* 0: it has not said */
	uint64_t counter;
	bool refused;
	bool back;	  /* it has been refused and answers again, and is to be asked … */
	uint64_t back_ns; /* … since then */
	uint32_t restarts;
};

/* Each returns the sign of a new incarnation: its cache is empty, the epoch is to be raised; or
 * SIGN_NONE. */
enum incarnation_sign incarnation_refused(struct incarnation *i);
enum incarnation_sign incarnation_answered(struct incarnation *i, uint64_t now_ns);
enum incarnation_sign incarnation_sequence_back(struct incarnation *i, uint64_t now_ns);
/* Of a metrics page; started: 0 where it does not say; counter: any that only rises. */
enum incarnation_sign incarnation_reported(struct incarnation *i, double started, uint64_t counter,
					   uint64_t now_ns);

/* For a line: "its process started at another time". */
const char *incarnation_sign_text(enum incarnation_sign sign);

#endif
