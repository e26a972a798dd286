/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Lending: taking a client connection and an upstream away from their home sockets.
 *
 * Both are lent only when the home sockets say that nothing is in the way (design.md, section 3): a
 * byte that a home socket holds, or one that it would still send, would be lost or come twice.
 */
#ifndef KVSTEER_LEND_BPF_H
#define KVSTEER_LEND_BPF_H

#include "pair.bpf.h"

#define KV_CLAIM_TRIES 4

/* The client's entry, made if there is none yet; NULL: the map is full. */
KV_INLINE struct kv_client *kv_client_get(struct kv_scratch *scratch, const struct kv_tuple *key)
{
	struct kv_client *c = bpf_map_lookup_elem(&kv_clients, key);

	if (c)
		return c;
	__builtin_memcpy(scratch->fresh_client + offsetof(struct kv_client, key), key,
			 sizeof(*key));
	bpf_map_update_elem(&kv_clients, key, scratch->fresh_client, BPF_NOEXIST);
	return bpf_map_lookup_elem(&kv_clients, key);
}

/* Place of a word's only bit, by a de Bruijn sequence: BPF has no instruction for it, and clang 14
 * runs out of memory over __builtin_ctzll here. */
KV_INLINE __u32 kv_bit_place(__u64 bit)
{
	static const __u8 place[64] = {
		0,  1,	2,  53, 3,  7,	54, 27, 4,  38, 41, 8,	34, 55, 48, 28,
		62, 5,	39, 46, 44, 42, 22, 9,	24, 35, 59, 56, 49, 18, 29, 11,
		63, 52, 6,  26, 37, 40, 33, 47, 61, 45, 43, 21, 23, 58, 17, 10,
		51, 25, 36, 32, 60, 20, 57, 16, 50, 31, 19, 15, 30, 14, 13, 12,
	};

	return place[(bit * 0x022fdd63cc95386dull) >> 58 & 63];
}

/* An idle slot of a backend, or KV_NONE. The one atomic step that makes a slot ours is the and-not
 * that finds the bit still set. Lowest first, so that what the traffic does not need falls idle. */
static __noinline __u32 kv_pool_take(__u32 backend)
{
	struct kv_backend *b = kv_world_backend(backend);

	if (!b)
		return KV_NONE;
	for (__u32 w = 0; w < KV_POOL_WORDS; w++) {
		__u64 word = kv_read_once(b->idle[w]);

		for (int tries = 0; word && tries < 8; tries++) {
			__u64 bit = word & -word, old = kv_atomic_fetch_and(&b->idle[w], ~bit);

			if (old & bit)
				return backend * kv_config.upstreams_per_backend + w * 64 +
				       kv_bit_place(bit);
			word = old & ~bit;
		}
	}
	return KV_NONE;
}

/* Claims an upstream whose home socket is quiescent. Those found closed are the agent's to clear
 * away. */
KV_GLOBAL int kv_claim(struct __sk_buff *skb, __u32 backend, const struct kv_tuple *client,
		       struct kv_home *home)
{
	if (!client || !home)
		return KV_NONE;
	for (int tries = 0; tries < KV_CLAIM_TRIES; tries++) {
		__u32 slot = kv_pool_take(backend);
		struct kv_upstream *u;
		struct kv_tuple key;

		if (slot == KV_NONE)
			return KV_NONE;
		u = kv_slot(slot);
		if (!u)
			return KV_NONE;
		u->gen++;
		key = u->key;
		if (!kv_home_read(skb, &key, home) && kv_home_quiescent(home) &&
		    kv_home_all_acked(home)) {
			u->client = *client;
			u->last_ns = bpf_ktime_get_ns();
			kv_write_once(u->state, KV_UP_LENT);
			return slot;
		}
		kv_bump(KV_CNT_upstream_stale);
		kv_slot_done(u, slot, KV_EVENT_CLOSE_UPSTREAM, client);
	}
	return KV_NONE;
}

/* Why two connections cannot be lent to each other; KV_CNT_MAX: they can. */
KV_INLINE enum kv_counter kv_mismatch(const struct kv_tuple *client, const struct kv_home *ch,
				      const struct kv_tuple *upstream, const struct kv_home *uh,
				      bool client_local, bool upstream_local)
{
	if (kv_is_mapped(client->local) != kv_is_mapped(upstream->local))
		return KV_CNT_agent_family;
	/* IPv4 takes no packet from one of this host's own addresses that comes without a route, as
	 * one redirected to lo does (fib_validate_source); IPv6 does not mind. */
	if (client_local && !upstream_local && kv_is_mapped(client->local))
		return KV_CNT_agent_local_client;
	/* Never send an option that a side did not negotiate. */
	if ((ch->options ^ uh->options) & (KV_OPT_TIMESTAMPS | KV_OPT_SACK) ||
	    (ch->options | uh->options) & KV_OPT_USEC)
		return KV_CNT_agent_options;
	/* Each side sends by the MSS that our socket announced to it; the other must be able to
	 * take it. A path that is narrower still answers with ICMP, to a home socket that does not
	 * know of these bytes. */
	if (ch->peer_mss < uh->local_mss || uh->peer_mss < ch->local_mss)
		return KV_CNT_agent_mss;
	return KV_CNT_MAX;
}

/* What both lanes write into a new pair. Under the lock. */
KV_INLINE void kv_pair_begin(struct kv_pair *pair, __u32 slot, __u32 gen, const struct kv_home *ch,
			     const struct kv_home *uh, __u32 backend_tsval, __u64 now)
{
	pair->backend_ns = now;
	pair->slot = slot;
	pair->gen = gen;
	pair->client_tsoff = ch->tsoffset;
	pair->backend_tsoff = uh->tsoffset;
	pair->client_tsval = ch->ts_recent;
	/* The home socket has slept through the lends before this one: an old echo would look to
	 * the backend like a round trip of that length. */
	pair->backend_tsval = uh->ts_recent;
	if (backend_tsval && (__s32)(backend_tsval - uh->ts_recent) > 0)
		pair->backend_tsval = backend_tsval;
	pair->client_snd_wscale = ch->snd_wscale;
	pair->client_rcv_wscale = ch->rcv_wscale;
	pair->backend_snd_wscale = uh->snd_wscale;
	pair->backend_rcv_wscale = uh->rcv_wscale;
	pair->options = ch->options & uh->options;
	pair->client_window = ch->snd_wnd;
	pair->fin_seq = 0;
	__builtin_memset(pair->stashed, 0, sizeof(pair->stashed));
}

#endif /* KVSTEER_LEND_BPF_H */
