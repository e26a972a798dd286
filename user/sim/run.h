/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef KVSTEER_SIM_RUN_H
#define KVSTEER_SIM_RUN_H

#include "sim/sim.h"

/* In order of time. 0 or -ENOMEM. */
int sim_run_requests(struct sim_run *run, const struct sim_request *requests, unsigned int n);
/* Runs the queues empty; fills all but the ceiling, which is the trace's. */
void sim_run_end(struct sim_run *run, struct sim_result *ret);

#endif
