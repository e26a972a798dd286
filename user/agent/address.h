/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the clients of one address have of the agent: limits.clients_per_address and
 * limits.memory_per_address. An IPv4 address counts by itself, an IPv6 one with its /64: that is
 * what a single host is given.
 */
#ifndef AGENT_ADDRESS_H
#define AGENT_ADDRESS_H

#include "agent/agent.h"

struct address {
	__u32 addr[4]; /* as in kv_tuple; of IPv6 the /64 */
	__u32 clients;
	struct account memory; /* part of the agent's */
};

/* One client more. NULL: out of memory. */
struct address *address_take(struct agent *agent, const __u32 addr[4]);
/* One less; its buffers have been freed. */
void address_release(struct agent *agent, struct address *address);

/* It has more clients than it may. */
bool address_crowded(const struct agent *agent, const struct address *address);
/* So many bytes more would be over the limit. */
bool address_full(const struct agent *agent, const struct address *address, __u64 bytes);

#endif
