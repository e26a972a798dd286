/* SPDX-License-Identifier: BSD-2-Clause */
/* Between the parts of a run. */
#ifndef KVSTEER_SIM_RUN_PRIVATE_H
#define KVSTEER_SIM_RUN_PRIVATE_H

#include "sim/peers.h"
#include "sim/ring.h"
#include "sim/run.h"
#include "sim/stats.h"
#include "sim/steering.h"

/* What became of a request where it was sent. */
struct sim_outcome {
	double ttft;
	uint32_t blocks, held, believed;
	bool diverted, moved, dead;
};

/* A request in flight whose engine may fail: it may be sent again. */
struct sim_kept {
	struct sim_request request; /* with rungs and ids of its own, behind it */
	struct sim_outcome outcome;
	uint32_t attempts;
	struct kv_rung rungs[];
};

struct sim_flight {
	double done;
	uint32_t found;	       /* tokens that were cached */
	struct sim_kept *kept; /* NULL: nothing can happen to it any more */
};

struct sim_run {
	const struct sim_policy *policy;
	const struct sim_options *options;
	double speed;
	struct sim_steering *steering; /* one of the two */
	struct sim_peer *peer;
	struct sim_engine *engines;
	struct sim_ring *queues; /* by backend: of struct sim_flight, in order of done */
	uint32_t *requests;	 /* in flight, by backend */
	double next_answer;
	double end;
	struct sim_times ttft;
	uint64_t blocks, hits, over, under, diverted, moves, dead;
	uint64_t retried, failed, decisions;
	bool begun;	   /* the warm-up is over */
	uint32_t incident; /* the next one */
	uint32_t restarts; /* that are still to come */
	double second;	   /* and the next look at rates */
	struct sim_slice *slices;
	uint32_t n_slices;
	double cpu_s;
};

/* A request, for the attempts-th time: chosen, served, counted. exclude: as in struct kv_query. 0
 * or -ENOMEM. */
int sim_run_send(struct sim_run *r, double now, const struct sim_request *request, uint32_t exclude,
		 uint32_t attempts);
/* It will have no answer. */
void sim_run_fail(struct sim_run *r, const struct sim_request *request);
/* Out of the sums again. */
void sim_run_uncount(struct sim_run *r, const struct sim_kept *kept);
/* All that happens up to now: answers, incidents, looks at rates. */
int sim_run_pass_time(struct sim_run *r, double now);
void sim_run_answer(struct sim_run *r, double now);

#endif
