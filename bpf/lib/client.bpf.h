/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Segments from a client whose connection is lent. */
#ifndef KVSTEER_CLIENT_BPF_H
#define KVSTEER_CLIENT_BPF_H

#include "express.bpf.h"
#include "probe.bpf.h"

/* Client's RST: the pair is over. Its home socket gets the RST, and the agent resets the upstream.
 */
KV_INLINE void kv_client_reset(struct kv_client *c, const struct kv_packet *p, struct kv_step *s)
{
	struct kv_pair *pair = &c->pair;
	__u32 next = pair->seen & KV_SEEN_CLIENT_FIN ? pair->fin_seq + 1 : pair->req_sent;

	s->verdict = kv_reset_judge(p, p->seq, pair->req_acked, next);
	s->why = KV_CNT_drop_stale;
	if (s->verdict == KV_V_CHALLENGE)
		kv_probe_client(pair, p, &s->out);
	if (s->verdict != KV_V_FORWARD)
		return;
	s->ended = 1;
	s->end.event = KV_EVENT_CLIENT_GONE;
	s->end.failed = !(pair->seen & KV_SEEN_RESPONSE);
	kv_pair_end(c, &s->end, p->seq, pair->resp_sent, KV_CLIENT_AGENT);
	s->verdict = KV_V_HOME;
}

/* Nobody is there any more to whom the pair's numbers mean something. Under the lock. */
KV_INLINE void kv_pair_orphan(struct kv_client *c, struct kv_ended *e)
{
	e->event = KV_EVENT_CLIENT_GONE;
	e->failed = !(c->pair.seen & KV_SEEN_RESPONSE);
	kv_pair_end(c, e, c->pair.req_sent, c->pair.resp_sent, KV_CLIENT_AGENT);
}

/* The home socket of a lent client is gone, and its tuple is to be another connection's. */
static __noinline void kv_client_orphaned(struct kv_client *c, const struct kv_tuple *key)
{
	struct kv_ended end = {};
	bool ended = false;

	bpf_spin_lock(&c->lock);
	if (c->state == KV_CLIENT_LENT && kv_tuple_equal(&c->key, key)) {
		kv_pair_orphan(c, &end);
		ended = true;
	}
	bpf_spin_unlock(&c->lock);
	if (ended)
		kv_pair_settle(&end, key);
}

/*
 * A segment that does not belong to the pair. A lent client's home socket sleeps where the pair
 * began; if there is one elsewhere, the pair is not its: it was lent on this tuple's former
 * connection, whose request one CPU was still reading while another one saw its RST and the next
 * SYN. The next connection, whose every segment would be dropped here, gets its tuple.
 */
static __noinline void kv_client_astray(struct __sk_buff *skb, const struct kv_packet *p,
					struct kv_client *c, __u32 slot, __u32 gen)
{
	struct kv_ended end = {};
	struct kv_home h = {};
	bool astray;

	if (kv_home_read(skb, &p->key, &h))
		return;
	bpf_spin_lock(&c->lock);
	/* of the same lend: it has slept since before we looked */
	astray = kv_pair_is(c, &p->key, slot, gen) && h.rcv_nxt + c->rx_bypass != c->pair.req_start;
	if (astray)
		kv_pair_orphan(c, &end);
	bpf_spin_unlock(&c->lock);
	if (!astray)
		return;
	kv_pair_settle(&end, &p->key);
	bpf_map_delete_elem(&kv_clients, &p->key);
}

/* The payload: what of it belongs to this request. */
KV_INLINE void kv_client_payload(struct kv_pair *pair, const struct kv_packet *p, struct kv_step *s)
{
	__u32 end = p->seq + p->payload_len;

	if (kv_seq_before(p->seq, pair->req_start)) {
		/* A keep-alive with its byte, or bytes from before this request again: the backend
		 * knows nothing of them, but to an empty segment from there it answers. */
		if (kv_seq_after(end, pair->req_start))
			kv_drop(s, KV_CNT_drop_stale);
		s->keep = 0;
		return;
	}
	if (kv_seq_after(end, pair->req_end)) {
		if (kv_seq_after_eq(p->seq, pair->req_end)) {
			/* the next request, too early */
			kv_drop(s, KV_CNT_drop_early_request);
			return;
		}
		end = pair->req_end;
		s->keep = end - p->seq;
	}
	if (kv_seq_before(p->seq, pair->req_start + pair->head_len) &&
	    kv_seq_after(end, pair->req_acked)) {
		/* A part of it (cut on its way, or the path has become narrower) cannot be
		 * compared. Should it make another request of it, that request's sender alone
		 * sees what comes of it: nobody else follows on this upstream. */
		if (p->seq != pair->req_start ||
		    kv_seq_before(end, pair->req_start + pair->head_len)) {
			pair->seen |= KV_SEEN_NO_REUSE;
		} else {
			s->verdict = KV_V_HEAD;
			s->head_len = pair->head_len;
			s->req_len = pair->req_end - pair->req_start;
		}
	}
	pair->req_sent = kv_seq_max(pair->req_sent, end);
}

/* One segment against the pair, under the lock. */
KV_INLINE void kv_client_step(struct kv_client *c, const struct kv_packet *p, __u32 tsval,
			      struct kv_step *s)
{
	struct kv_pair *pair = &c->pair;

	if (c->state != KV_CLIENT_LENT || !kv_tuple_equal(&c->key, &p->key)) {
		s->verdict = KV_V_HOME;
		return;
	}
	s->slot = pair->slot;
	s->gen = pair->gen;
	if (p->flags & KV_RST) {
		kv_client_reset(c, p, s);
		return;
	}
	if (p->flags & KV_SYN) {
		/* It has forgotten this connection, or is another: RFC 5961, section 4.2. */
		s->verdict = KV_V_CHALLENGE;
		kv_probe_client(pair, p, &s->out);
		return;
	}
	if (!kv_pair_client_near(pair, p->seq)) {
		kv_drop(s, KV_CNT_drop_window);
		return;
	}
	c->last_ns = p->now;
	if (!(p->flags & KV_ACK)) {
		kv_drop(s, KV_CNT_drop_unsent_ack);
		return;
	}
	if (kv_ack_forged(s, p->ack, pair->resp_start, pair->resp_sent))
		return;
	pair->resp_acked = kv_seq_max(pair->resp_acked, p->ack);
	if (p->ack == pair->resp_acked)
		pair->client_window = kv_window_bytes(p->window, pair->client_snd_wscale);
	if (tsval && (__s32)(tsval - pair->client_tsval) > 0)
		pair->client_tsval = tsval;

	/* The response's last ack may ride on the next request: first see whether the pair is
	 * through. */
	if (kv_pair_complete(pair)) {
		s->ended = 1;
		kv_to_backend(pair, p, &s->out); /* the backend is to see this ack */
		kv_pair_return(c, &s->end);
		if (p->payload_len || p->flags & KV_FIN || pair->seen & KV_SEEN_CLIENT_FIN)
			s->verdict = KV_V_HOME;
		return;
	}
	if (p->payload_len)
		kv_client_payload(pair, p, s);
	else if (p->flags & KV_FIN && kv_seq_after(p->seq, pair->req_end))
		kv_drop(s, KV_CNT_drop_early_request); /* behind a next request, dropped too */
	else if (p->flags & KV_FIN && kv_seq_before(p->seq, pair->req_acked))
		kv_drop(s, KV_CNT_drop_stale); /* its place has been acknowledged: forged */
	if (p->flags & KV_FIN && s->verdict != KV_V_DROP && s->keep == p->payload_len) {
		s->half_closed = !(pair->seen & KV_SEEN_CLIENT_FIN);
		pair->fin_seq = p->seq + p->payload_len;
		pair->seen |= KV_SEEN_CLIENT_FIN;
	}
	kv_to_backend(pair, p, &s->out);
	if (s->keep != p->payload_len)
		s->out.flags &= ~KV_FIN;
}

/*
 * The head again, because its first copy may be lost. A head that framed differently from what we
 * counted with would let its sender's next bytes be another's request on this upstream: smuggling.
 * The body may differ; it is counted by length. (Segments that the backend has acknowledged go
 * through unseen: it has those bytes.)
 */
static __noinline bool kv_head_same(struct __sk_buff *skb, const struct kv_packet *p,
				    __u32 head_len, __u32 req_len)
{
	struct kv_scratch *scratch = kv_scratch_get();

	return scratch && kv_parse(skb, p) == KV_LANE_EXPRESS &&
	       scratch->request.head_len == head_len &&
	       head_len + (__u32)scratch->request.body_len == req_len;
}

/* Such a head ends the pair. While the backend has acknowledged nothing the lend is forgotten and
 * the agent reads the request for itself; else both sides are reset. */
static __noinline int kv_head_differs(struct kv_client *c, const struct kv_tuple *key, __u32 slot,
				      __u32 gen)
{
	struct kv_ended end = {.failed = 1};
	bool ended = false;

	bpf_spin_lock(&c->lock);
	if (kv_pair_is(c, key, slot, gen)) {
		bool fresh = c->pair.req_acked == c->pair.req_start &&
			     !(c->pair.seen & KV_SEEN_RESPONSE);

		end.event = fresh ? KV_EVENT_CLOSE_UPSTREAM : KV_EVENT_RESET_CLIENT;
		kv_pair_end(c, &end, c->pair.req_acked, kv_pair_reset_at(&c->pair),
			    fresh ? KV_CLIENT_HOME : KV_CLIENT_AGENT);
		ended = true;
	}
	bpf_spin_unlock(&c->lock);
	if (ended)
		kv_pair_settle(&end, key);
	if (ended && end.event == KV_EVENT_CLOSE_UPSTREAM) {
		kv_bump(KV_CNT_retry_forgotten);
		return KV_TO_HOME;
	}
	kv_bump(KV_CNT_smuggling_refused);
	return TC_ACT_SHOT;
}

/* A TC action, or KV_TO_HOME. */
static __noinline int kv_from_client(struct __sk_buff *skb, struct kv_packet *p,
				     struct kv_client *c)
{
	struct kv_scratch *scratch = kv_scratch_get();
	__u32 tsval = kv_packet_tsval(skb, p), ifindex, path;
	struct kv_upstream *u;
	struct kv_backend *b;
	struct kv_step *s;

	if (!scratch)
		return TC_ACT_SHOT;
	s = &scratch->step;
	kv_step_begin(s, p);
	bpf_spin_lock(&c->lock);
	kv_client_step(c, p, tsval, s);
	ifindex = c->ifindex;
	path = c->path;
	bpf_spin_unlock(&c->lock);

	u = kv_slot(s->slot);
	b = u ? kv_world_backend(u->backend) : NULL;
	if (u)
		s->out.to = u->key;
	if (s->ended) {
		if (s->end.event == KV_EVENT_CLIENT_GONE)
			kv_bump(KV_CNT_client_aborted);
		kv_pair_settle(&s->end, &p->key);
	}
	if (s->verdict == KV_V_HEAD && !kv_head_same(skb, p, s->head_len, s->req_len))
		return kv_head_differs(c, &p->key, s->slot, s->gen);
	if (s->verdict == KV_V_HOME)
		return KV_TO_HOME;
	if (s->verdict == KV_V_CHALLENGE)
		return kv_challenge(skb, p, &s->out, ifindex, path);
	if (s->verdict == KV_V_DROP || !b) {
		if (s->why == KV_CNT_drop_window || s->why == KV_CNT_drop_unsent_ack)
			kv_client_astray(skb, p, c, s->slot, s->gen);
		kv_bump(s->why);
		return TC_ACT_SHOT;
	}
	if (s->half_closed)
		kv_bump(KV_CNT_client_half_closed);
	if (s->keep != p->payload_len && kv_trim(skb, p, s->keep)) {
		kv_bump(KV_CNT_drop_early_request);
		return TC_ACT_SHOT;
	}
	return kv_splice(skb, p, &s->out, b->ifindex, b->path, false);
}

#endif /* KVSTEER_CLIENT_BPF_H */
