// SPDX-License-Identifier: BSD-2-Clause
#include "sim/incident.h"

#include <errno.h>

static void insert(struct sim_incidents *to, struct sim_incident incident)
{
	uint32_t i = to->n++;

	for (; i && to->all[i - 1].at_s > incident.at_s; i--)
		to->all[i] = to->all[i - 1];
	to->all[i] = incident;
}

int sim_incident_add(struct sim_incidents *to, const struct sim_incident *incident)
{
	struct sim_incident back = *incident;

	if (to->n + 2 > 2 * SIM_INCIDENTS_MAX)
		return -E2BIG;
	insert(to, *incident);
	if (incident->kind == SIM_RESTART) {
		back.kind = SIM_RESTARTED;
		back.at_s += SIM_RESTART_S;
		insert(to, back);
	} else if (incident->kind == SIM_CACHE_OFF && incident->until_s > 0) {
		back.kind = SIM_CACHE_ON;
		back.at_s = incident->until_s;
		insert(to, back);
	}
	return 0;
}
