/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef KVSTEER_CLI_SIMULATE_INCIDENTS_H
#define KVSTEER_CLI_SIMULATE_INCIDENTS_H

#include "cli.h"
#include "sim/incident.h"

struct incident_options {
	const char *slow, *restart, *agent_restart, *no_cache; /* NULL: not given */
};

/* As the options say; engines are counted from 1 there. CLI_OK, or what is wrong has been said. */
int simulate_incidents(struct cli *cli, const struct incident_options *o,
		       struct sim_incidents *ret);
/* None is of an engine that there is not. */
int simulate_incidents_check(struct cli *cli, const struct sim_incidents *incidents,
			     uint32_t backends);

#endif
