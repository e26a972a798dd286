// SPDX-License-Identifier: BSD-2-Clause
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "agent/address.h"

static int compare(const void *a, const void *b)
{
	const struct address *x = a, *y = b;

	return memcmp(x->addr, y->addr, sizeof(x->addr));
}

struct address *address_take(struct agent *agent, const __u32 addr[4])
{
	struct kv_addr peer = {};
	struct address wanted = {}, *address, **found;

	memcpy(peer.addr, addr, sizeof(peer.addr));
	memcpy(wanted.addr, addr, kv_addr_is_v4(&peer) ? sizeof(peer.addr) : 8);
	found = tfind(&wanted, &agent->address_tree, compare);
	if (found) {
		(*found)->clients++;
		return *found;
	}
	address = malloc(sizeof(*address));
	if (!address)
		return NULL;
	*address = wanted;
	address->clients = 1;
	address->memory.above = &agent->memory;
	if (!tsearch(address, &agent->address_tree, compare)) {
		free(address);
		return NULL;
	}
	return address;
}

void address_release(struct agent *agent, struct address *address)
{
	if (--address->clients)
		return;
	tdelete(address, &agent->address_tree, compare);
	free(address);
}

bool address_crowded(const struct agent *agent, const struct address *address)
{
	__u32 limit = agent->config->limits.clients_per_address;

	return limit && address->clients > limit;
}

bool address_full(const struct agent *agent, const struct address *address, __u64 bytes)
{
	__u64 limit = agent->config->limits.memory_per_address;

	return limit && address->memory.used + bytes > limit;
}
