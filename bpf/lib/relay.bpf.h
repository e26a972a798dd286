/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The agent lane's response: it goes to the upstream's home socket and the agent relays it, while
 * the framing follows here. As soon as a moment comes when no byte of it is on the gateway, the
 * pair is lent in mid-flight.
 *
 * Positions here are the upstream's wire ones until the lend.
 */
#ifndef KVSTEER_RELAY_BPF_H
#define KVSTEER_RELAY_BPF_H

#include "backend.bpf.h"

/* Both homes, and whether the agent holds anything between them. */
struct kv_relay {
	const struct kv_home *client;
	const struct kv_home *upstream;
	__u8 first; /* this is the response's first segment */
	__u8 still; /* nothing of the response is on this host but this segment */
};

/*
 * Is C written as many bytes as U was read, and is everything of both known to be where it belongs?
 * What C's peer has not acknowledged C alone can send again, and it is mute while lent; so C must
 * have all acknowledged.
 *
 * With a field that the agent adds to the final head, C is to be written as many bytes more. How
 * many is said with the offer, before there is a response; until the field is written the sum does
 * not come out, since C is never written more than U was read. So no head passes without it.
 */
KV_INLINE bool kv_relay_still(const struct kv_relay *r, const struct kv_pair *pair)
{
	return kv_home_quiescent(r->client) && kv_home_all_acked(r->client) &&
	       kv_home_quiescent(r->upstream) && kv_home_all_acked(r->upstream) &&
	       r->client->write_seq - pair->relayed_from ==
		       r->upstream->copied_seq - pair->relayed_copied + pair->inserted;
}

KV_INLINE bool kv_relay_is(const struct kv_client *c, const struct kv_tuple *key, __u32 slot,
			   __u32 gen)
{
	return c->state == KV_CLIENT_AGENT && c->pair.offered && c->pair.slot == slot &&
	       c->pair.gen == gen && kv_tuple_equal(&c->key, key);
}

/* The response's first segment takes the agent's offer, if the entry is held by the very request
 * that was written to this slot. Under the lock. */
KV_INLINE bool kv_relay_take(struct kv_client *c, const struct kv_tuple *key, __u32 slot, __u32 gen,
			     const struct kv_offer *offer)
{
	__u64 what = kv_read_once(offer->what);
	struct kv_pair *pair = &c->pair;

	if (c->state != KV_CLIENT_AGENT || !c->hold || KV_OFFER_HOLD(what) != c->hold ||
	    kv_read_once(offer->gen) != gen || !kv_tuple_equal(&c->key, key))
		return false;
	kv_pair_offer(pair, slot, gen, KV_OFFER_INSERTED(what), what & KV_OFFER_HEAD);
	return true;
}

/* From here on the pair is as if lent at its request, of which nothing is left to pass. Under the
 * lock. */
KV_INLINE void kv_relay_lend(struct kv_client *c, const struct kv_packet *p, struct kv_upstream *u,
			     const struct kv_relay *r, __u32 gen, __u32 slot, __u32 next,
			     __u32 tsval)
{
	struct kv_pair *pair = &c->pair;
	__u32 req = r->client->rcv_nxt + c->rx_bypass, resp = r->client->snd_nxt + c->tx_bypass;

	kv_pair_begin(pair, slot, gen, r->client, r->upstream, tsval, p->now);
	pair->to_backend_seq = r->upstream->snd_nxt + u->tx_bypass - req;
	pair->to_backend_ack = p->seq - resp;
	pair->req_start = req;
	pair->req_end = req;
	pair->req_sent = req;
	pair->req_acked = req;
	pair->resp_start = resp;
	/* The backend may not know yet that U has these, and send them again with what follows: the
	 * client has them, and its ack is what the backend needs. */
	pair->relayed = r->upstream->copied_seq - pair->relayed_copied;
	pair->resp_next = next - pair->to_backend_ack;
	pair->resp_sent = resp + p->payload_len;
	pair->resp_acked = resp;
	pair->head_len = 0;
	pair->offered = 0;
	pair->seen |= KV_SEEN_RESPONSE;
	c->state = KV_CLIENT_LENT;
	c->hold = 0;
	/* Before the lock is released: the next segment of this upstream must not go home. */
	kv_write_once(u->state, KV_UP_LENT);
}

/* The response ends with the bytes up to next: behind which of C's bytes is known now. From then on
 * nothing will be in the agent's hands, so the entry may be HOME when the socket sends the last one
 * (kv_relay_home). Under the lock. */
KV_INLINE void kv_relay_whole(struct kv_client *c, const struct kv_upstream *u, __u32 next,
			      struct kv_offer *offer)
{
	__u64 what = kv_read_once(offer->what);
	struct kv_pair *pair = &c->pair;

	if (pair->offered != 2 || KV_OFFER_HOLD(what) != c->hold || !(what & KV_OFFER_HOME) ||
	    pair->response.flags & KV_FRAMING_CLOSE)
		return;
	pair->offered = 3;
	pair->resp_sent =
		pair->relayed_from + pair->inserted + next - u->rx_bypass - pair->relayed_copied;
	kv_write_once(offer->whole, c->hold);
}

/* C's home socket sends a relayed response's last byte. A client that answers it with its next
 * request is to find its entry HOME, and so it is before that byte is out. */
static __noinline void kv_relay_home(struct kv_client *c, const struct kv_tuple *key, __u32 slot)
{
	struct kv_offer *offer = bpf_map_lookup_elem(&kv_offers, &slot);
	struct kv_dispatch *d = kv_dispatch_of(slot);
	struct kv_pair *pair = &c->pair;
	__u32 hold = 0, bytes = 0;
	__u64 number;

	if (!offer || !d)
		return;
	number = kv_read_once(d->trace); /* it is the request's as long as that has its offer */
	bpf_spin_lock(&c->lock);
	if (c->state == KV_CLIENT_AGENT && pair->offered == 3 && pair->slot == slot &&
	    KV_OFFER_HOLD(kv_read_once(offer->what)) == c->hold && kv_tuple_equal(&c->key, key)) {
		hold = c->hold;
		bytes = pair->resp_sent - pair->relayed_from - pair->inserted;
		kv_pair_home(c);
	}
	bpf_spin_unlock(&c->lock);
	if (!hold)
		return;
	kv_trace_ended(number, KV_TRACE_DONE, 0, bytes, false);
	kv_write_once(offer->home, hold); /* last: then the slot may be another request's */
}

/* A segment with payload of an upstream in the agent's hands: a TC action, or KV_TO_HOME. */
static __noinline int kv_from_backend_relay(struct __sk_buff *skb, struct kv_packet *p,
					    struct kv_upstream *u, __u32 slot)
{
	/* Both constant while the slot is claimed. */
	const struct kv_tuple *client = &u->client, *key = &u->key;
	struct kv_client *c = bpf_map_lookup_elem(&kv_clients, client);
	struct kv_offer *offer = bpf_map_lookup_elem(&kv_offers, &slot);
	struct kv_scratch *scratch = kv_scratch_get();
	__u32 gen = u->gen, next = p->seq, before = 0, keep = 0, tsval = kv_packet_tsval(skb, p),
	      ifindex = 0, path = 0, answered = 0, begun = 0;
	bool follow = false, lent = false, done = false, streamed = false;
	struct kv_relay r = {};

	if (!c || !scratch || !offer)
		return KV_TO_HOME;
	r.client = &scratch->client_home;
	r.upstream = &scratch->upstream_home;
	if (kv_home_read(skb, client, &scratch->client_home) ||
	    kv_home_read(skb, key, &scratch->upstream_home))
		return KV_TO_HOME;

	bpf_spin_lock(&c->lock);
	if (kv_relay_is(c, client, slot, gen) || kv_relay_take(c, client, slot, gen, offer)) {
		follow = true;
		r.first = c->pair.offered == 1;
		before = c->pair.resp_next;
		if (!r.first)
			next = before;
		/* ifindex: its packets must come by our hooks, or the return would pass unseen */
		r.still = !r.first && c->ifindex && kv_relay_still(&r, &c->pair);
		scratch->framing = c->pair.response;
	}
	bpf_spin_unlock(&c->lock);
	if (!follow) {
		if (kv_read_once(u->state) == KV_UP_RELAY)
			return KV_TO_HOME;
		kv_bump(KV_CNT_drop_race); /* lent by another CPU meanwhile */
		return TC_ACT_SHOT;
	}
	if (r.first) {
		__u32 due = r.upstream->rcv_nxt + u->rx_bypass;

		if (kv_seq_before(p->seq, due)) /* of an earlier response */
			return KV_TO_HOME;
		if (p->seq != due || r.upstream->copied_seq != r.upstream->rcv_nxt) {
			kv_bump(KV_CNT_drop_out_of_order);
			return TC_ACT_SHOT;
		}
	}
	if (kv_frame_segment(skb, p, p->seq, &next, &keep)) {
		kv_bump(KV_CNT_drop_out_of_order);
		return TC_ACT_SHOT;
	}
	/* This very segment is the next, and wholly of this response, and the two sides suit each
	 * other. The next here as well: its duplicate may be on its way to the home socket. */
	if (p->seq != r.upstream->rcv_nxt + u->rx_bypass || p->seq != before ||
	    keep != p->payload_len || p->flags & KV_FIN ||
	    kv_mismatch(client, r.client, key, r.upstream, c->path & KV_PATH_LOCAL,
			kv_path_by(skb->ifindex)) != KV_CNT_MAX)
		r.still = 0;

	bpf_spin_lock(&c->lock);
	if (kv_relay_is(c, client, slot, gen) && (r.first || c->pair.resp_next == before)) {
		struct kv_pair *pair = &c->pair;

		pair->response = scratch->framing;
		pair->resp_next = next;
		if (r.first) {
			pair->offered = 2;
			pair->relayed_from = r.client->write_seq;
			pair->relayed_copied = r.upstream->copied_seq;
		}
		done = kv_framing_done(&pair->response);
		if (done && !r.still)
			kv_relay_whole(c, u, next, offer);
		if (kv_framing_answered(&pair->response) && !(pair->seen & KV_SEEN_ANSWERED)) {
			pair->seen |= KV_SEEN_ANSWERED;
			answered = pair->response.status;
		}
		if (kv_framing_begun(&pair->response) && !(pair->seen & KV_SEEN_BEGUN)) {
			pair->seen |= KV_SEEN_BEGUN;
			begun = pair->response.status;
			streamed = kv_framing_streamed(&pair->response);
		}
		if (r.still) {
			kv_relay_lend(c, p, u, &r, gen, slot, next, tsval);
			kv_to_client(pair, p, &scratch->step.out);
			scratch->step.out.to = c->key;
			ifindex = c->ifindex;
			path = c->path;
			lent = true;
		}
	}
	bpf_spin_unlock(&c->lock);
	if (answered && lent)
		kv_settle_status(slot, answered);
	if (begun)
		kv_settle_answered(slot, begun, streamed);
	if (!lent) {
		if (done)
			kv_settle_finished(slot);
		return KV_TO_HOME;
	}
	kv_trace_slot(slot, KV_TRACE_LENT);
	kv_bump(KV_CNT_lends_midflight);
	return kv_splice(skb, p, &scratch->step.out, ifindex, path, true);
}

#endif /* KVSTEER_RELAY_BPF_H */
