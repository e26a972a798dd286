/* SPDX-License-Identifier: BSD-2-Clause */
/* What time does: deadlines, idle clients, entries of closed connections. */
#ifndef AGENT_SWEEP_H
#define AGENT_SWEEP_H

#include "agent/agent.h"

int sweep_open(struct agent *agent);
void sweep_close(struct agent *agent);
/* This connection is closed: its entry is deleted when the kernel has forgotten it too, because
 * its last packets still need the sequence mapping. */
void sweep_tuple(struct agent *agent, const struct kv_tuple *tuple);
/* The same for one that is about to be closed, while nobody else can have its tuple: deletes an
 * entry that none of its last packets needs. */
void sweep_unshifted(struct agent *agent, const struct kv_tuple *tuple);
/* The table of clients is full: deletes entries of closed connections that only TIME_WAIT keeps.
 * All that these may still have to do is to acknowledge a FIN once more. */
bool sweep_make_room(struct agent *agent);
/* A client whose pair has ended, and the event that said how is lost. */
void sweep_ended(struct client *c, const struct kv_pair *pair);
/* Each second. */
void sweep(struct agent *agent, __u64 now_ns);

#endif
