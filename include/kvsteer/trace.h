/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The flight recorder: what has become of the last requests, and why they went where they went.
 *
 * A ring of records, each one request's. A request gets the next number, which is never given
 * again, and with it the place number & mask, from whichever request had that before. Its number
 * goes with its dispatch; whoever finds another number in the place leaves it alone.
 *
 * kv_trace.word is number << 8 | version: odd while somebody writes. Writers take it by one
 * compare-and-swap from even to odd and give it back by an exchange, both full barriers in the
 * kernel's memory model; who finds it odd gives up, and is counted, so nobody ever waits. A reader
 * copies the record between two looks at the word (kv_trace_read): what is even and the same both
 * times was whole.
 *
 * Only kernel programs write: none of them can be killed with a record in its hands.
 */
#ifndef KVSTEER_TRACE_H
#define KVSTEER_TRACE_H

#include "types.h"

#define KV_TRACE_BACKENDS 8 /* of a larger fleet: the choice, holders of the longest match, … */
#define KV_TRACE_HOLDERS 6  /* … so many of them, and the second choice */
#define KV_TRACE_VERSION 0xffull
#define KV_TRACE_VERSION_LAST 0xfeull
#define KV_TRACE_MIN 64
#define KV_TRACE_MAX (1u << 20)
#define KV_TRACE_SKIPPED (~0ull) /* not of the sample: of this request there is no record */

enum kv_trace_end {
	KV_TRACE_OPEN,
	KV_TRACE_AGAIN, /* taken back: it is decided again, if its client is still there */
	KV_TRACE_VOID,	/* the kernel's decision was not carried out: the agent's is another record
			 */
	KV_TRACE_DONE,	/* answered whole */
	KV_TRACE_REFUSED, /* by the gateway itself */
	KV_TRACE_ABORTED, /* by the client, before its end */
	KV_TRACE_BROKEN,  /* by the backend, inside its response */
	KV_TRACE_FAILED,  /* no response: 502 or 504 */
	KV_TRACE_END_MAX,
};

#define KV_TRACE_ENDED(end) ((end) > KV_TRACE_VOID)

/* kv_trace.flags */
#define KV_TRACE_AGENT 1u   /* agent lane */
#define KV_TRACE_LENT 2u    /* … and its response was lent in mid-flight */
#define KV_TRACE_BY_COST 4u /* its policy compares costs */
#define KV_TRACE_CUT 8u	    /* the response will end too early */

/* A backend as the decision saw it, without this request. */
struct kv_trace_backend {
	__u32 matched; /* tokens believed cached there */
	__u32 wait;    /* tokens queued there */
	__u32 cost;    /* ms / 1024, if the policy goes by that */
	__u16 requests;
	__u8 backend;
	__u8 discount; /* percent of matched that did not count */
};

struct kv_trace {
	__u64 word;
	__u64 at_ns;	   /* decided for the first time, CLOCK_MONOTONIC */
	__u64 answered_ns; /* first byte of the final response's body; 0: none yet */
	__u64 ended_ns;
	__u64 bytes; /* of the response */
	__u64 tenant;
	__u64 model; /* XXH3 of its name, where the agent has read it */
	__u64 session;
	__u32 client[4];
	__u16 port;   /* the client's, network byte order */
	__u16 reason; /* why it was left to the agent: enum kv_counter + 1; 0: not known */
	__u16 status;
	__u8 rungs;    /* of its hint, or that the agent has made */
	__u8 looked;   /* of them, looked up */
	__u32 total;   /* prompt tokens, reckoned from the body where not told */
	__u32 best;    /* tokens of the longest match anywhere */
	__u32 matched; /* of the choice, that count */
	__u32 own;     /* tokens of prefill this request costs there */
	__u32 wait;    /* tokens queued there before it */
	__u32 price;   /* p of the price policy, in 1/1024 */
	__u16 backend; /* the choice; KV_TRACE_NOBODY: none takes it, or none was asked */
	__u16 second;
	__u16 intended;
	__u16 deepest; /* of those with the longest match the first */
	__u8 service;
	__u8 rule; /* the policy that decided */
	__u8 end;  /* enum kv_trace_end */
	__u8 decisions;
	__u8 candidates; /* at most 255 are counted */
	__u8 listed;
	__u8 flags;
	__u8 zero;
	struct kv_trace_backend backends[KV_TRACE_BACKENDS];
};
_Static_assert(sizeof(struct kv_trace) == 256, "four cache lines");

#define KV_TRACE_NOBODY 0xffffu

/* The one value of map kv_tracing. */
struct kv_tracing {
	__u64 next;   /* number of the next request */
	__u32 mask;   /* places - 1 */
	__u32 sample; /* one request in so many; 0: none */
};

/* What a decision does not know of its request. */
struct kv_trace_from {
	__u64 again; /* the record that it may go on with, its number or that's low half; 0: none */
	__u64 tenant;
	__u64 model;
	__u32 client[4];
	__u16 port;
	__u16 reason; /* as kv_trace.reason */
	__u32 flags;
};

KV_INLINE __u64 kv_trace_number(__u64 word)
{
	return word >> 8;
}

/* Takes a record for writing; false: it is another request's by now (*late), or somebody is at it.
 */
KV_INLINE bool kv_trace_take(struct kv_trace *t, __u64 number, bool *late)
{
	__u64 word = kv_read_once(t->word);

	*late = kv_trace_number(word) != number;
	if (*late || word & 1 || (word & KV_TRACE_VERSION) >= KV_TRACE_VERSION_LAST)
		return false;
	return kv_atomic_cas(&t->word, word, word + 1) == word;
}

/* The same of the place's new owner, whoever had it. */
KV_INLINE bool kv_trace_claim(struct kv_trace *t, __u64 number)
{
	__u64 word = kv_read_once(t->word);

	/* Who was away for so long that the ring has gone round meanwhile comes too late. */
	if (word & 1 || kv_trace_number(word) > number)
		return false;
	return kv_atomic_cas(&t->word, word, number << 8 | 1) == word;
}

KV_INLINE void kv_trace_give(struct kv_trace *t)
{
	(void)kv_atomic_xchg(&t->word, kv_read_once(t->word) + 1);
}

#ifndef __bpf__

/* A whole record; false: there is none, or somebody writes just now. */
static inline bool kv_trace_read(const struct kv_trace *t, struct kv_trace *ret)
{
	for (int tries = 0; tries < 100; tries++) {
		__u64 word = __atomic_load_n(&t->word, __ATOMIC_ACQUIRE);

		if (!kv_trace_number(word))
			return false;
		if (word & 1)
			continue;
		memcpy(ret, (const void *)t, sizeof(*ret));
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (kv_read_once(t->word) == word) {
			ret->word = word;
			return true;
		}
	}
	return false;
}

#endif

#endif /* KVSTEER_TRACE_H */
