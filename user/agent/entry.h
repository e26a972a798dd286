/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A client's entry in kv_clients, which agent and kernel share (docs/design.md, section 4).
 *
 * Every function reads the entry and writes it back as a whole, both under its lock. The kernel
 * does not touch what the agent changes in between: while request bytes are unread, and while
 * the state is AGENT without an offer, it lends nothing.
 */
#ifndef AGENT_ENTRY_H
#define AGENT_ENTRY_H

#include "agent/dataplane.h"

enum entry_hold {
	ENTRY_NONE,  /* no entry: the kernel never lent this connection */
	ENTRY_HOME,  /* between requests */
	ENTRY_MINE,  /* the agent's, this slot and generation */
	ENTRY_LENT,  /* the kernel's, this slot and generation */
	ENTRY_OTHER, /* in a later request than the one of this slot and generation */
};

int entry_read(struct dataplane *dp, const struct kv_tuple *key, struct kv_client *ret);
enum entry_hold entry_hold(struct dataplane *dp, const struct kv_tuple *key, __u32 slot, __u32 gen,
			   struct kv_client *ret);

/* Busy before read: state AGENT, entry made if there is none. -E2BIG: the table is full;
 * -EBUSY: the pair is lent. */
int entry_set_busy(struct dataplane *dp, const struct kv_tuple *key, __u32 service, __u64 now_ns);
/* The kernel may lend the response of this slot; or (offered false) must not. */
int entry_offer(struct dataplane *dp, const struct kv_tuple *key, __u32 slot, __u32 gen,
		bool offered, bool head_request);
/* Back to HOME after a response relayed whole; -EBUSY: it was lent after all. */
int entry_set_home(struct dataplane *dp, const struct kv_tuple *key, __u32 slot, __u32 gen);

#endif
