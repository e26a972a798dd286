/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A client's connection that is not lent: what comes from it goes to the home socket, its numbers
 * shifted, unless a request begins there that express.bpf.h serves.
 */
#ifndef KVSTEER_CLIENT_HOME_BPF_H
#define KVSTEER_CLIENT_HOME_BPF_H

#include "client.bpf.h"
#include "express.bpf.h"

/* A segment that cannot be rewritten, of a connection whose numbers may be shifted. */
static __noinline int kv_drop_odd(const struct kv_packet *p)
{
	kv_bump(p->odd & KV_ODD_FRAGMENT ? KV_CNT_drop_fragment : KV_CNT_drop_ip_options);
	return TC_ACT_SHOT;
}

/* What a connection that is not lent is shifted by. */
struct kv_shift {
	__u32 rx;
	__u32 tx;
	__u32 state;
	__u32 fin_seq;
	__u32 tsval;
	__u32 slot;  /* whose response the agent relays … */
	__u32 whole; /* … up to here, in the home socket's numbers */
	bool ends;   /* that is known */
	bool fin;    /* the client's FIN went to a backend, the home socket has not seen it */
};

KV_INLINE void kv_client_shift(struct kv_client *c, const struct kv_tuple *key, struct kv_shift *s)
{
	bpf_spin_lock(&c->lock);
	if (kv_tuple_equal(&c->key, key)) {
		s->rx = c->rx_bypass;
		s->tx = c->tx_bypass;
		s->state = c->state;
		s->fin = c->pair.seen & KV_SEEN_CLIENT_FIN;
		s->fin_seq = c->pair.fin_seq;
		s->tsval = c->pair.client_tsval;
		s->ends = c->state == KV_CLIENT_AGENT && c->pair.offered == 3;
		s->slot = c->pair.slot;
		s->whole = c->pair.resp_sent;
	}
	bpf_spin_unlock(&c->lock);
}

/* A new connection of the same tuple. While the old home socket lives it answers for itself (RFC
 * 5961, section 4), of a lent one the pair does; when it is gone, so are its shifts and its pair.
 */
static __noinline bool kv_client_forget(struct __sk_buff *skb, const struct kv_tuple *key,
					struct kv_client *c)
{
	struct kv_home h = {};

	if (!kv_home_read(skb, key, &h))
		return false;
	if (kv_read_once(c->state) == KV_CLIENT_LENT)
		kv_client_orphaned(c, key);
	bpf_map_delete_elem(&kv_clients, key);
	return true;
}

/* The client's FIN went to a backend. Its home socket learns of it from the client's next empty
 * segment, which stands right behind the FIN: that is made the FIN's retransmission. */
static __noinline void kv_client_fin_again(struct __sk_buff *skb, struct kv_packet *p,
					   const struct kv_shift *s)
{
	struct kv_home h = {};

	if (p->payload_len || p->flags & (KV_FIN | KV_RST) || p->seq != s->fin_seq + 1)
		return;
	if (kv_home_read(skb, &p->key, &h) || h.rcv_nxt + s->rx != s->fin_seq)
		return;
	p->seq--;
	p->flags |= KV_FIN;
}

static __noinline int kv_client_home(struct __sk_buff *skb, struct kv_packet *p,
				     const struct kv_shift *s)
{
	struct kv_rewrite r = {.seq_delta = -s->rx, .ack_delta = -s->tx, .window = p->window};
	__u32 seq = p->seq;

	if (s->fin)
		kv_client_fin_again(skb, p, s);
	r.flags = p->flags;
	if (!(r.seq_delta | r.ack_delta) && p->seq == seq)
		return TC_ACT_OK;
	if (kv_rewrite_apply(skb, p, &r)) {
		kv_bump(KV_CNT_drop_rewrite);
		return TC_ACT_SHOT;
	}
	return TC_ACT_OK;
}

/* The ack of a segment whose payload is a lent request's: for the home socket its payload becomes
 * an old one, which TCP acknowledges (muted) and ignores. */
static __noinline int kv_client_ack_copy(struct __sk_buff *skb, struct kv_packet *p,
					 const struct kv_shift *s)
{
	struct kv_rewrite r = {
		.seq_delta = -s->rx - p->payload_len,
		.ack_delta = -s->tx,
		.window = p->window,
		.flags = p->flags & ~KV_FIN,
	};

	skb->tc_index = 0;
	return kv_rewrite_apply(skb, p, &r) ? TC_ACT_SHOT : TC_ACT_OK;
}

/* Responses go where the client's segments come from: so a segment that comes by another interface
 * has to be the very next one. Who only pretends to be the client does not know which that is.
 * Its ack against write_seq: over a veth it may come before the home socket's transmission returns
 * and moves snd_nxt. */
static __noinline void kv_client_moved(struct __sk_buff *skb, const struct kv_packet *p,
				       struct kv_client *c, const struct kv_shift *s)
{
	struct kv_home h = {};

	if (kv_home_read(skb, &p->key, &h) || p->seq != h.rcv_nxt + s->rx ||
	    !kv_seq_acks(p->ack, h.snd_una + s->tx, h.write_seq + s->tx))
		return;
	c->ifindex = skb->ifindex;
	c->path = kv_path_by(skb->ifindex);
}

/* A connection that has no entry yet gets one when it has a home socket: what nobody has opened
 * must not fill the table. */
KV_INLINE int kv_client_first(struct __sk_buff *skb, struct kv_packet *p, __u32 service)
{
	struct kv_scratch *scratch = kv_scratch_get();
	struct kv_client *c;
	int act;

	if (!scratch || !p->payload_len || p->odd)
		return KV_TO_HOME;
	act = kv_express(skb, service, 0, 0);
	if (act != KV_TO_HOME || p->flags & KV_RST)
		return act;
	c = kv_client_get(scratch, &p->key);
	return c ? kv_hand_home(c, p, 0) : KV_TO_HOME; /* nor can it be lent then */
}

static __noinline int kv_client_ingress(struct __sk_buff *skb, struct kv_packet *p, __u32 service)
{
	struct kv_client *c = bpf_map_lookup_elem(&kv_clients, &p->key);
	struct kv_shift s = {};
	int act;

	if (!c)
		return kv_client_first(skb, p, service);
	if (p->odd)
		return kv_drop_odd(p);
	if (p->flags & KV_SYN && kv_client_forget(skb, &p->key, c))
		return TC_ACT_OK;
	/* A first look without the lock; kv_from_client looks again under it. */
	if (kv_read_once(c->state) == KV_CLIENT_LENT && skb->tc_index != KV_TC_HOME_ACK) {
		act = kv_from_client(skb, p, c);
		if (act != KV_TO_HOME)
			return act;
	}
	/* Whoever answers it does not ask for its number; a listener has to see that as it is. */
	if (p->flags & KV_SYN)
		return TC_ACT_OK;
	kv_client_shift(c, &p->key, &s);
	if (skb->tc_index == KV_TC_HOME_ACK)
		return kv_client_ack_copy(skb, p, &s);
	if (s.state == KV_CLIENT_LENT) {
		kv_bump(KV_CNT_drop_race); /* lent by another CPU meanwhile */
		return TC_ACT_SHOT;
	}
	if (c->ifindex != skb->ifindex)
		kv_client_moved(skb, p, c, &s);
	if (p->payload_len && !(p->flags & KV_RST)) {
		act = s.state == KV_CLIENT_HOME ? kv_express(skb, service, s.rx, s.tx) : KV_TO_HOME;
		if (act == KV_TO_HOME)
			act = kv_hand_home(c, p, s.rx);
		if (act >= 0)
			return act;
	}
	return kv_client_home(skb, p, &s);
}

#endif
