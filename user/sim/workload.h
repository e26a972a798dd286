/* SPDX-License-Identifier: BSD-2-Clause */
/* Made traffic: what a trace cannot be had for. The same each time. */
#ifndef KVSTEER_SIM_WORKLOAD_H
#define KVSTEER_SIM_WORKLOAD_H

#include "sim/sim.h"

#define WORKLOAD_STEPS 16

enum workload_draw {
	DRAW_UNIFORM,
	DRAW_BALANCED, /* every group as often as any other */
	DRAW_ZIPF,     /* the k-th group 1/k as often as the first */
};

/* A request's prompt is its group's prefix, and a question: one of a few, or one never asked before
 * or again. They come at random times, at a rate that changes in steps. */
struct workload {
	const char *name, *help;
	uint32_t groups;
	uint32_t questions;	     /* of a group; 0: always a new one */
	uint32_t prefix, prefix_max; /* tokens; between the two, by group */
	uint32_t tail;		     /* tokens of a question; 0: a ninth of the prefix */
	enum workload_draw draw;
	/* Not 0: chats instead. Each request is a turn, the chat so far and a tail; after so many
	 * another chat begins in its place. They have session keys. */
	uint32_t turns;
	uint32_t unit;	  /* tokens of the gateway's blocks: it knows nothing of shorter prompts */
	uint32_t at_once; /* this many at the same time, and no more; else as below */
	double step_s;
	double rates[WORKLOAD_STEPS]; /* requests per second, ended by 0 */
};

extern const struct workload sim_workloads[]; /* ended by a nameless one */
const struct workload *sim_workload_find(const char *name);

struct workload_source;

/* NULL: out of memory. */
struct workload_source *sim_workload_new(const struct workload *w, uint32_t block_tokens);
void sim_workload_free(struct workload_source *s);
/* As trace_next. */
int sim_workload_next(void *source, struct trace_line *ret, char *err);

#endif
