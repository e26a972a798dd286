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

#endif
