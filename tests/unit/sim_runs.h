/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs of the simulator over a few lines, and over conversations that half fit. */
#ifndef UNIT_SIM_RUNS_H
#define UNIT_SIM_RUNS_H

#include <math.h>

#include "check.h"
#include "sim/sim.h"

struct script {
	const struct trace_line *lines;
	unsigned int n, at;
};

static inline int next_of_script(void *ctx, struct trace_line *ret, char *err)
{
	struct script *s = ctx;

	(void)err;
	if (s->at == s->n)
		return 0;
	*ret = s->lines[s->at++];
	return 1;
}

static inline struct sim_result simulate(const char *policy, const struct sim_options *options,
					 const struct trace_line *lines, unsigned int n)
{
	struct script script = {lines, n, 0};
	struct sim_source source = {next_of_script, &script};
	struct sim_run *run = sim_run_new(sim_policy_find(policy), 1, options);
	struct sim_result result = {0};
	char err[TRACE_ERROR_LEN];

	CHECK(run != NULL);
	if (run)
		CHECK_EQ(sim_pass(&source, options, &run, &result, 1, err), 0);
	sim_run_free(run);
	return result;
}

static inline bool near(double a, double b)
{
	return fabs(a - b) <= 0.001 * fabs(b) + 1e-9;
}

__attribute__((unused)) static const struct sim_options two = {
	.backends = 2, .blocks = 10, .block_tokens = 100, .rate = 1000};

/* A few conversations, each longer with every turn, over caches that hold about half of them. */
#define CHATS 40
#define TURNS 60

static struct trace_line lines[CHATS * TURNS];

static inline struct sim_options conversations(void)
{
	static uint64_t ids[CHATS][TURNS];
	__u64 random = 1;

	for (int i = 0; i < CHATS * TURNS; i++) {
		int turn = i / CHATS, chat = i % CHATS;

		random = kv_mix(random + i);
		ids[chat][turn] = chat * TURNS + turn;
		lines[i] = (struct trace_line){.at_s = i * 0.05 + (random % 1000) * 1e-5,
					       .input_tokens = 16 * (turn + 1),
					       .n_ids = turn + 1,
					       .ids = ids[chat]};
	}
	return (struct sim_options){.backends = 3, .blocks = 300, .block_tokens = 16, .rate = 1000};
}

#endif
