/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Three processes, so that an agent's death is not the gateway's:
 *
 *	supervisor	the one that was started: holds nothing, passes signals on, ends with the
 *agent agent		does everything keeper		shares the agent's descriptors and becomes
 *the next agent (keeper.h)
 */
#ifndef AGENT_SUPERVISOR_H
#define AGENT_SUPERVISOR_H

#include <stdbool.h>
#include <sys/types.h>

/* SIGTERM and its like wait until somebody handles them. */
void signals_block(void);
void signals_unblock(void);

/* Whether this process's parent is a supervisor. */
bool supervised(void);
/* Forks. In the child 0; in the parent the pid of the child, to be given to supervise. */
pid_t supervisor_fork(void);
/* Returns the exit code when the last agent has ended. */
int supervise(pid_t agent);

/* The agent, or the keeper that is about to become one, says that it is the one to be told. */
void supervisor_announce(void);
/* Pid of the process that a user has started; our own if there is no other. */
pid_t supervisor_pid(void);

#endif
