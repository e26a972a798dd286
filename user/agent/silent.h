/* SPDX-License-Identifier: BSD-2-Clause */
/* Peers that have vanished without FIN or RST, and engines that never answer. */
#ifndef AGENT_SILENT_H
#define AGENT_SILENT_H

#include "agent/agent.h"

/* Each second: looks at those pairs, lent or not, whose time it is, and at one idle upstream of
 * each backend. Ends pairs with a peer that does not answer probes (timeouts.probe), and lent ones
 * whose response has not moved for timeouts.response; where it has not begun the client gets
 * another engine or 504, else both sides are reset. */
void silent_pairs(struct agent *agent, __u64 now_ns);
/* The agent ends: every pair that is left is reset on both sides, as long as somebody can. */
void silent_end_all(struct agent *agent);

#endif
