/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of `kvsteer simulate`. */
#ifndef KVSTEER_CLI_SIMULATE_H
#define KVSTEER_CLI_SIMULATE_H

#include "cli.h"
#include "sim/sim.h"
#include "sim/workload.h"

#define SIMULATE_RUNS_MAX 256
#define SIMULATE_SPEEDS_MAX 64
#define SIMULATE_BLOCKS_MAX (1ull << 26) /* of all caches together: 3 GB of bookkeeping */

/* What is asked for. Sizes that are not are 0. */
struct simulate_order {
	const char *trace; /* or the workload's name */
	const struct workload *workload;
	const char *plot;
	struct sim_options options;
	const struct sim_policy *policies[SIMULATE_RUNS_MAX];
	double speeds[SIMULATE_SPEEDS_MAX];
	unsigned int n_policies, n_speeds;
};

/* simulate_options.c: CLI_OK, or what is wrong has been said. */
int simulate_options(struct cli *cli, int argc, char **argv, struct simulate_order *ret);
/* simulate_show.c */
int simulate_json(struct cli *cli, const struct simulate_order *o, const struct sim_result *results,
		  unsigned int n);
void simulate_table(const struct simulate_order *o, const struct sim_result *results,
		    unsigned int n);

#endif
