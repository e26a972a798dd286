/* SPDX-License-Identifier: BSD-2-Clause */
/* The service manager (systemd): whether it is going to start us again, and what it keeps for us.
 */
#ifndef AGENT_MANAGER_H
#define AGENT_MANAGER_H

#include <stdbool.h>
#include <stddef.h>

/* SIGTERM has come from a service manager that restarts our unit, not from one that stops it. */
bool manager_restarts(void);
/* Hands sockets over for the process that it starts next; returns when it has them. */
int manager_store(const int *fds, size_t n);
/* They have come along: it is not to keep them open any longer. */
void manager_forget(void);

#endif
