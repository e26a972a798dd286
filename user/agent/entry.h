/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A client's entry in kv_clients, which agent and kernel share (docs/design.md, section 4). It is
 * written as a whole, under its lock.
 *
 * The agent keeps the copy it has read when it took the entry, and writes that back changed for as
 * long as the entry is its own. The connection may have ended without our knowing, and the kernel
 * have made an entry for the tuple's next one, and lent it: so each write looks first.
 *  - From entry_set_busy to the offer: state AGENT, nothing offered. The kernel lends nothing, so
 *    bypasses and pair stay as they are.
 *  - From the offer to entry_set_home: until the kernel lends it changes pair.response, resp_next,
 *    offered, seen and the relay marks, all of them made anew at the next offer or lend; seen must
 *    not hold a FIN, and the copy's is 0. A lend changes the slot's state before the entry's lock
 * is released, in memory that is mapped here (relay_is_mine). It needs a further segment of the
 *    response, and once the agent has read the response to its end there is none: so what is true
 *    when asked stays true until the entry is written.
 *  - ifindex and path the kernel writes at each of the client's packets: they are read anew.
 */
#ifndef AGENT_ENTRY_H
#define AGENT_ENTRY_H

#include "agent/dataplane.h"

/* The agent's copy; valid while it has a request of this client in hand. */
struct entry_copy {
	struct kv_client value;
};

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
 * -EBUSY: the pair is lent; or it has ended so that the client is to be closed (state AGENT), and
 * what still comes may be the rest of that request. held: it is AGENT because of us. */
int entry_set_busy(struct dataplane *dp, const struct kv_tuple *key, __u32 service, __u64 now_ns,
		   bool held, struct entry_copy *copy);
/* The kernel may lend the response of this slot; or (offered false) must not. -ESTALE: the entry is
 * another connection's. */
int entry_offer(struct dataplane *dp, __u32 slot, __u32 gen, bool offered, bool head_request,
		struct entry_copy *copy);
/* Back to HOME after a response relayed whole, which was not lent; -ESTALE as above. */
int entry_set_home(struct dataplane *dp, struct entry_copy *copy);
/* Takes a lent pair apart as kv_pair_end does (bpf/lib/pair.bpf.h), the bypasses as far as both
 * sides know. The slot's generation has been raised before, so the kernel touches the entry only
 * for the client's own packets, and moves nothing but what this end makes void. State AGENT: the
 * caller ends the client. Or HOME, where the request may be served again and nothing of it has been
 * acknowledged: the client will send it again. -ENOENT: it is not that pair's. */
int entry_end_lent(struct dataplane *dp, const struct kv_tuple *key, __u32 slot, __u32 gen,
		   bool again, struct kv_client *ret);

#endif
