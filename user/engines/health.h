/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which engines of a pool get requests. Pure: what has happened and the time come in, a state
 * comes out.
 *
 *	          probe good                 failures by rate
 *	  NEW ───────────────▶ UP ◀───────┐ ───────────────────▶ EJECTED
 *	   │                 │  ▲  trial  │                         │ its time is over
 *	   │ refused, or     │  │  passed └──────── TRIAL ◀─────────┘
 *	   │ probes bad      ▼  │ probe good          │ a failure
 *	   └─────────────▶ DOWN ┘                     └──▶ EJECTED, twice as long
 *
 * DOWN is what is not there; no rule limits it. EJECTED is what is there and fails: a judgement
 * that may be wrong, so at most a share of the pool is ejected or on trial, and never the last
 * one that takes requests. Success of real traffic counts as health: it undoes bad probes.
 */
#ifndef ENGINES_HEALTH_H
#define ENGINES_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

#include "engines/outcome.h"

#define HEALTH_MEMBERS 256
#define HEALTH_SECONDS 10 /* the window of the failure rate */
#define HEALTH_FULL 1024  /* weight of an engine that is warm */

enum health_state { HEALTH_NONE, HEALTH_NEW, HEALTH_UP, HEALTH_DOWN, HEALTH_EJECTED, HEALTH_TRIAL };

enum health_probe {
	PROBE_GOOD,
	PROBE_BAD,     /* 5xx, no answer in time, no HTTP */
	PROBE_REFUSED, /* nobody listens */
	PROBE_MUTE,    /* it has never answered such a question: its requests tell */
	PROBE_UNKNOWN, /* it could not be asked: our own fault */
};

struct health_options {
	uint32_t fall;		/* bad probes in a row */
	uint32_t eject_percent; /* failures of all outcomes in the window … */
	uint32_t eject_least;	/* … and at least so many */
	uint32_t share_percent; /* of the pool that may be ejected */
	uint32_t eject_ms;	/* the first time; doubled each time */
	uint32_t eject_most_ms;
	uint32_t trial_successes;
	uint32_t slow_start_ms;	  /* 0: none */
	uint32_t slow_start_from; /* weight to begin with, of HEALTH_FULL */
};

#define HEALTH_DEFAULTS                                                                            \
	((struct health_options){.fall = 3,                                                        \
				 .eject_percent = 50,                                              \
				 .eject_least = 5,                                                 \
				 .share_percent = 50,                                              \
				 .eject_ms = 5000,                                                 \
				 .eject_most_ms = 300000,                                          \
				 .trial_successes = 3,                                             \
				 .slow_start_ms = 30000,                                           \
				 .slow_start_from = HEALTH_FULL / 8})

struct health_second {
	uint64_t second; /* which one */
	uint32_t successes;
	uint32_t failures;
};

struct health {
	enum health_state state;
	const char *why; /* it is in it */
	bool draining;	 /* takes nothing, whatever its state */
	bool refused;	 /* why it is DOWN */
	bool probe_bad;	 /* the last probe */
	bool proven;	 /* it has been well since it listens: one bad probe is not enough */
	uint64_t since_ns;
	uint64_t until_ns;  /* EJECTED */
	uint64_t calm_ns;   /* UP: since when nothing has been held against it */
	uint64_t warm_ns;   /* slow start began; 0: warm */
	uint32_t ejections; /* the exponent of the next one */
	uint32_t bad;	    /* probes in a row, without success of traffic between */
	uint32_t trial;	    /* successes on trial */
	struct health_second window[HEALTH_SECONDS];
};

/* Reasons of changes that whoever opens connections tells himself. */
extern const char health_refuses[], health_takes_connections[];

struct health_pool {
	struct health_options options;
	struct health members[HEALTH_MEMBERS];
	uint64_t spared; /* ejections that the share or the last one forbade */
	/* after each change of state or draining; why: a few words */
	void (*changed)(void *arg, uint32_t id, enum health_state old, const char *why);
	void *arg;
};

/* NEW, or UP where nobody probes. warm: without a slow start. */
void health_add(struct health_pool *p, uint32_t id, bool probed, bool warm, uint64_t now_ns);
void health_remove(struct health_pool *p, uint32_t id, uint64_t now_ns);
void health_probed(struct health_pool *p, uint32_t id, enum health_probe probe, uint64_t now_ns);
void health_outcome(struct health_pool *p, uint32_t id, enum outcome outcome, uint64_t now_ns);
/* Many at once. */
void health_outcomes(struct health_pool *p, uint32_t id, uint32_t successes, uint32_t failures,
		     uint64_t now_ns);
/* It is DOWN only because it refuses connections. */
bool health_is_refused(const struct health_pool *p, uint32_t id);
/* A connection has been opened, the first one since it could not be. */
void health_connected(struct health_pool *p, uint32_t id, uint64_t now_ns);
/* Nobody asks it any more: what its probes said does not hold. */
void health_unprobed(struct health_pool *p, uint32_t id, uint64_t now_ns);
void health_drain(struct health_pool *p, uint32_t id, bool draining, uint64_t now_ns);
/* Its cache is empty: slow start. */
void health_new_cache(struct health_pool *p, uint32_t id, uint64_t now_ns);
/* What time changes: to be called each second or so. */
void health_tick(struct health_pool *p, uint64_t now_ns);

bool health_takes(const struct health_pool *p, uint32_t id);
/* 0 … HEALTH_FULL: how much of its usual share it is to get. */
uint32_t health_weight(const struct health_pool *p, uint32_t id, uint64_t now_ns);
/* Requests at a time; 0: no limit. On trial one is enough, unless there is nobody else. */
uint32_t health_limit(const struct health_pool *p, uint32_t id);
/* How many take requests; 0: not ready. */
uint32_t health_taking(const struct health_pool *p);
const char *health_state_name(enum health_state state);

#endif
