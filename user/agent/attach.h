/* SPDX-License-Identifier: BSD-2-Clause */
/* The two tc programs on the gateway's interfaces. */
#ifndef AGENT_ATTACH_H
#define AGENT_ATTACH_H

#include "agent/dataplane.h"
#include "agent/route.h"
#include "common/config.h"

#define ATTACH_MAX 64

struct lock;

struct attach {
	struct dataplane *dp;
	struct nl_sock *routes;
	struct lock *lock; /* remembers across a kill which qdiscs are ours */
	int n;
	struct {
		int ifindex;
		char name[IFNAMSIZ];
		bool made_qdisc;
	} on[ATTACH_MAX];
	unsigned int min_mtu;
	bool lenient; /* the agent before died: what cannot be attached any more is no reason to end
		       */
};

/* Takes filters of an agent that was killed off every interface of this network namespace that we
 * are not attached to. */
void attach_clean_leftovers(struct attach *attach);
/* All interfaces that the configuration needs, or names. Prints what fails. */
int attach_all(struct attach *attach, const struct kv_config *config);
/* One more; attached already is no error. what: what it is needed for. */
int attach_interface(struct attach *attach, const struct link_info *link, const char *what);
/* Interface towards a backend: ret_ifindex, ret_local. Attaches to it unless interfaces are named.
 */
int attach_backend(struct attach *attach, const struct kv_config *config,
		   const struct kv_config_backend *backend, struct route_info *ret);
int attach_listen(struct attach *attach, const struct kv_config *config,
		  const struct kv_addr *address);
void attach_close(struct attach *attach);
/* Largest segment that fits through all interfaces, whatever its IP version. */
int attach_max_segment(const struct attach *attach);

#endif
