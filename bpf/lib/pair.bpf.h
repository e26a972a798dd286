/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A lent pair: what both directions share, and how a pair ends.
 *
 * Invariants, each kept by the functions named:
 *  - wire sequence = home sequence + bypass, per connection and direction (kv_pair_end adds to all
 * four);
 *  - a pair's state changes only under its client's lock, with the slot's generation compared
 * (kv_pair_is);
 *  - a slot goes back to its pool only after a whole request, a whole response and the client's
 * last ack (kv_pair_complete), and with nothing odd seen (KV_SEEN_NO_REUSE);
 *  - what a dispatch was charged is given back exactly once (atomic exchanges in kvsteer/learn.h).
 */
#ifndef KVSTEER_PAIR_BPF_H
#define KVSTEER_PAIR_BPF_H

#include <kvsteer/framing.h>
#include "scratch.bpf.h"

/* The slot of an index from a map; NULL out of range. */
KV_INLINE struct kv_upstream *kv_slot(__u32 slot)
{
	return bpf_map_lookup_elem(&kv_upstreams, &slot);
}

KV_INLINE bool kv_pair_is(const struct kv_client *c, const struct kv_tuple *key, __u32 slot,
			  __u32 gen)
{
	return c->state == KV_CLIENT_LENT && c->pair.slot == slot && c->pair.gen == gen &&
	       kv_tuple_equal(&c->key, key);
}

/* The response of this slot is the agent's, and may be lent. Under the lock. */
KV_INLINE void kv_pair_offer(struct kv_pair *pair, __u32 slot, __u32 gen, __u32 inserted, bool head)
{
	pair->slot = slot;
	pair->gen = gen;
	pair->offered = 1;
	pair->note = KV_NOTE_NONE;
	pair->seen = 0;
	pair->inserted = inserted;
	kv_framing_init(&pair->response, head);
}

/* … and is through: the client is between requests. Under the lock. */
KV_INLINE void kv_pair_home(struct kv_client *c)
{
	c->state = KV_CLIENT_HOME;
	c->hold = 0;
	c->pair.offered = 0;
	c->pair.note = KV_NOTE_NONE;
}

/* The backend has acknowledged all of the request. */
KV_INLINE bool kv_pair_asked(const struct kv_pair *pair)
{
	return !kv_seq_before(pair->req_acked, pair->req_end);
}

/* Everything has passed and the client has acknowledged all of it. A backend that has answered and
 * closed will not take the rest of a request. Under the lock. */
KV_INLINE bool kv_pair_complete(const struct kv_pair *pair)
{
	return kv_framing_done(&pair->response) && pair->resp_acked == pair->resp_next &&
	       (kv_pair_asked(pair) || pair->seen & KV_SEEN_BACKEND_FIN);
}

/* Takes the pair apart, under the lock: the client's home socket is to know nothing of request
 * bytes before req_to and response bytes before resp_to. */
KV_INLINE void kv_pair_end(struct kv_client *c, struct kv_ended *e, __u32 req_to, __u32 resp_to,
			   __u32 state)
{
	struct kv_pair *pair = &c->pair;

	e->slot = pair->slot;
	e->gen = pair->gen;
	e->tx = pair->req_sent - pair->req_start;
	e->rx = pair->resp_next - pair->resp_start;
	e->bytes = e->rx + pair->relayed;
	e->tsval = pair->backend_tsval;
	e->client_closed = pair->seen & KV_SEEN_CLIENT_FIN;
	c->rx_bypass += req_to - pair->req_start;
	c->tx_bypass += resp_to - pair->resp_start;
	c->state = state;
}

/* Where an RST to the client is to stand: behind all that has been sent, but within its window, or
 * it would be ignored; as the kernel's tcp_acceptable_seq has it. */
KV_INLINE __u32 kv_pair_reset_at(const struct kv_pair *pair)
{
	return kv_seq_min(pair->resp_sent, pair->resp_acked + pair->client_window);
}

/* The good end. Under the lock. */
KV_INLINE void kv_pair_return(struct kv_client *c, struct kv_ended *e)
{
	struct kv_pair *pair = &c->pair;
	bool close = pair->response.flags & KV_FRAMING_CLOSE || pair->seen & KV_SEEN_CLIENT_FIN ||
		     !kv_pair_asked(pair);

	e->reuse = !close && !(pair->seen & (KV_SEEN_NO_REUSE | KV_SEEN_BACKEND_FIN));
	e->event = e->reuse ? 0 : close ? KV_EVENT_CLOSE_CLIENT : KV_EVENT_RETURNED_CLOSED;
	/* A connection that is to be closed takes no further request. */
	kv_pair_end(c, e, pair->req_acked, pair->resp_next,
		    close ? KV_CLIENT_AGENT : KV_CLIENT_HOME);
}

KV_GLOBAL int kv_event_send(__u32 type, __u32 slot, __u32 gen, const struct kv_tuple *client)
{
	struct kv_event *e;

	if (!client)
		return 0;
	e = bpf_ringbuf_reserve(&kv_events, sizeof(*e), 0);
	if (!e) {
		/* The agent also finds DONE slots by looking. */
		kv_bump(KV_CNT_agent_events_lost);
		return 0;
	}
	e->type = type;
	e->slot = slot;
	e->gen = gen;
	e->zero = 0;
	e->client = *client;
	e->zero2 = 0;
	bpf_ringbuf_submit(e, 0);
	return 0;
}

KV_INLINE void kv_pool_put(struct kv_upstream *u, __u32 slot)
{
	struct kv_backend *b = kv_world_backend(u->backend);
	__u32 i = slot - u->backend * kv_config.upstreams_per_backend;

	u->last_ns = bpf_ktime_get_ns();
	/* The order matters: from the moment the bit is set the slot may be another CPU's. */
	kv_write_once(u->state, KV_UP_IDLE);
	if (b && i < KV_MAX_UPSTREAMS)
		kv_atomic_fetch_or(&b->idle[i / 64], 1ull << (i & 63));
}

KV_INLINE void kv_slot_done(struct kv_upstream *u, __u32 slot, __u32 event,
			    const struct kv_tuple *client)
{
	kv_write_once(u->state, KV_UP_DONE);
	kv_event_send(event, slot, u->gen, client);
}

/* What is written of it. */
KV_INLINE void kv_pair_trace(const struct kv_ended *e)
{
	struct kv_dispatch *d = kv_dispatch_of(e->slot);
	__u32 end = KV_TRACE_DONE, status = 0;

	if (e->event == KV_EVENT_CLOSE_UPSTREAM) {
		end = KV_TRACE_AGAIN;
	} else if (e->event == KV_EVENT_BAD_GATEWAY) {
		end = KV_TRACE_FAILED;
		status = 502;
	} else if (e->event == KV_EVENT_RESET_CLIENT) {
		end = KV_TRACE_BROKEN;
	} else if (e->event == KV_EVENT_CLIENT_GONE) {
		end = KV_TRACE_ABORTED;
	}
	if (d)
		kv_trace_ended(d->trace, end, status, e->bytes, e->client_closed);
}

/* The rest of an ended pair: the slot is ours alone until its idle bit is set. */
KV_GLOBAL int kv_pair_settle(const struct kv_ended *e, const struct kv_tuple *client)
{
	struct kv_upstream *u;

	if (!e || !client)
		return 0;
	u = kv_slot(e->slot);
	if (!u || u->gen != e->gen)
		return 0;
	kv_pair_trace(e);
	if (e->failed)
		kv_settle_failed(e->slot);
	else
		kv_settle_finished(e->slot);
	u->tx_bypass += e->tx;
	u->rx_bypass += e->rx;
	u->tsval = e->tsval;
	if (e->reuse) {
		kv_bump(KV_CNT_returns);
		kv_pool_put(u, e->slot);
		return 0;
	}
	if (e->event == KV_EVENT_CLOSE_CLIENT || e->event == KV_EVENT_RETURNED_CLOSED)
		kv_bump(KV_CNT_returns_closed);
	kv_slot_done(u, e->slot, e->event, client);
	return 0;
}

/*
 * RFC 9293, section 3.10.7.4: what is outside of the window is not looked at, not even its ack. Who
 * cannot see a connection cannot guess a position in it. We do not keep both windows to the byte,
 * so the bounds are a little wide: old segments come late, a probe of a closed window lies beyond
 * it, and a client that has sent its next request too early acknowledges from behind that.
 */
#define KV_LATE (64u << 10)
#define KV_AHEAD (16u << 20)

KV_INLINE bool kv_pair_client_near(const struct kv_pair *pair, __u32 seq)
{
	return kv_seq_near(seq, pair->req_acked, KV_LATE + pair->req_acked - pair->req_start,
			   pair->req_end - pair->req_acked + KV_AHEAD);
}

KV_INLINE bool kv_pair_backend_near(const struct kv_pair *pair, __u32 cseq)
{
	return kv_seq_near(cseq, pair->resp_acked, KV_LATE + pair->client_window,
			   KV_LATE + pair->client_window);
}

/* ---- from one side's wire to the other's ---- */

/* What both directions share. */
KV_INLINE void kv_to_side(const struct kv_pair *pair, struct kv_rewrite *r, __u8 flags)
{
	r->flags = flags;
	r->timestamps = pair->options & KV_OPT_TIMESTAMPS;
	r->clear_ecn = !(pair->options & KV_OPT_ECN);
	r->addresses = 1;
	if (r->clear_ecn)
		r->flags &= ~(KV_ECE | KV_CWR);
}

/* What the client sends next once its request, and its FIN if seen, are out. */
KV_INLINE __u32 kv_pair_end_seq(const struct kv_pair *pair)
{
	return pair->seen & KV_SEEN_CLIENT_FIN ? pair->fin_seq + 1 : pair->req_end;
}

/* Under the lock, except for the addresses. */
KV_INLINE void kv_to_backend(const struct kv_pair *pair, const struct kv_packet *p,
			     struct kv_rewrite *r)
{
	r->seq_delta = pair->to_backend_seq;
	r->ack_delta = pair->to_backend_ack;
	/* A client that has sent more than this request acknowledges from behind that. The backend
	 * must not see such a number: it would take windows from there only (SND.WL1, RFC 9293,
	 * section 3.10.7.4), and so from none of its next clients until their bytes come so far. */
	if (!p->payload_len && kv_seq_after(p->seq, kv_pair_end_seq(pair)))
		r->seq_delta += kv_pair_end_seq(pair) - p->seq;
	r->window = kv_window_rescale(p->window, pair->client_snd_wscale, pair->backend_rcv_wscale);
	r->tsoff = pair->backend_tsoff;
	r->tsecr = pair->backend_tsval;
	kv_to_side(pair, r, p->flags);
}

KV_INLINE void kv_to_client(const struct kv_pair *pair, const struct kv_packet *p,
			    struct kv_rewrite *r)
{
	r->seq_delta = -pair->to_backend_ack;
	r->ack_delta = -pair->to_backend_seq;
	r->window = kv_window_rescale(p->window, pair->backend_snd_wscale, pair->client_rcv_wscale);
	/* Once the request is through, the client's next one may go to a backend with less room. */
	if (!kv_seq_before(pair->req_sent, pair->req_end))
		r->window = kv_window_idle(r->window, pair->client_rcv_wscale);
	r->tsoff = pair->client_tsoff;
	r->tsecr = pair->client_tsval;
	kv_to_side(pair, r, p->flags & ~KV_FIN); /* ends go through home sockets */
}

/* TSval of a segment, the peer's clock; 0 if it has none. */
KV_INLINE __u32 kv_packet_tsval(struct __sk_buff *skb, const struct kv_packet *p)
{
	__be32 usual[3]; /* NOP NOP TS: every data segment of Linux, BSD, Windows */

	if (p->header_len < 32 || bpf_skb_load_bytes(skb, p->l4 + 20, usual, sizeof(usual)))
		return 0;
	return usual[0] == kv_htonl(0x0101080a) ? kv_ntohl(usual[1]) : 0;
}

#endif /* KVSTEER_PAIR_BPF_H */
