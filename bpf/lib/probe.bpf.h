/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A lent home socket is mute but for one segment: a probe. The agent has it sent when its peer has
 * been silent for long (user/agent/silent.c): empty, from before the first byte that the home
 * socket has not sent yet. Any TCP answers that with a plain ack (RFC 9293, section 3.10.7.4), or,
 * where the connection is no more, with an RST; both are then segments of the lent pair.
 *
 * It leaves with the numbers of now. They are what this peer has acknowledged, and what the other
 * one has, so they tell nobody anything new. A forged RST is answered with the same segment.
 */
#ifndef KVSTEER_PROBE_BPF_H
#define KVSTEER_PROBE_BPF_H

#include "pair.bpf.h"

KV_INLINE bool kv_probe_shaped(const struct kv_packet *p)
{
	return !p->payload_len && (p->flags & (KV_FIN | KV_SYN | KV_RST | KV_ACK)) == KV_ACK;
}

/* A segment becomes one that any TCP answers. seq: what its receiver has acknowledged; ack: what
 * the other side has. Its window is from before, so nobody looks at it. */
KV_INLINE void kv_probe_numbers(const struct kv_pair *pair, const struct kv_packet *p, __u32 seq,
				__u32 ack, struct kv_rewrite *r)
{
	r->seq_delta = seq - 1 - p->seq;
	r->ack_delta = ack - p->ack;
	r->window = p->window;
	r->flags = KV_ACK;
	r->timestamps = pair->options & KV_OPT_TIMESTAMPS;
}

/* To the client. Under the lock. */
KV_INLINE void kv_probe_client(const struct kv_pair *pair, const struct kv_packet *p,
			       struct kv_rewrite *r)
{
	r->tsoff = pair->client_tsoff;
	r->tsecr = pair->client_tsval;
	kv_probe_numbers(pair, p, pair->resp_acked, pair->req_acked, r);
}

KV_INLINE void kv_probe_backend(const struct kv_pair *pair, const struct kv_packet *p,
				struct kv_rewrite *r)
{
	r->tsoff = pair->backend_tsoff;
	r->tsecr = pair->backend_tsval;
	kv_probe_numbers(pair, p, pair->req_acked + pair->to_backend_seq,
			 pair->resp_acked + pair->to_backend_ack, r);
}

/* ---- home sockets ---- */

KV_INLINE int kv_probe_send(struct __sk_buff *skb, const struct kv_packet *p,
			    const struct kv_rewrite *r, bool probe)
{
	if (!probe) {
		kv_bump(KV_CNT_home_muted);
		/* Not SHOT: TCP takes that for congestion of this host, and the home socket's
		 * window would shrink. */
		return TC_ACT_STOLEN;
	}
	if (kv_rewrite_apply(skb, p, r)) {
		kv_bump(KV_CNT_drop_rewrite);
		return TC_ACT_SHOT;
	}
	kv_bump(KV_CNT_probes_sent);
	return TC_ACT_OK;
}

/* A segment of the home socket of a lent client. */
static __noinline int kv_lent_client_egress(struct __sk_buff *skb, const struct kv_packet *p,
					    struct kv_client *c)
{
	struct kv_rewrite r = {};
	bool probe = false;

	if (kv_probe_shaped(p)) {
		bpf_spin_lock(&c->lock);
		if (c->state == KV_CLIENT_LENT && kv_tuple_equal(&c->key, &p->key)) {
			probe = kv_seq_before(p->seq + c->tx_bypass, c->pair.resp_start);
			kv_probe_client(&c->pair, p, &r);
		}
		bpf_spin_unlock(&c->lock);
	}
	return kv_probe_send(skb, p, &r, probe);
}

/* … of a lent upstream. */
static __noinline int kv_lent_upstream_egress(struct __sk_buff *skb, const struct kv_packet *p,
					      struct kv_upstream *u, __u32 slot)
{
	const struct kv_tuple *client = &u->client; /* constant while the slot is claimed */
	struct kv_client *c = bpf_map_lookup_elem(&kv_clients, client);
	__u32 gen = u->gen, tx_bypass = u->tx_bypass;
	struct kv_rewrite r = {};
	bool probe = false;

	if (c && kv_probe_shaped(p)) {
		bpf_spin_lock(&c->lock);
		if (kv_pair_is(c, client, slot, gen)) {
			probe = kv_seq_before(p->seq + tx_bypass,
					      c->pair.req_start + c->pair.to_backend_seq);
			kv_probe_backend(&c->pair, p, &r);
		}
		bpf_spin_unlock(&c->lock);
	}
	return kv_probe_send(skb, p, &r, probe);
}

/* ---- resets that may be forged ---- */

#define KV_RST_WINDOW 65536

/*
 * RFC 5961, section 3.2: an RST ends a connection only at exactly the position that is expected.
 * expected is the next byte that passed, acked what the other side has acknowledged: a socket that
 * is gone answers with an RST at what it was told there. KV_V_FORWARD: believed. Another one near
 * by is turned round and becomes a challenge: who has really closed answers that with an RST at
 * acked.
 */
KV_INLINE enum kv_verdict kv_reset_judge(const struct kv_packet *p, __u32 seq, __u32 acked,
					 __u32 expected)
{
	if (seq == expected || seq == acked)
		return KV_V_FORWARD;
	if (p->payload_len || seq - acked + KV_RST_WINDOW >= 2 * KV_RST_WINDOW)
		return KV_V_DROP;
	return KV_V_CHALLENGE;
}

/* Back to the peer, by the pair's own way: who forged the RST may sit at the interface that it came
 * by, and is not to learn these numbers. A TC action. */
KV_INLINE int kv_challenge(struct __sk_buff *skb, const struct kv_packet *p, struct kv_rewrite *r,
			   __u32 ifindex, __u32 path)
{
	r->addresses = 1;
	r->to = p->key;
	if (kv_rewrite_apply(skb, p, r)) {
		kv_bump(KV_CNT_drop_rewrite);
		return TC_ACT_SHOT;
	}
	kv_bump(KV_CNT_challenges);
	return kv_send(skb, ifindex, path);
}

#endif /* KVSTEER_PROBE_BPF_H */
