/* SPDX-License-Identifier: BSD-2-Clause */
/* The configuration's own file, applied whenever it is another one (watch: true). */
#ifndef AGENT_DISCOVER_FILE_H
#define AGENT_DISCOVER_FILE_H

#include "agent/agent.h"

/* At the agent's start. */
void discover_file_open(struct agent *agent);
/* Begins or ends, as the configuration in force has it. Prints what fails. */
void discover_file_apply(struct agent *agent);
/* Whether it could begin; errors as text. */
int discover_file_check(struct agent *agent, const struct kv_config *to, char *err, size_t errlen);
/* For the next agent, should this one die: what is in force, and what the file says. */
void discover_file_note(struct agent *agent);
void discover_file_second(struct agent *agent, __u64 now_ns);
void discover_file_close(struct agent *agent);

#endif
