/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The two timers. Each second: heartbeat, deadlines, sweeping. The tick: pools and clients that
 * wait, each 20 ms while there is something to see to, else twice a second, so that a gateway
 * whose work the kernel does costs next to nothing.
 */
#ifndef AGENT_CLOCK_H
#define AGENT_CLOCK_H

#include "agent/agent.h"

int clock_open(struct agent *agent);
void clock_close(struct agent *agent);
/* Something to see to at the next 20 ms has begun. */
void clock_hurry(struct agent *agent);

/* A turn's handlers share one reading of the clock, and stamp what they do with a later one: then
 * nothing has passed. */
static inline __u64 clock_since(__u64 then_ns, __u64 now_ns)
{
	return now_ns > then_ns ? now_ns - then_ns : 0;
}

#endif
