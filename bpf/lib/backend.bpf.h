/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Segments from a backend: of a lent pair, or of an upstream that the agent talks through (RELAY),
 * whose response is followed here and lent in mid-flight.
 *
 * Positions here are the client's wire ones: cseq, cack. The framing's frontier is pair.resp_next:
 * every byte before it has been framed. Inside a body of known length nothing needs looking at, so
 * segments may come in any order and a hole is framed over; where bytes must be looked at, those
 * ahead of a hole are kept until it is filled (stash.bpf.h).
 */
#ifndef KVSTEER_BACKEND_BPF_H
#define KVSTEER_BACKEND_BPF_H

#include "client.bpf.h"
#include "stash.bpf.h"

/* Runs the framing in scratch over bytes of the payload; Returns the bytes it took. */
KV_GLOBAL int kv_frame(struct __sk_buff *skb, const struct kv_packet *p, __u32 off, __u32 len)
{
	struct kv_source s = {.skb = skb};
	struct kv_scratch *scratch = kv_scratch_get();

	if (!scratch || !p)
		return 0;
	s.base = kv_payload_off(p);
	s.len = p->payload_len;
	return kv_framing_run(&scratch->framing, &s, off, len);
}

/* Takes a segment at position seq into the framing. 0: *next is the new frontier and *keep the
 * payload that belongs to this response; -1: it comes too early, and is to be sent again in order.
 */
KV_GLOBAL int kv_frame_segment(struct __sk_buff *skb, const struct kv_packet *p, __u32 seq,
			       __u32 *next, __u32 *keep)
{
	struct kv_scratch *scratch = kv_scratch_get();
	__u32 skip = 0, used;

	if (!scratch || !p || !next || !keep)
		return -1;
	*keep = p->payload_len;
	if (kv_seq_after(seq, *next)) {
		__u32 hole = seq - *next;

		if (kv_framing_needs_bytes(&scratch->framing) || kv_framing_done(&scratch->framing))
			return -1;
		if (!kv_framing_until_close(&scratch->framing) && hole > scratch->framing.left)
			return -1;
		kv_frame(skb, p, 0, hole); /* no byte of it is read */
		*next = seq;
	} else {
		skip = *next - seq;
		if (skip >= p->payload_len)
			return 0;
	}
	used = kv_frame(skb, p, skip, p->payload_len - skip);
	*next += used;
	if (used < p->payload_len - skip)
		*keep = skip + used;
	return 0;
}

/* ---- lent ---- */

/* Backend's RST, under the lock. How it ends depends on what the client has been told already. */
KV_INLINE void kv_backend_failed(struct kv_client *c, struct kv_step *s)
{
	struct kv_pair *pair = &c->pair;

	s->ended = 1;
	kv_drop(s, KV_CNT_broken_response);
	if (pair->seen & KV_SEEN_RESPONSE) {
		s->end.event = KV_EVENT_RESET_CLIENT;
		kv_pair_end(c, &s->end, pair->req_acked, kv_pair_reset_at(pair), KV_CLIENT_AGENT);
		return;
	}
	s->end.failed = 1;
	if (pair->req_acked == pair->req_start && pair->head_len) {
		/* Nothing acknowledged: the client sends all of it again, and another backend
		 * serves it. */
		s->why = KV_CNT_retry_forgotten;
		s->end.event = KV_EVENT_CLOSE_UPSTREAM;
		kv_pair_end(c, &s->end, pair->req_start, pair->resp_start, KV_CLIENT_HOME);
		return;
	}
	s->why = KV_CNT_broken_before_response;
	s->end.event = KV_EVENT_BAD_GATEWAY;
	kv_pair_end(c, &s->end, pair->req_acked, pair->resp_start, KV_CLIENT_AGENT);
}

/* An RST behind a response that has passed whole (a server that closes with bytes unread sends one)
 * does not take back what the client is about to acknowledge. If it never does, nobody sends it
 * again; the backend has been silent from here on, and the agent ends the pair. Under the lock. */
KV_INLINE void kv_backend_reset(struct kv_client *c, struct kv_step *s)
{
	if (!kv_framing_done(&c->pair.response)) {
		kv_backend_failed(c, s);
		return;
	}
	c->pair.seen |= KV_SEEN_BACKEND_FIN;
	kv_drop(s, KV_CNT_drop_reset_late);
}

/* Under the lock: is it a segment of this pair, and where does the framing stand? */
KV_INLINE void kv_backend_look(struct kv_client *c, const struct kv_tuple *client,
			       const struct kv_packet *p, struct kv_backend_view *v,
			       struct kv_framing *framing, struct kv_run *stashed,
			       struct kv_step *s)
{
	struct kv_pair *pair = &c->pair;

	if (!kv_pair_is(c, client, v->slot, v->gen)) {
		kv_drop(s, KV_CNT_drop_race);
		return;
	}
	/* From the entry, under its lock: once a pair is settled, the address in the slot may be
	 * another client's. */
	s->out.to = c->key;
	v->cseq = p->seq - pair->to_backend_ack;
	v->before = pair->resp_next;
	v->next = pair->resp_next;
	if (p->flags & KV_RST) {
		s->verdict = kv_reset_judge(p, v->cseq, pair->resp_acked, pair->resp_sent);
		s->why = KV_CNT_drop_stale;
		if (s->verdict == KV_V_FORWARD)
			kv_backend_reset(c, s);
		else if (s->verdict == KV_V_CHALLENGE)
			kv_probe_backend(pair, p, &s->out);
		return;
	}
	if (p->flags & KV_SYN) {
		kv_drop(s, KV_CNT_drop_stale);
		return;
	}
	if (!kv_pair_backend_near(pair, v->cseq)) {
		kv_drop(s, KV_CNT_drop_window);
		return;
	}
	pair->backend_ns = p->now;
	/* Bytes of the answer to an earlier client of this upstream: never to this one. */
	if (kv_seq_before(v->cseq, pair->resp_start - pair->relayed) && p->payload_len) {
		kv_drop(s, KV_CNT_drop_stale);
		return;
	}
	*framing = pair->response;
	v->base = kv_stash_empty(pair) ? pair->resp_next : pair->stash_base;
	__builtin_memcpy(stashed, pair->stashed, sizeof(pair->stashed));
}

/* The backend's FIN, in its place. It ends a close-delimited response, or breaks another off: the
 * client gets what has come, and then its home socket's FIN. Under the lock; true: the pair is
 * over. */
KV_INLINE bool kv_backend_fin(struct kv_client *c, struct kv_step *s)
{
	struct kv_pair *pair = &c->pair;

	if (!(pair->seen & KV_SEEN_RESPONSE)) {
		kv_backend_failed(c, s);
		return true;
	}
	pair->seen |= KV_SEEN_BACKEND_FIN;
	if (!kv_framing_done(&pair->response)) {
		s->broken = !kv_framing_until_close(&pair->response);
		kv_framing_end(&pair->response);
	}
	return false;
}

/* Under the lock again: the framing's progress, the acks, the end. */
KV_INLINE void kv_backend_commit(struct kv_client *c, const struct kv_tuple *client,
				 const struct kv_packet *p, const struct kv_backend_view *v,
				 const struct kv_framing *framing, const struct kv_run *stashed,
				 __u32 tsval, struct kv_step *s)
{
	struct kv_pair *pair = &c->pair;
	__u32 cack = p->ack - pair->to_backend_seq;
	__u32 sent = pair->req_sent + (pair->seen & KV_SEEN_CLIENT_FIN ? 1 : 0);

	if (!kv_pair_is(c, client, v->slot, v->gen) || pair->resp_next != v->before ||
	    (v->next != v->before && kv_stash_changed(pair, stashed))) {
		kv_drop(s, KV_CNT_drop_race);
		return;
	}
	if (kv_ack_forged(s, cack, pair->req_start, sent))
		return;
	/* Said before the backend had a byte of the request: it is no answer to it. */
	if (p->payload_len && pair->head_len && !kv_seq_after(cack, pair->req_start)) {
		kv_backend_failed(c, s);
		return;
	}
	pair->req_acked = kv_seq_max(pair->req_acked, kv_seq_min(cack, pair->req_sent));
	if (tsval && (__s32)(tsval - pair->backend_tsval) > 0)
		pair->backend_tsval = tsval;
	/* Bytes behind the response's end have been passed on, next to it or with a gap between:
	 * the client keeps them, and would read them when its next response fills the gap. */
	if (p->payload_len && !s->stashed && kv_framing_done(framing) &&
	    kv_seq_after(pair->resp_sent, v->next))
		s->unsound = 1;
	if (s->unsound) {
		pair->seen |= KV_SEEN_RESPONSE; /* so it is broken, not forgotten */
		kv_backend_failed(c, s);
		return;
	}
	if (s->stashed) {
		if (kv_stash_add(pair, v->cseq, v->cseq + p->payload_len)) {
			kv_drop(s, KV_CNT_drop_out_of_order);
			return;
		}
		pair->stash_base = v->base;
		pair->seen |= KV_SEEN_RESPONSE;
		pair->resp_sent = kv_seq_max(pair->resp_sent, v->cseq + p->payload_len);
	} else if (p->payload_len) {
		pair->response = *framing;
		pair->resp_next = v->next;
		kv_stash_forget(pair);
		pair->resp_sent = kv_seq_max(pair->resp_sent, v->cseq + s->keep);
		pair->seen |= KV_SEEN_RESPONSE;
		if (kv_framing_answered(&pair->response) && !(pair->seen & KV_SEEN_ANSWERED)) {
			pair->seen |= KV_SEEN_ANSWERED;
			s->answered = pair->response.status;
		}
		if (kv_framing_begun(&pair->response) && !(pair->seen & KV_SEEN_BEGUN)) {
			pair->seen |= KV_SEEN_BEGUN;
			s->begun = pair->response.status;
			s->streamed = kv_framing_streamed(&pair->response);
		}
		/* bytes behind the response, or a response before its request has come whole */
		if (s->keep != p->payload_len || (kv_framing_done(&pair->response) &&
						  kv_seq_before(pair->req_sent, pair->req_end)))
			pair->seen |= KV_SEEN_NO_REUSE;
	}
	if (p->flags & KV_FIN && pair->resp_next == v->cseq + p->payload_len &&
	    kv_backend_fin(c, s))
		return;
	kv_to_client(pair, p, &s->out);
	if (kv_pair_complete(pair)) {
		s->ended = 1;
		kv_pair_return(c, &s->end);
	}
}

/* The payload, outside of the lock: framed, or kept until it can be. */
KV_INLINE void kv_backend_frame(struct __sk_buff *skb, const struct kv_packet *p,
				struct kv_backend_view *v, struct kv_scratch *scratch)
{
	struct kv_step *s = &scratch->step;

	if (!kv_frame_segment(skb, p, v->cseq, &v->next, &s->keep)) {
		int more = v->next != v->before;

		for (int i = 0; i < KV_STASH_RUNS && more > 0; i++)
			more = kv_stash_frame(v->slot, v->gen, v->base, &v->next);
		s->unsound = more < 0;
		return;
	}
	/* A body of known length ends where it ends. */
	if (scratch->framing.state <= KV_FRAMING_DATA && kv_seq_after(v->cseq, v->before) &&
	    !kv_stash_keep(skb, p, v->slot, v->gen, v->cseq - v->base))
		s->stashed = 1;
	else
		kv_drop(s, KV_CNT_drop_out_of_order);
}

static __noinline int kv_from_backend(struct __sk_buff *skb, struct kv_packet *p,
				      struct kv_upstream *u, __u32 slot)
{
	const struct kv_tuple *client = &u->client; /* constant while the slot is claimed */
	struct kv_client *c = bpf_map_lookup_elem(&kv_clients, client);
	struct kv_scratch *scratch = kv_scratch_get();
	__u32 tsval = kv_packet_tsval(skb, p), ifindex = 0, path = 0;
	struct kv_backend_view *v;
	struct kv_step *s;

	if (!c || !scratch) {
		kv_bump(KV_CNT_drop_race);
		return TC_ACT_SHOT;
	}
	s = &scratch->step;
	v = &scratch->view;
	v->slot = slot;
	v->gen = u->gen;
	kv_step_begin(s, p);
	bpf_spin_lock(&c->lock);
	kv_backend_look(c, client, p, v, &scratch->framing, scratch->stashed, s);
	bpf_spin_unlock(&c->lock);
	if (s->verdict == KV_V_FORWARD && p->payload_len)
		kv_backend_frame(skb, p, v, scratch);
	if (s->verdict == KV_V_FORWARD) {
		bpf_spin_lock(&c->lock);
		kv_backend_commit(c, client, p, v, &scratch->framing, scratch->stashed, tsval, s);
		ifindex = c->ifindex;
		path = c->path;
		bpf_spin_unlock(&c->lock);
	}
	if (s->answered)
		kv_settle_status(slot, s->answered);
	if (s->begun)
		kv_settle_answered(slot, s->begun, s->streamed);
	if (s->stashed && s->verdict == KV_V_FORWARD)
		kv_bump(KV_CNT_stashed);
	if (s->broken) {
		kv_bump(KV_CNT_broken_response);
		kv_trace_slot(slot, KV_TRACE_CUT);
	}
	if (s->ended)
		kv_pair_settle(&s->end, &s->out.to);
	if (s->verdict == KV_V_CHALLENGE) {
		struct kv_backend *b = kv_world_backend(u->backend);

		return b ? kv_challenge(skb, p, &s->out, b->ifindex, b->path) : TC_ACT_SHOT;
	}
	if (s->verdict != KV_V_FORWARD) {
		kv_bump(s->why);
		return TC_ACT_SHOT;
	}
	if (s->keep != p->payload_len && kv_trim(skb, p, s->keep)) {
		kv_bump(KV_CNT_drop_after_response);
		return TC_ACT_SHOT;
	}
	return kv_splice(skb, p, &s->out, ifindex, path, true);
}

#endif /* KVSTEER_BACKEND_BPF_H */
