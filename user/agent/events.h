/* SPDX-License-Identifier: BSD-2-Clause */
/* What the kernel programs tell: ends that need a home socket to be closed. */
#ifndef AGENT_EVENTS_H
#define AGENT_EVENTS_H

#include "agent/agent.h"

int events_open(struct agent *agent);
void events_close(struct agent *agent);
/* Handles all that have come so far; cheap when there is none. */
void events_consume(struct agent *agent);

#endif
