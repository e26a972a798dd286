/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The simulator: the steering core that the kernel runs, in virtual time, over emulated engines.
 * Requests come from a trace or a generator, once, and all runs (a policy at a speed) take them
 * side by side, so nothing grows with the length of the trace but the queues of an overloaded
 * fleet.
 */
#ifndef KVSTEER_SIM_H
#define KVSTEER_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "kvsteer/fixed.h"
#include "kvsteer/shared.h"
#include "sim/engine.h"
#include "sim/incident.h"
#include "sim/trace.h"

struct sim_options {
	uint32_t backends;
	uint32_t blocks; /* of each cache */
	uint32_t block_tokens;
	double rate; /* prefill tokens per second and backend */
	bool told;   /* engines say what they store and evict; else it is learned */
	enum kv_affinity affinity;
	bool no_sessions; /* their keys are not looked at */
	double warmup_s;  /* requests before that count in slices only */
	bool learn_rates; /* how fast engines are is learned; else it is known at any time */
	double slice_s;	  /* results by the time when requests came; 0: of all only */
	struct sim_incidents incidents;
	double metrics_delay; /* seconds between two looks at the queues, for those that look */
};

/* One request, as all runs see it. */
struct sim_request {
	double at_s; /* since the first */
	uint32_t tokens;
	uint32_t n_ids, n_rungs;
	uint64_t session; /* hash of its key, 0: none */
	const uint64_t *ids;
	const struct kv_rung *rungs;
};

/* An id names a block and all before it, so it is that chain's hash but for its distribution. */
static inline uint64_t sim_block_hash(uint64_t id)
{
	return kv_mix(id + 1) ?: 1;
}

struct sim_peer_rule;

struct sim_policy {
	const char *name;
	const char *help;
	int core; /* enum kv_policy, or -1: a peer's */
	const struct sim_peer_rule *peer;
};

/* Rows of the simulator: ours, then the peers'. Ended by a nameless one. */
extern const struct sim_policy sim_policies[];
const struct sim_policy *sim_policy_find(const char *name);

struct sim_slice {
	uint64_t requests, blocks, hits;
	double ttft_sum;
};

struct sim_result {
	const struct sim_policy *policy;
	const char *state; /* what it knows of the caches: learned, events, exact */
	double speed;
	uint64_t requests;
	double seconds;	    /* of virtual time, until the last answer */
	double hit_rate;    /* of all blocks */
	double hit_ceiling; /* that one endless cache would reach */
	double ttft_mean, ttft_p50, ttft_p90, ttft_p99;
	double busiest_over_mean; /* of prefill work */
	double over, under;	  /* of all blocks: believed but gone, there but unknown */
	uint64_t dead;		  /* requests steered by what a restart has taken */
	uint64_t retried;	  /* sent again: their engine was gone before it answered */
	uint64_t failed;	  /* never answered; not in the times, nor in blocks and hits */
	struct sim_slice *slices; /* the run's */
	uint32_t n_slices;
	uint64_t diverted; /* sent where less of it was believed cached than elsewhere */
	uint32_t doubts;   /* times that affinity was turned down, of a backend … */
	uint32_t backs;	   /* … and was back */
	uint64_t moves;	   /* of these, those whose conversation has its home there from now on */
	double decisions_per_s; /* of CPU time, engines and caches included */
};

struct sim_run;

/* NULL: out of memory. The options stay where they are. */
struct sim_run *sim_run_new(const struct sim_policy *policy, double speed,
			    const struct sim_options *options);
void sim_run_free(struct sim_run *run);

/* A source of requests: as trace_next. */
struct sim_source {
	int (*next)(void *ctx, struct trace_line *ret, char *err);
	void *ctx;
};

struct sim_source sim_source_of_trace(struct trace_reader *reader);

/* All requests of the source through all runs. 0, or -errno and err (TRACE_ERROR_LEN). */
int sim_pass(const struct sim_source *source, const struct sim_options *options,
	     struct sim_run **runs, struct sim_result *results, unsigned int n, char *err);

#endif
