/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What one run of a tc program works on. tc programs do not interrupt each other on one CPU, so
 * there is one of it per CPU; the stack (512 bytes over all frames) would be too small. And the
 * steering's entry points over it, each verified once.
 */
#ifndef KVSTEER_SCRATCH_BPF_H
#define KVSTEER_SCRATCH_BPF_H

#include <kvsteer/answer.h>

#include "home.bpf.h"
#include "record.bpf.h"
#include "rewrite.bpf.h"
#include "steering.bpf.h"
#include "trace.bpf.h"

/* What is left to do for a pair that has ended, once the lock is released. */
struct kv_ended {
	__u32 slot;
	__u32 gen;
	__u32 tx;    /* bytes that passed to the backend … */
	__u32 rx;    /* … and from it */
	__u32 bytes; /* of the response, those that the agent has relayed too */
	__u32 tsval; /* the backend's latest */
	__u32 event; /* 0: none */
	__u8 reuse;
	__u8 failed;
	__u8 client_closed; /* its side, by then */
};

enum kv_verdict {
	KV_V_FORWARD,	/* rewritten, to the other side */
	KV_V_DROP,	/* held back, counted; TCP sends it again */
	KV_V_HOME,	/* not lent, or not any more: as any segment of such a connection */
	KV_V_CHALLENGE, /* an RST that may be forged: asked back */
	KV_V_HEAD,	/* carries the request's head again: only if it frames the same */
};

struct kv_step {
	enum kv_verdict verdict;
	enum kv_counter why; /* for KV_V_DROP */
	__u32 keep;	     /* payload bytes that belong to the other side */
	__u32 slot;
	__u32 gen;
	__u32 head_len; /* for KV_V_HEAD */
	__u32 req_len;
	__u16 answered; /* the final response begins here: its status */
	__u16 begun;	/* … its body: its status */
	__u8 streamed;
	__u8 ended;
	__u8 broken;	  /* the backend closed inside its response */
	__u8 stashed;	  /* kept, and ahead of a hole */
	__u8 unsound;	  /* the response ends before what has been passed on */
	__u8 half_closed; /* the client's FIN, for the first time */
	struct kv_ended end;
	struct kv_rewrite out;
};

/* A backend's segment's way through: looked at under the lock, framed outside, committed under the
 * lock. */
struct kv_backend_view {
	__u32 slot;
	__u32 gen;
	__u32 cseq;
	__u32 before; /* frontier when looked at */
	__u32 next;   /* and after framing */
	__u32 base;   /* of the stash */
};

struct kv_scratch {
	struct kv_packet packet;
	struct kv_request request;
	struct kv_steer steer;
	struct kv_trace_from trace; /* once committed, again is the record's number */
	__u32 left;		    /* why this packet is left to the agent: as kv_client.left */
	struct kv_framing framing;
	struct kv_run stashed[KV_STASH_RUNS]; /* of the pair whose framing that is */
	struct kv_backend_view view;
	struct kv_step step;
	struct kv_home client_home;
	struct kv_home upstream_home;
	/* a struct kv_client, whose lock may not lie here; but for the key it stays zero */
	__u8 fresh_client[sizeof(struct kv_client)] __attribute__((aligned(8)));
};

KV_MAP(kv_scratch, BPF_MAP_TYPE_PERCPU_ARRAY, 1, __u32, struct kv_scratch, 0);

KV_INLINE struct kv_scratch *kv_scratch_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&kv_scratch, &zero);
}

/* A new step: so far it is to forward the whole segment. */
KV_INLINE void kv_step_begin(struct kv_step *s, const struct kv_packet *p)
{
	__builtin_memset(s, 0, sizeof(*s));
	s->keep = p->payload_len;
	s->slot = KV_NONE;
	s->why = KV_CNT_drop_race; /* 0 is a counter too, and not of drops */
}

KV_INLINE void kv_drop(struct kv_step *s, enum kv_counter why)
{
	s->verdict = KV_V_DROP;
	s->why = why;
}

/* Drops a segment that acknowledges what its sender was never sent, from first to sent: a forged
 * one (RFC 5961, section 5). All from before first had been acknowledged when the pair was lent. */
KV_INLINE bool kv_ack_forged(struct kv_step *s, __u32 ack, __u32 first, __u32 sent)
{
	if (kv_seq_after(ack, sent))
		kv_drop(s, KV_CNT_drop_unsent_ack);
	else if (kv_seq_before(ack, first))
		kv_drop(s, KV_CNT_drop_window);
	else
		return false;
	return true;
}

KV_INLINE struct kv_dispatch *kv_dispatch_of(__u32 slot)
{
	return bpf_map_lookup_elem(&kv_dispatches, &slot);
}

/* 0: the scratch's query has its choice. */
KV_GLOBAL int kv_decide(void)
{
	struct kv_scratch *scratch = kv_scratch_get();

	return scratch ? kv_steer_decide(&scratch->steer) : -1;
}

/* Charges and learns the choice, on the slot's account. */
KV_GLOBAL int kv_commit(__u32 slot)
{
	struct kv_scratch *scratch = kv_scratch_get();
	struct kv_dispatch *d = kv_dispatch_of(slot);

	if (scratch && d) {
		scratch->trace.again = kv_trace_decided(&scratch->steer, &scratch->trace);
		d->trace = scratch->trace.again;
		kv_steer_commit(&scratch->steer, d);
		kv_record(d);
	}
	return 0;
}

KV_INLINE void kv_trace_slot(__u32 slot, __u32 flags)
{
	struct kv_dispatch *d = kv_dispatch_of(slot);

	if (d)
		kv_trace_flag(d->trace, flags);
}

KV_INLINE void kv_answer_count(struct kv_backend *b, __u32 status)
{
	enum kv_answer answer = kv_answer_of(status);

	kv_atomic_add(&b->answers, 1);
	if (answer == KV_ANSWER_BUSY)
		kv_atomic_add(&b->busy, 1);
	else if (answer == KV_ANSWER_FAULT)
		kv_atomic_add(&b->errors, 1);
}

/* The status of a final response that the agent does not get to see. */
KV_GLOBAL int kv_settle_status(__u32 slot, __u32 status)
{
	struct kv_dispatch *d = kv_dispatch_of(slot);
	struct kv_backend *b = d ? kv_world_backend(d->backend) : NULL;

	if (b)
		kv_answer_count(b, status);
	return 0;
}

/* Its body begins. */
KV_GLOBAL int kv_settle_answered(__u32 slot, __u32 status, __u32 streamed)
{
	struct kv_dispatch *d = kv_dispatch_of(slot);

	if (d)
		kv_trace_answered(d->trace, status);
	if (d && kv_answer_caches(status) && streamed)
		kv_dispatch_timed(d);
	if (d && kv_answer_caches(status))
		kv_dispatch_answered(d);
	else if (d)
		kv_dispatch_refused(d);
	return 0;
}

KV_GLOBAL int kv_settle_finished(__u32 slot)
{
	struct kv_dispatch *d = kv_dispatch_of(slot);

	if (d)
		kv_dispatch_finished(d);
	return 0;
}

KV_GLOBAL int kv_settle_failed(__u32 slot)
{
	struct kv_dispatch *d = kv_dispatch_of(slot);

	if (d) {
		kv_dispatch_failed(d);
		kv_record(d);
	}
	return 0;
}

#endif /* KVSTEER_SCRATCH_BPF_H */
