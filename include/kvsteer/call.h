/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the agent asks the kernel for, and what recordings are handed over by. Included by shared.h.
 */
#ifndef KVSTEER_CALL_H
#define KVSTEER_CALL_H

enum kv_entry_op {
	KV_ENTRY_BUSY = 1, /* a request is about to be read: state AGENT, held */
	KV_ENTRY_OFFER,	   /* its response is that of slot and gen, and may be lent if offered */
	KV_ENTRY_HOME,	   /* its response is through: between requests again */
	KV_ENTRY_END,	   /* the pair of slot and gen is over */
};

enum kv_entry_result {
	KV_ENTRY_DONE,
	KV_ENTRY_NONE,	 /* there is no entry, or it is another request's */
	KV_ENTRY_IS_LENT /* or the kernel has ended its pair, and the client is to be closed */
};

/* The one value of map kv_entry_call: written by the agent, then its program kv_agent_entry runs.
 */
struct kv_entry_call {
	__u32 op;
	__u32 result;
	struct kv_tuple key;
	__u32 hold;	 /* the request's so far; BUSY: 0 for a first one */
	__u32 next_hold; /* BUSY */
	__u32 service;	 /* BUSY */
	__u32 slot;	 /* OFFER, END */
	__u32 gen;
	__u8 offered;	   /* OFFER */
	__u8 head_request; /* OFFER */
	__u8 again; /* END: the request may be served again if nothing of it was acknowledged */
	__u8 zero;
	__u32 inserted; /* OFFER: bytes that the response's head is longer by for the client */
	__u64 now_ns;	/* BUSY */
	/* BUSY, out: kv_client.left and .trace */
	__u32 left;
	__u32 trace;
	/* HOME: its record, which ends with that, and how long its response was; 0: none */
	__u64 ends;
	__u64 bytes;
	/* END, out: the pair that is over, and the state that its client has now */
	__u32 state;
	__u32 zero2;
	struct kv_pair pair;
};

/* What the agent offers of a slot in state RELAY (map kv_offers, which the agent maps): the
 * response of the request that holds the client's entry may be lent. The kernel takes it with the
 * response's first segment, under the entry's lock; it is void when the request has gone elsewhere.
 */
struct kv_offer {
	__u64 what; /* KV_OFFER_*, written as one; 0: nothing */
	__u32 gen;  /* the slot's */
	/* The kernel's, each the hold of the request: it has seen the response to its end, and will
	 * set the entry HOME when the client's socket sends the last byte; it has done so. */
	__u32 whole;
	__u32 home;
	__u32 zero;
};

/* The hold is in the upper half; bytes that the response's head is longer by for the client from
 * bit 8 on. */
#define KV_OFFER_HEAD 1u /* the request is a HEAD */
#define KV_OFFER_HOME 2u /* the client goes on after it, for all the agent knows */
#define KV_OFFER_HOLD(what) ((__u32)((what) >> 32))
#define KV_OFFER_INSERTED(what) ((__u32)(what) >> 8)

enum kv_call_op {
	KV_CALL_DECIDE = 1,	 /* query → choice, charged and learned */
	KV_CALL_SETTLE_FAILED,	 /* slot's dispatch: take charges and tentative entries back */
	KV_CALL_SETTLE_ANSWERED, /* slot's dispatch: first response byte */
	KV_CALL_SETTLE_FINISHED, /* slot's dispatch: response ended */
	KV_CALL_UNDO,		 /* call.dispatch, for a decision that never got a slot */
	KV_CALL_SETTLE_REFUSED,	 /* slot's dispatch: first response byte, of a refusal */
	KV_CALL_TRACE_END, /* call.dispatch's record ends; without a record: made, and ended */
};

/* The one value of map kv_call: written by the agent, then its program kv_agent_call runs. */
struct kv_call {
	__u32 op;
	__u32 slot;
	struct kv_choice choice;
	struct kv_dispatch dispatch; /* query in, charges out: copied to the slot by the agent */
	__u32 masked;		     /* only those of the mask are candidates */
	__u16 status;		     /* SETTLE_ANSWERED, SETTLE_REFUSED, TRACE_END; 0: not known */
	__u8 end;		     /* TRACE_END: enum kv_trace_end */
	__u8 closed;		     /* TRACE_END: the client had closed its side */
	__u64 mask[KV_MAX_BACKENDS / 64];
	__u64 bytes;		   /* TRACE_END: of the response */
	struct kv_trace_from from; /* DECIDE, TRACE_END */
};

#define KV_TELL_MAX 1024 /* blocks; a power of two */

/* The one value of map kv_telling: written by the agent, then its program kv_agent_tell runs. */
struct kv_telling {
	__u32 backend;
	__u32 epoch; /* the backend's when this was said: of an older one nothing is believed */
	__u16 gone;  /* these blocks have been evicted; 0: stored */
	__u16 tier;  /* stored there */
	__u32 n;
	__u64 hash[KV_TELL_MAX]; /* chain hashes, each of a prompt up to the end of a block */
};

/* The one value of map kv_recording: the lease of kvsteer record, which renews it, so that one that
 * was killed costs nothing for long. What it hears with is in map kv_recorders: a ring buffer of
 * dispatches, each cut behind its last rung. One without its charge has been taken back. */
struct kv_recording {
	__u64 until_ns; /* dispatches before that are handed over; 0: nobody records */
	__u64 lost;	/* dispatches that found no room; only rises */
	__u32 service;	/* of this one only; KV_NONE: all */
	__u32 owner;	/* process, 0: none */
};

#endif /* KVSTEER_CALL_H */
