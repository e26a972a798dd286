/* SPDX-License-Identifier: BSD-2-Clause */
/* Listening sockets; accepting clients. */
#ifndef AGENT_LISTEN_H
#define AGENT_LISTEN_H

#include "agent/agent.h"

/* Any address listens on a socket of each IP version. Prints what fails. */
int listen_open(struct agent *agent, __u32 service, const struct kv_addr *address);
/* Whether it could be opened now. Prints what is in the way. */
int listen_probe(struct agent *agent, const struct kv_addr *address);
void listen_close(struct agent *agent, __u32 service, const struct kv_addr *address);
void listen_close_all(struct agent *agent);
/* Lets go of them without closing: for the next agent. */
void listen_leave_all(struct agent *agent);
/* Accepts no more: who connects waits. */
void listen_stop_all(struct agent *agent);
/* Accepts whatever waits, at once. */
void listen_accept(struct agent *agent);
/* Accepting again after the process ran out of descriptors. */
void listen_resume(struct agent *agent);

#endif
