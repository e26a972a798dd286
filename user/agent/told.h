/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What engines tell of their caches (user/events/), entered into the kernel's prefixes beside what
 * is learned there (kvsteer/tell.h). Which engines are followed is read from the maps and the
 * configuration each second, so that it does not matter who changes them.
 *
 *	told		who is followed; how that goes, shown in the maps and counted
 *	told_model	under which name an engine's prompts are asked for
 *	told_sink	in the follower's thread: from events to the kernel
 */
#ifndef AGENT_TOLD_H
#define AGENT_TOLD_H

#include "agent/agent.h"

struct told;

int told_open(struct agent *agent);
void told_close(struct agent *agent);
/* That id is free: whoever gets it next begins anew. */
void told_removed(struct agent *agent, __u32 id);

/* Tokens per block of prompts that are given as token ids; 0: not known. */
__u32 told_block(const struct agent *agent, __u32 service);

#endif
