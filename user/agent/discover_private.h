/* SPDX-License-Identifier: BSD-2-Clause */
/* One service's name, within discover*.c. */
#ifndef AGENT_DISCOVER_PRIVATE_H
#define AGENT_DISCOVER_PRIVATE_H

#include "agent/discover.h"
#include "engines/dns_source.h"

struct discovered {
	struct agent *agent;
	char service[KV_NAME_LEN];
	struct kv_service_discover how;
	struct dns_source *source;
	struct address_set set;	    /* in force */
	__u32 no_room;		    /* of them, for max_backends */
	struct address_set refused; /* of them, as a line has said */
	__u64 no_room_since_ns;
	bool no_room_told;
	__u64 again_ns; /* those refused are tried again then */
};

struct discovery {
	struct discovered *of[KV_MAX_SERVICES];
};

/* Into the service's entry in the maps. */
void discover_note(const struct discovered *d);
/* Names engines that there is no room for, once. */
void discover_complain(struct discovered *d, __u64 now_ns);

#endif
