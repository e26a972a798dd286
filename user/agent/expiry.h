/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How long a backend leaves an idle connection open: most HTTP servers end it after some seconds. A
 * request that comes just then is acknowledged, never read, and answered by a reset; the kernel,
 * which keeps no copy, cannot give it to another. So the time is learned from the connections that
 * the backend has ended, and ours are given up a while before.
 */
#ifndef AGENT_EXPIRY_H
#define AGENT_EXPIRY_H

#include <stdbool.h>

#include "agent/agent.h"

struct upstream;

/* By backend; 0: not known. Servers often count anew, or only, from the first answer. */
struct expiry {
	__u64 fresh_ns;
	__u64 used_ns;
};

/* What uvicorn has, and with it most engines, unless told otherwise. A guess that is wrong costs a
 * few connections, once. */
#define EXPIRY_GUESS ((struct expiry){.used_ns = 5 * SECOND})

/* The backend has ended this connection, which was idle. */
void expiry_learn(const struct upstream *up, __u64 now_ns);
/* It was given up for its age, and the backend has not ended it: what was learned was wrong. */
void expiry_forget(const struct upstream *up);
/* Idle for so long that the backend may soon end it. */
bool expiry_due(const struct upstream *up, __u64 now_ns);

#endif
