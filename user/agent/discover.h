/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Engines that come and go by themselves: the backends that a service's DNS name stands for
 * (user/engines/dns_source.h), added and removed as by hand, beside those of the file.
 *
 *	discover	from names to backends
 *	discover_tell	what came of it: in the maps, and for `backend show`
 *
 * Such a backend is called by its address, as one of the file without a name is: it stays the same
 * one when the file names it or does so no more.
 */
#ifndef AGENT_DISCOVER_H
#define AGENT_DISCOVER_H

#include <yyjson.h>

#include "agent/agent.h"

/* As the configuration has it; nothing is known until answers come, but what the agent before has
 * found. Prints what fails. */
int discover_open(struct agent *agent);
void discover_close(struct agent *agent);
/* A configuration that is about to be compared with the one in force: takes in those found, which
 * no file names. 0 or -ENOMEM. */
int discover_keep(struct agent *agent, struct kv_config *to);
/* The configuration is another one. */
void discover_apply(struct agent *agent);
void discover_second(struct agent *agent);

/* Who has named this backend. */
void discover_tell(const struct agent *agent, __u32 id, yyjson_mut_doc *doc, yyjson_mut_val *out);

#endif
