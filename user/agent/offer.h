/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A response is offered to the kernel by a word in mapped memory, before the request is written to
 * the slot: the kernel enters it in the client's entry with the response's first segment, if the
 * request still holds that. Of a request's later attempts nothing must be left to chance, since the
 * entry may have the former one: those go by entry_offer.
 */
#ifndef AGENT_OFFER_H
#define AGENT_OFFER_H

#include "agent/dataplane.h"

/* inserted: bytes that we will write to the client beside the response's. */
static inline void offer_make(struct dataplane *dp, __u32 slot, __u32 gen, __u32 hold,
			      __u32 inserted, __u32 flags)
{
	struct kv_offer *offer = &dp->offers[slot];

	kv_write_once(offer->what, 0);
	__sync_synchronize();
	kv_write_once(offer->gen, gen);
	__sync_synchronize();
	kv_write_once(offer->what, (__u64)hold << 32 | inserted << 8 | flags);
	__sync_synchronize();
}

/* The kernel will have the entry HOME with the response's last byte: it has seen all of it. */
static inline bool offer_whole(const struct dataplane *dp, __u32 slot, __u32 hold)
{
	return kv_read_once(dp->offers[slot].whole) == hold;
}

/* … and has, with the request's record ended. */
static inline bool offer_home(const struct dataplane *dp, __u32 slot, __u32 hold)
{
	return kv_read_once(dp->offers[slot].home) == hold;
}

/* The request has left this slot, which may carry another's by now. */
static inline void offer_withdraw(struct dataplane *dp, __u32 slot, __u32 hold)
{
	struct kv_offer *offer = &dp->offers[slot];

	if (KV_OFFER_HOLD(offer->what) == hold)
		kv_write_once(offer->what, 0);
}

#endif
