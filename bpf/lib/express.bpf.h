/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The express lane: a request's first segment is read, decided, and its connection lent, here and
 * now.
 *
 * Everything that is in the way leaves the packet to the home socket, and so to the agent, with a
 * counter that says why. Nothing is dropped, nothing is half-done: what was claimed is put back.
 */
#ifndef KVSTEER_EXPRESS_BPF_H
#define KVSTEER_EXPRESS_BPF_H

#include "lend.bpf.h"
#include <kvsteer/lane.h>

/* No TC actions: the home socket gets this packet; and there is none, the stack is to answer. */
#define KV_TO_HOME (-1)
#define KV_NO_HOME (-2)

/* Leaves a request to the agent, and says why. Not where the agent has read the beginning of a
 * request since we looked: then these bytes are no request's beginning, and that request has been
 * counted. */
KV_INLINE int kv_leave(const struct kv_tuple *key, enum kv_counter why)
{
	struct kv_client *c = bpf_map_lookup_elem(&kv_clients, key);
	struct kv_scratch *scratch = kv_scratch_get();

	if (c && c->state == KV_CLIENT_AGENT)
		return KV_TO_HOME;
	kv_bump(why);
	if (scratch)
		scratch->left = why + 1;
	return KV_TO_HOME;
}

/* The lane; the rest is in the scratch's request. */
KV_GLOBAL int kv_parse(struct __sk_buff *skb, const struct kv_packet *p)
{
	struct kv_source s = {.skb = skb};
	__u32 zero = 0;
	struct kv_scratch *scratch = kv_scratch_get();
	struct kv_names *names = bpf_map_lookup_elem(&kv_names, &zero);

	if (!scratch || !names || !p)
		return KV_LANE_AGENT;
	s.base = kv_payload_off(p);
	s.len = p->payload_len;
	return kv_request_parse(&scratch->request, &s, names);
}

/*
 * A client's byte goes to its home socket or to a backend, never to both: else one request would be
 * answered twice. A segment may be under way on two CPUs at once, as itself and as its duplicate,
 * and the home socket gets what is handed to it only some time later. So whoever takes the lock
 * first marks how far the home socket was given bytes, or lends; the other sees that.
 *
 * KV_TO_HOME; or a TC action: lent, or lent and returned, since rx_bypass was read.
 */
static __noinline int kv_hand_home(struct kv_client *c, const struct kv_packet *p, __u32 rx_bypass)
{
	struct kv_scratch *scratch = kv_scratch_get();
	__u32 end = p->seq + p->payload_len, left = scratch ? scratch->left : 0;
	bool lent = false;

	bpf_spin_lock(&c->lock);
	if (kv_tuple_equal(&c->key, &p->key)) {
		lent = c->state == KV_CLIENT_LENT || c->rx_bypass != rx_bypass;
		/* Not a forged position far ahead: nothing could be lent for long. */
		if (!lent && (!c->handed || kv_seq_near(end, c->handed, 0, KV_AHEAD)))
			c->handed = end ? end : 1;
		if (!lent && left)
			c->left = left;
	}
	bpf_spin_unlock(&c->lock);
	if (!lent)
		return KV_TO_HOME;
	kv_bump(KV_CNT_drop_race);
	return TC_ACT_SHOT;
}

/* Pairs the client with a claimed slot, under the lock. -1: another CPU was first. */
KV_INLINE int kv_express_lend(struct kv_client *c, const struct kv_packet *p,
			      const struct kv_request *r, __u32 slot, const struct kv_upstream *u,
			      const struct kv_home *ch, const struct kv_home *uh,
			      const struct kv_framing *response, __u32 tsval, __u32 ifindex,
			      __u64 trace, struct kv_rewrite *out)
{
	__u32 u_snd = uh->snd_nxt + u->tx_bypass, u_rcv = uh->rcv_nxt + u->rx_bypass, gen = u->gen;
	__u32 slot_tsval = u->tsval;
	struct kv_pair *pair = &c->pair;
	int err = -1;

	bpf_spin_lock(&c->lock);
	if (c->state == KV_CLIENT_HOME && kv_tuple_equal(&c->key, &p->key) &&
	    !(c->handed && kv_seq_after(c->handed, p->seq))) {
		c->state = KV_CLIENT_LENT;
		c->handed = 0; /* what comes again of before this is old */
		c->left = 0;
		c->trace = trace == KV_TRACE_SKIPPED ? 0 : trace;
		c->ifindex = ifindex;
		c->path = kv_path_by(ifindex);
		c->last_ns = p->now;
		kv_pair_begin(pair, slot, gen, ch, uh, slot_tsval, p->now);
		/* its home socket has not seen windows for a while */
		pair->client_window = kv_window_bytes(p->window, pair->client_snd_wscale);
		pair->to_backend_seq = u_snd - p->seq;
		pair->to_backend_ack = u_rcv - p->ack;
		pair->req_start = p->seq;
		pair->req_end = p->seq + r->head_len + (__u32)r->body_len;
		pair->req_sent = p->seq + p->payload_len;
		pair->req_acked = p->seq;
		pair->resp_start = p->ack;
		pair->resp_next = p->ack;
		pair->resp_sent = p->ack;
		pair->resp_acked = p->ack;
		pair->head_len = r->head_len;
		pair->offered = 0;
		pair->relayed = 0;
		pair->seen = 0;
		if (tsval)
			pair->client_tsval = tsval;
		if (p->flags & KV_FIN) {
			pair->fin_seq = pair->req_sent;
			pair->seen = KV_SEEN_CLIENT_FIN;
		}
		pair->response = *response;
		kv_to_backend(pair, p, out);
		err = 0;
	}
	bpf_spin_unlock(&c->lock);
	return err;
}

/* The home socket has not seen the ack that came with a request: give it a copy of the segment,
 * which kv_ingress then turns into an old one (KV_TC_HOME_ACK). */
KV_INLINE void kv_copy_ack_home(struct __sk_buff *skb)
{
	skb->tc_index = KV_TC_HOME_ACK;
	if (!bpf_clone_redirect(skb, skb->ifindex, BPF_F_INGRESS))
		kv_bump(KV_CNT_home_ack_copies);
	skb->tc_index = 0;
}

KV_INLINE void kv_express_count(const struct kv_request *r)
{
	kv_bump(KV_CNT_lends);
	kv_bump(KV_CNT_requests_express);
	if (r->hint_state == KV_HINT_OK)
		kv_bump(KV_CNT_hint_prefix);
	else if (r->hint_state == KV_HINT_MALFORMED)
		kv_bump(KV_CNT_hint_malformed);
	if (r->session)
		kv_bump(KV_CNT_hint_session);
}

KV_INLINE void kv_express_trace(struct kv_scratch *scratch, const struct kv_client *c)
{
	const struct kv_request *r = &scratch->request;
	struct kv_trace_from *from = &scratch->trace;

	from->again = c->trace;
	from->tenant = r->has_tenant ? kv_tenant_mix(&r->tenant, 0) : 0;
	from->model = 0;
	__builtin_memcpy(from->client, c->key.peer, sizeof(from->client));
	from->port = c->key.peer_port;
	from->reason = 0;
	from->flags = 0;
}

/* Second half: backend and request are known, find an upstream and lend. */
static __noinline int kv_express_send(struct __sk_buff *skb, struct kv_packet *p,
				      struct kv_home *ch, __u32 backend)
{
	struct kv_scratch *scratch = kv_scratch_get();
	struct kv_backend *b = kv_world_backend(backend);
	struct kv_rewrite *out;
	struct kv_home *uh;
	struct kv_upstream *u;
	struct kv_client *c;
	enum kv_counter why;
	__u32 slot;

	if (!scratch || !b)
		return KV_TO_HOME;
	uh = &scratch->upstream_home;
	out = &scratch->step.out;
	c = kv_client_get(scratch, &p->key);
	if (!c)
		return kv_leave(&p->key, KV_CNT_agent_clients_full);
	slot = kv_claim(skb, backend, &p->key, uh);
	u = kv_slot(slot);
	if (!u)
		return kv_leave(&p->key, KV_CNT_agent_no_upstream);
	out->to = u->key;
	why = kv_mismatch(&p->key, ch, &out->to, uh, kv_path_by(skb->ifindex),
			  b->path & KV_PATH_LOCAL);
	if (why != KV_CNT_MAX) {
		kv_pool_put(u, slot);
		return kv_leave(&p->key, why);
	}
	kv_express_trace(scratch, c);
	kv_commit(slot);
	kv_framing_init(&scratch->framing, scratch->request.is_head);
	if (kv_express_lend(c, p, &scratch->request, slot, u, ch, uh, &scratch->framing,
			    kv_packet_tsval(skb, p), skb->ifindex, scratch->trace.again, out)) {
		kv_trace_ended(scratch->trace.again, KV_TRACE_VOID, 0, 0, 0);
		kv_settle_failed(slot);
		kv_pool_put(u, slot);
		kv_bump(KV_CNT_lend_raced);
		scratch->left = KV_CNT_lend_raced + 1;
		return KV_TO_HOME;
	}
	kv_express_count(&scratch->request);
	if (!kv_home_all_acked(ch))
		kv_copy_ack_home(skb);
	return kv_splice(skb, p, out, b->ifindex, b->path, false);
}

/* The scratch's packet, with payload, on a connection that is not lent: a TC action, KV_TO_HOME or
 * KV_NO_HOME. The packet is no argument: what a global function is given cannot be a map's key
 * (6.1). */
KV_GLOBAL int kv_express(struct __sk_buff *skb, __u32 service_id, __u32 rx_bypass, __u32 tx_bypass)
{
	struct kv_service *service = kv_world_service(service_id);
	struct kv_scratch *scratch = kv_scratch_get();
	enum kv_counter why;
	struct kv_packet *p;
	struct kv_home *ch;
	int lane;

	if (!scratch || !service)
		return KV_TO_HOME;
	p = &scratch->packet;
	ch = &scratch->client_home;
	if (kv_home_read(skb, &p->key, ch))
		return KV_NO_HOME;
	/* A home socket would keep it in its out-of-order queue, where it may wait while the
	 * connection is lent on another CPU and its sequence numbers get another meaning. */
	if (kv_seq_after(p->seq, ch->rcv_nxt + rx_bypass)) {
		kv_bump(KV_CNT_drop_hole);
		return TC_ACT_SHOT;
	}
	/* Not what the home socket waits for, or it holds bytes that nobody has read: this is no
	 * beginning of a request, or not the next one. Not counted: every segment of an agent
	 * lane's body comes by here. */
	if (p->seq != ch->rcv_nxt + rx_bypass || ch->copied_seq != ch->rcv_nxt ||
	    (p->flags & (KV_SYN | KV_RST | KV_ACK)) != KV_ACK)
		return KV_TO_HOME;
	lane = kv_parse(skb, p);
	why = kv_refusal(&scratch->request, lane, p->payload_len, service,
			 skb->gso_size ? skb->gso_size : p->payload_len);
	if (why == KV_CNT_MAX && (!kv_home_quiescent(ch) || p->ack != ch->snd_nxt + tx_bypass))
		why = KV_CNT_agent_home_busy;
	if (why != KV_CNT_MAX)
		return kv_leave(&p->key, why);
	kv_query_from(&scratch->steer.query, &scratch->request, service_id);
	if (kv_decide())
		return kv_leave(&p->key, KV_CNT_agent_no_backend);
	return kv_express_send(skb, p, ch, scratch->steer.choice.backend);
}

#endif /* KVSTEER_EXPRESS_BPF_H */
