/* SPDX-License-Identifier: BSD-2-Clause */
/* Lent pairs whose two peers have vanished without FIN or RST. */
#ifndef AGENT_SILENT_H
#define AGENT_SILENT_H

#include "agent/agent.h"

/* Each second: resets both sides of every lent pair whose client has sent nothing, not even an
 * acknowledgement, for timeouts.response. */
void silent_pairs(struct agent *agent, __u64 now_ns);

#endif
