/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Connections of clients and to backends, pairs of them, and their ends. Included by shared.h. */
#ifndef KVSTEER_CONNECTION_H
#define KVSTEER_CONNECTION_H

/* An upstream's slot: backend id × upstreams per backend + i. */
enum kv_upstream_state {
	KV_UP_FREE,  /* no connection */
	KV_UP_IDLE,  /* in its backend's pool */
	KV_UP_RELAY, /* claimed by the agent, which talks through the home sockets */
	KV_UP_LENT,  /* claimed by the kernel */
	KV_UP_DONE,  /* its pair has ended and it must not be used again: agent closes it */
};

struct kv_upstream {
	__u32 state;
	__u32 gen; /* raised with every claim: tells this lend from earlier ones */
	__u32 backend;
	/* wire sequence = home sequence + bypass; constant while not lent */
	__u32 rx_bypass;
	__u32 tx_bypass;
	__u32 tsval; /* the latest from the backend while lent, 0 = none */
	struct kv_tuple key;
	struct kv_tuple client; /* valid while RELAY or LENT */
	__u64 last_ns;		/* last claim or return, CLOCK_MONOTONIC */
};

/* What was dispatched on a slot's request: charged and learned until settled.
 * The two charges are taken by an atomic exchange, so each is given back exactly once. */
struct kv_dispatch {
	__u32 charged_tokens;
	__u32 charged_request;
	__u32 backend;
	__u32 unconfirmed; /* 1: the rungs are still tentative */
	__u64 at_ns;
	__u64 trace;	/* number of its record, 0: none */
	__u32 believed; /* tokens believed cached at its backend: to be compared with what it finds
			 */
	__u32 zero;
	struct kv_query query;
};

enum kv_client_state {
	KV_CLIENT_HOME,	 /* between requests, or never lent */
	KV_CLIENT_AGENT, /* the agent has a request of it in hand: no express lend */
	KV_CLIENT_LENT,
};

/* TCP options both sides of a pair share; a pair with differing options is not lent. */
#define KV_OPT_TIMESTAMPS 1u
#define KV_OPT_SACK 2u
#define KV_OPT_ECN 4u
#define KV_OPT_USEC 8u /* timestamps in microseconds: never lent */

/* kv_pair.seen */
#define KV_SEEN_CLIENT_FIN 1u
#define KV_SEEN_BACKEND_FIN 2u
#define KV_SEEN_RESPONSE 4u  /* first response byte */
#define KV_SEEN_NO_REUSE 8u  /* the upstream must not be pooled again */
#define KV_SEEN_ANSWERED 16u /* the final response's status */
#define KV_SEEN_BEGUN 32u    /* … and of its body: the queue share is given back */

/* kv_pair.note: the agent's, in state AGENT, for the agent that may have to take over. */
enum kv_note {
	KV_NOTE_NONE,	 /* the kernel knows: the response is offered, or a pair has ended */
	KV_NOTE_READING, /* the request is not answered yet, with no byte */
	KV_NOTE_RELAYED, /* not offered: the response may have begun */
};

/* Response bytes ahead of a hole that have been passed on, and are kept until they can be framed:
 * from … to - 1; none if the two are equal. */
struct kv_run {
	__u32 from;
	__u32 to;
};

#define KV_STASH_RUNS 4

/* One lent pair; lives in the client's entry and under its lock. Sequence numbers are the
 * client's wire ones unless the name says otherwise. */
struct kv_pair {
	__u32 slot;
	__u32 gen;	      /* = the slot's while this pair lives */
	__u32 to_backend_seq; /* added to seq from client to backend, taken off ack back */
	__u32 to_backend_ack; /* added to ack from client to backend, taken off seq back */
	__u32 req_start;
	__u32 req_end;
	__u32 req_sent;	 /* highest request byte passed on */
	__u32 req_acked; /* highest request byte acknowledged by the backend */
	__u32 resp_start;
	__u32 resp_next; /* next byte the framing must see */
	__u32 resp_sent; /* highest response byte passed on; seen whole (offered 3): C's home
				 position behind it */
	__u32 resp_acked;
	__u32 client_window; /* bytes that the client takes from resp_acked on */
	__u32 fin_seq;	     /* sequence number of the client's FIN, if seen */
	__u32 head_len;
	__u32 relayed_from;   /* agent lane: home write_seq of C and copied_seq of U … */
	__u32 relayed_copied; /* … before the first response byte */
	__u32 relayed;	      /* response bytes that C was written before the lend, the backend's */
	/* timestamps are regenerated: our clock and that home socket's offset */
	__u32 client_tsoff;
	__u32 backend_tsoff;
	__u32 client_tsval; /* the peer's latest */
	__u32 backend_tsval;
	__u8 client_snd_wscale; /* shift of windows the client announces … */
	__u8 client_rcv_wscale; /* … and of those announced to it */
	__u8 backend_snd_wscale;
	__u8 backend_rcv_wscale;
	__u8 options;	  /* KV_OPT_* */
	__u8 seen;	  /* KV_SEEN_* */
	__u8 offered;	  /* agent lane: 1 slot offered, 2 relay marks taken, 3 seen whole */
	__u8 note;	  /* KV_NOTE_* */
	__u64 backend_ns; /* the backend's last segment, CLOCK_MONOTONIC; the client's: last_ns */
	struct kv_framing response;
	__u32 stash_base; /* position of the stash's first byte */
	__u32 inserted;	  /* agent lane: bytes that C is written besides, before the lend */
	struct kv_run stashed[KV_STASH_RUNS];
};

struct kv_client {
	struct bpf_spin_lock lock;
	__u32 state;
	struct kv_tuple key; /* map memory is reused at once: whoever holds a pointer compares */
	__u32 rx_bypass;
	__u32 tx_bypass;
	__u32 ifindex; /* where its packets come from and go to */
	__u32 path;    /* KV_PATH_* */
	__u32 service;
	__u32 handed; /* wire position up to which bytes were handed to the home socket; 0: none */
	__u32 hold;   /* the agent's request that has it, in state AGENT; 0: none */
	__u32 left;   /* why its request was left to the agent: enum kv_counter + 1; 0: not known */
	__u32 trace;  /* record of the request that was lent last, the number's low half */
	__u64 last_ns;
	struct kv_pair pair;
};

enum kv_event_type {
	KV_EVENT_CLOSE_CLIENT = 1, /* response ended with the connection: close, with FIN */
	KV_EVENT_RESET_CLIENT,	   /* response broken off: close, with RST */
	KV_EVENT_BAD_GATEWAY,	   /* backend failed before its response: answer 502, close */
	KV_EVENT_CLIENT_GONE,	   /* client reset or closed while lent */
	KV_EVENT_CLOSE_UPSTREAM,   /* slot is KV_UP_DONE: close it (with RST), free the slot */
	KV_EVENT_RETURNED_CLOSED,  /* as CLOSE_UPSTREAM, after a good answer: close with FIN */
};

struct kv_event {
	__u32 type;
	__u32 slot;
	__u32 gen;
	__u32 zero;
	struct kv_tuple client;
	__u32 zero2;
};

#endif /* KVSTEER_CONNECTION_H */
