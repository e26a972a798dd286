/* SPDX-License-Identifier: BSD-2-Clause */
/* What happens to a fleet in the middle of a run. */
#ifndef KVSTEER_SIM_INCIDENT_H
#define KVSTEER_SIM_INCIDENT_H

#include <stdint.h>

#define SIM_INCIDENTS_MAX 32
#define SIM_RESTART_S 60 /* that an engine is away for */

enum sim_incident_kind {
	SIM_SLOW,	   /* from then on it computes so many times slower */
	SIM_RESTART,	   /* it goes away, and comes back with an empty cache */
	SIM_RESTARTED,	   /* … this is when: made from the one before */
	SIM_AGENT_RESTART, /* another agent takes over: the tables are kept */
	SIM_CACHE_OFF,	   /* it forgets its cache, and keeps nothing … */
	SIM_CACHE_ON,	   /* … until then: made from the one before if that has an end */
};

struct sim_incident {
	enum sim_incident_kind kind;
	uint32_t engine; /* from 0 */
	double at_s;	 /* since the first request, as the run's speed has it */
	double factor;
	double until_s; /* SIM_CACHE_OFF; 0: the end of the run */
};

#define SIM_EVERY UINT32_MAX /* an engine of any number: SIM_CACHE_OFF and SIM_CACHE_ON */

struct sim_incidents {
	struct sim_incident all[2 * SIM_INCIDENTS_MAX]; /* by time */
	uint32_t n;
};

/* Keeps them in order, their ends included. -E2BIG: too many. */
int sim_incident_add(struct sim_incidents *to, const struct sim_incident *incident);

#endif
