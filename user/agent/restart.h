/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ending in order to be followed (keeper.h). First the program that is to follow is asked whether
 * it could: does it accept the configuration, and are the maps as it would make them?
 *
 *	yes		what the agent has in hand ends, bounded by timeouts.drain; then it exits,
 *and all else is taken over as after a crash. The kernel goes on meanwhile. other maps	all requests
 *end, as after SIGTERM, but the listeners stay: new connections wait in their backlog for the agent
 *that makes the maps anew.
 */
#ifndef AGENT_RESTART_H
#define AGENT_RESTART_H

#include "agent/agent.h"

struct restart;

/* What a check has found; err NULL: it goes on, new_maps or not. */
typedef void (*restart_fn)(void *context, const char *err, bool new_maps);

/* program: NULL for the one installed. fn (or NULL, then it is logged) is called once, if 0 is
 * returned; else one line is in err. */
int restart_begin(struct agent *agent, const char *program, restart_fn fn, void *context, char *err,
		  size_t errlen);
/* The service manager is going to start the next one: as restart_begin, without asking, and the
 * manager is given the sockets. */
void restart_by_manager(struct agent *agent);
/* Who waits for the answer has gone. */
void restart_forget(struct agent *agent, const void *context);
const char *restart_program(const struct agent *agent);
/* The agent is to end for good. */
void restart_cancel(struct agent *agent);
/* The service manager has asked for it: it will ask again by SIGKILL. */
bool restart_stores(const struct agent *agent);
/* No new request is read. */
bool restart_waits(const struct agent *agent);
/* The agent ends to be followed by one with new maps: listeners stay open. */
bool restart_anew(const struct agent *agent);
/* Each tick. */
void restart_tick(struct agent *agent, __u64 now_ns);
/* Does not return if the agent is to be followed. */
void restart_exit(struct agent *agent);
void restart_close(struct agent *agent);

/* For --check-takeover: tells the agent that asks. */
void restart_print_check(const struct kv_config *config);

#endif
