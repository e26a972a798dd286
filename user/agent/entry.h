/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A client's entry in kv_clients, which agent and kernel share (docs/design.md, section 4). The
 * agent changes it by the program kv_agent_entry (bpf/lib/entry.bpf.h), under its lock: a look and
 * a write by system calls would be two steps, between which the kernel may lend, or the connection
 * may have ended and the entry be that of the tuple's next one.
 *
 * Which entry is meant the agent says by the hold that it got when it took it for a request. A hold
 * ends when the kernel lends, with entry_set_home, and with the entry.
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

/* Busy before read: state AGENT, entry made if there is none. hold: the client's, 0 for none; a new
 * one is put there. -E2BIG: the table is full; -EBUSY: the pair is lent; or it has ended so that
 * the client is to be closed (state AGENT), and what still comes may be the rest of that request.
 */
int entry_set_busy(struct dataplane *dp, const struct kv_tuple *key, __u32 service, __u64 now_ns,
		   __u32 *hold);
struct entry_offer {
	__u32 slot;
	__u32 gen;
	bool offered; /* the kernel may lend the response of this slot; or must not */
	bool head_request;
	__u32 inserted; /* bytes that we will write to the client beside the response's */
};
/* -ESTALE: not held. */
int entry_offer(struct dataplane *dp, const struct kv_tuple *key, __u32 hold,
		const struct entry_offer *offer);
/* Back to HOME after a response relayed whole, which was not lent; -ESTALE as above. trace: the
 * record that ends with it, after so many bytes of the response; 0: none. */
int entry_set_home(struct dataplane *dp, const struct kv_tuple *key, __u32 hold, __u64 trace,
		   __u64 bytes);
/* Takes a lent pair apart, the bypasses as far as both sides know. State AGENT: the caller ends the
 * client. Or HOME, where the request may be served again and nothing of it has been acknowledged:
 * the client will send it again. Of ret only pair, as it was, and state are written. -ENOENT: it is
 * not that pair's. */
int entry_end_lent(struct dataplane *dp, const struct kv_tuple *key, __u32 slot, __u32 gen,
		   bool again, struct kv_client *ret);

#endif
