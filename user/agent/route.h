/* SPDX-License-Identifier: BSD-2-Clause */
/* What rtnetlink knows: interfaces, their addresses, and routes. */
#ifndef AGENT_ROUTE_H
#define AGENT_ROUTE_H

#include <net/if.h>
#include <stdbool.h>

#include <linux/types.h>

struct nl_sock;

struct link_info {
	int ifindex;
	char name[IFNAMSIZ];
	unsigned int mtu;
	bool port; /* of a bridge, a bond or a team: packets pass both devices */
	bool up;
	bool loopback;
	bool ethernet;
};

struct route_info {
	int ifindex;
	bool local; /* the address is this host's own */
};

int route_open(struct nl_sock **ret);
void route_close(struct nl_sock *sock);

/* -ENODEV: no such interface. */
int link_get(struct nl_sock *sock, int ifindex, const char *name, struct link_info *ret);
/* -ENETUNREACH and the like: no route. */
int route_get(struct nl_sock *sock, const __u32 addr[4], struct route_info *ret);

/* Name of the interface that has this address; -EADDRNOTAVAIL: none. */
int link_of_address(const __u32 addr[4], char ret_name[IFNAMSIZ]);
/* Whether an interface has any address. */
bool link_has_address(const char *name);
/* Calls fn for the name of every interface that is up and has an address. */
int link_each_up(int (*fn)(const char *name, void *context), void *context);

#endif
