/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the kernel programs, the agent and the CLI share: the layout of the pinned maps.
 *
 * A change of any layout here is a new KV_SCHEMA: the pin directory carries the number, and
 * a reader that meets another one refuses.
 *
 * Words: docs/design.md, section 1. All addresses are IPv6, IPv4 ones mapped (::ffff:a.b.c.d).
 */
#ifndef KVSTEER_SHARED_H
#define KVSTEER_SHARED_H

#include "types.h"
#include "framing.h"
#include "trace.h"

#define KV_SCHEMA 7
#define KV_MAGIC 0x6b767374 /* "kvst" */

#define KV_MAX_SERVICES 16
#define KV_MAX_BACKENDS 256   /* per instance; ids 0 … 255 */
#define KV_MAX_UPSTREAMS 1024 /* per backend, bound of the pool bitmap */
#define KV_POOL_WORDS (KV_MAX_UPSTREAMS / 64)
#define KV_MAX_RUNGS 32
#define KV_HOLDERS 8
#define KV_NAME_LEN 64

#define KV_NONE 0xffffffffu /* no backend, no slot */

/* One TCP connection as this host sees it: also the key of the flow maps. */
struct kv_tuple {
	__u32 local[4]; /* network byte order */
	__u32 peer[4];
	__u16 local_port; /* network byte order */
	__u16 peer_port;
};
_Static_assert(sizeof(struct kv_tuple) == 36, "kv_tuple is a map key: no padding");

/* ---- prompts ------------------------------------------------------------------------- */

struct kv_rung {
	__u64 hash;  /* chain hash of the prompt up to depth */
	__u32 depth; /* tokens */
	__u32 zero;
};

/* What a request says about its prompt: from the KV-Prefix header (express lane) or from
 * the agent, which hashed the body. Rungs by rising depth. */
struct kv_query {
	__u32 service;
	__u32 total;	/* prompt length in tokens, 0 = not known */
	__u64 session;	/* hash of the session key, 0 = none */
	__u64 body_len; /* bytes, for requests whose token count is not known */
	__u32 n_rungs;
	__u32 exclude; /* backend not to choose (it has just failed), KV_NONE = none */
	struct kv_rung rungs[KV_MAX_RUNGS];
};

/* How it was decided. */
struct kv_choice {
	__u32 backend;	/* KV_NONE: no backend takes requests */
	__u32 matched;	/* tokens believed cached there */
	__u32 best;	/* tokens of the longest match anywhere */
	__u32 own;	/* tokens of prefill this request costs there */
	__u32 wait;	/* tokens queued there before it */
	__u32 price;	/* p of the price policy, in 1/1024 */
	__u32 intended; /* backend to be learned as home: the choice, unless diverted */
	__u32 zero;
};

/* A holder is one word, so that it changes in one atomic step:
 * clock (40 bits) | epoch (12) | tier (2) | backend (8) | flags (2). 0 = empty. */
#define KV_HOLDER_TENTATIVE 1ull /* the request that taught it has not been answered yet */
#define KV_HOLDER_TOLD 2ull	 /* from the engine's own events, not learned at dispatch */
#define KV_HOLDER_TIER(tier) ((__u64)(tier) << 10) /* flag: where it is, if it was told */
#define KV_HOLDER_TIER_MASK KV_HOLDER_TIER(KV_TIER_COUNT - 1)

/* Tiers as engines name them: GPU, CPU, disk, external. */
#define KV_TIER_COUNT 4
#define KV_TIER_WHOLE 256 /* weight of what is as good as in the GPU */

KV_INLINE __u64 kv_holder_make(__u32 backend, __u32 epoch, __u64 clock, __u64 flags)
{
	return clock << 24 | (__u64)(epoch & 0xfff) << 12 | (__u64)(backend & 0xff) << 2 | flags;
}

KV_INLINE __u32 kv_holder_backend(__u64 h)
{
	return h >> 2 & 0xff;
}

KV_INLINE __u32 kv_holder_tier(__u64 h)
{
	return h >> 10 & (KV_TIER_COUNT - 1);
}

KV_INLINE __u32 kv_holder_epoch(__u64 h)
{
	return h >> 12 & 0xfff;
}

KV_INLINE __u64 kv_holder_clock(__u64 h)
{
	return h >> 24;
}

/* Each word is bound to the entry's prefix (prefixes.h). */
struct kv_prefix {
	__u64 holder[KV_HOLDERS];
};

#define KV_WAYS 8

/* Hashes, ages, and each entry lie in a cache line of their own. */
struct kv_prefix_set {
	__u64 hash[KV_WAYS];	/* 0: free */
	__u32 touched[KV_WAYS]; /* when a holder was last entered, in ticks */
	__u32 busy;		/* a CPU is entering a prefix */
	__u32 zero[7];
	struct kv_prefix entry[KV_WAYS];
};
_Static_assert(sizeof(struct kv_prefix_set) == 64 * (KV_WAYS + 2), "whole cache lines");

struct kv_session {
	__u64 holder;
	__u64 body_len; /* bytes of its last request's body */
	__u32 total;	/* tokens of its last request's prompt, 0 = not known */
	__u32 zero;
};

/* ---- services and backends ----------------------------------------------------------- */

struct kv_listen {
	__u32 addr[4]; /* all zero: any address of that port */
	__u16 port;    /* network byte order */
	__u16 zero;
};

enum kv_policy {
	KV_POLICY_PRICE,
	KV_POLICY_STICKY,
	KV_POLICY_TTFT,
	KV_POLICY_P2C,
	KV_POLICY_LEAST,
	KV_POLICY_HASH,
	KV_POLICY_ROUND_ROBIN,
	KV_POLICY_MAX,
};

#define KV_SERVICE_UP 1u
#define KV_SERVICE_DRAINING 2u /* no new lends: every request goes to the agent */
#define KV_SERVICE_MODELS 4u   /* its engines' models differ: who serves which, the agent knows */

#define KV_MODEL_LEN 256
#define KV_ENDPOINT_LEN 96

/* How its engines' KV events are followed. The kernel reads the weights only; the rest is the
 * agent's, and here so that the next one has it. */
struct kv_service_events {
	__u16 on;
	__u16 lora_is_field; /* requests name a LoRA by a field of its own, not as their model */
	__u16 port;	     /* each engine publishes there, at its own address; 0: see bind */
	__u16 replay_port;   /* 0: no replay */
	__u32 ranks;	     /* data-parallel ones, each on the next port */
	__u32 first;	     /* number of an engine's first message */
	__u32 block;	     /* tokens; 0: the engine's own */
	__u16 weight[KV_TIER_COUNT]; /* of KV_TIER_WHOLE: what is told to be there counts so much */
	char model[KV_MODEL_LEN];    /* as requests name it; empty: asked of the engine */
	char bind[KV_ENDPOINT_LEN];  /* engines connect to it; with poll: their path of events */
	char topic[KV_ENDPOINT_LEN]; /* prefix of the topics that are theirs */
	__u16 poll;		     /* they are asked for them by HTTP */
	__u16 zero;
};

#define KV_DNS_NAME_LEN 256
#define KV_DNS_SERVERS_LEN 232
#define KV_DNS_WHY_LEN 96

/* Which DNS name stands for engines of a service; for agents, as above. */
struct kv_service_discover {
	char name[KV_DNS_NAME_LEN];	  /* empty: none */
	char servers[KV_DNS_SERVERS_LEN]; /* "ADDRESS:PORT,…"; empty: those of resolv.conf */
	__u64 capacity;			  /* of each, as kv_backend.capacity_set */
	__u64 rate;
	__u32 min_ttl_ms;
	__u32 max_ttl_ms;
	__u16 port; /* of A and AAAA, host byte order; 0: SRV */
	__u16 zero[3];
};

/* … and what came of it. */
struct kv_service_found {
	__u64 answered_at; /* ns; 0: not answered yet */
	__u64 rounds;
	__u64 failures;	   /* rounds that failed, or had no address in their answers */
	__u32 failing;	   /* such rounds, one after the other: the last one included */
	__u32 engines;	   /* that the last good answers named, and are kept */
	__u32 passed_over; /* of them, not served: no room, or not possible */
	__u32 zero;
	char why[KV_DNS_WHY_LEN]; /* of the last failure */
};

struct kv_service {
	char name[KV_NAME_LEN];
	__u32 flags;
	__u32 policy;
	__u32 n_backends;
	__u32 floor; /* tokens: a shorter match does not count */
	__u64 body_limit;
	__u32 turn; /* round-robin position */
	__u32 n_listen;
	struct kv_listen listen[8];
	/* fleet utilisation: uncached tokens dispatched, decaying with 30 s (steer.h) */
	__u64 used_tokens;
	__u64 used_at; /* ns */
	__u16 backends[KV_MAX_BACKENDS];
	struct kv_service_events events;
	struct kv_service_discover discover;
	struct kv_service_found found;
};

/* Who has named a backend. */
enum kv_origin {
	KV_ORIGIN_CONFIG,
	KV_ORIGIN_HAND, /* kvsteer backend add */
	KV_ORIGIN_DNS,	/* the service's name */
};

enum kv_backend_state {
	KV_BACKEND_FREE, /* the id is not in use */
	KV_BACKEND_UP,
	KV_BACKEND_DOWN,     /* cannot be reached: tried again by the agent */
	KV_BACKEND_DRAINING, /* finishes what it has, gets no new request */
};

/* How the agent judges it. */
enum kv_health {
	KV_HEALTH_NONE, /* it does not */
	KV_HEALTH_NEW,
	KV_HEALTH_UP,
	KV_HEALTH_DOWN,
	KV_HEALTH_EJECTED, /* DOWN because too many of its answers have failed */
	KV_HEALTH_TRIAL,   /* UP with a few requests: they will tell */
};

/* What is known of an engine's cache from its own events. */
enum kv_told {
	KV_TOLD_OFF,	  /* it is not followed: all is learned */
	KV_TOLD_UNSURE,	  /* not heard, or events were missed: what was told counts as learned */
	KV_TOLD_FOLLOWED, /* from some moment on */
	KV_TOLD_COMPLETE, /* all of it */
};

#define KV_WEIGHT_FULL 1024
#define KV_PATH_LOCAL 1u /* an engine of this host: by way of lo */

struct kv_backend {
	char name[KV_NAME_LEN];
	__u32 addr[4];
	__u16 port;    /* network byte order */
	__u16 path;    /* KV_PATH_* */
	__u32 ifindex; /* interface towards it */
	__u32 state;
	__u32 service;
	__u32 epoch;	    /* raised whenever its cache is lost */
	__u32 head_tokens;  /* largest request queued since the queue was empty (steer.h) */
	__u64 clock;	    /* tokens that have entered the front of its cache */
	__u64 capacity;	    /* tokens of its cache */
	__u64 rate;	    /* prefill tokens per second */
	__u64 capacity_set; /* as configured, for agents; 0: it is as the engine says */
	__u64 rate_set;	    /* likewise; 0: it is learned */
	/* load: exact, tied to the flows' life */
	__u64 inflight_tokens; /* uncached prompt tokens dispatched and not yet answered */
	__u64 inflight_requests;
	__u64 head_ns; /* when the prefill at the head of the queue began, as far as can be seen */
	/* What the rate is learned from: of streamed answers, tokens that were computed for them,
	 * and the time since the answer before, or since they were dispatched; sums, only rising.
	 */
	__u64 prefill_tokens;
	__u64 prefill_ns;
	__u64 prefill_at; /* the last one's first token */
	/* requests there that are not ours, by the engine's own report, and their prompts' share of
	 * its queue */
	__u64 foreign_requests;
	__u64 foreign_tokens;
	__u32 limit;  /* requests at a time, 0: none */
	__u32 weight; /* gets so many of 1024 of the requests that it would get; 0: all */
	/* sums, only rising */
	__u64 requests;
	__u64 prompt_tokens;
	__u64 matched_tokens;
	__u64 failures;
	/* engines' events (tell.h) */
	__u64 told_from;   /* what was told before the clock stood there counts as learned */
	__u64 told_held;   /* blocks that it says it holds */
	__u32 told;	   /* enum kv_told */
	__u32 told_block;  /* tokens per block; 0: not known */
	__u16 events_port; /* in place of the service's; 0: that one */
	__u16 replay_port;
	__u16 origin; /* enum kv_origin */
	__u16 health; /* enum kv_health: for whoever wants to see why it is UP or DOWN */
	/* final responses whose beginning the kernel has passed on: all, 5xx that tell of a fault,
	 * 429 and 503 */
	__u64 answers;
	__u64 errors;
	__u64 busy;
	/* one bit per idle upstream; claimed by an atomic and-not */
	__u64 idle[KV_POOL_WORDS];
};

/* ---- connections --------------------------------------------------------------------- */

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
	__u64 trace; /* number of its record, 0: none */
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
	__u32 resp_sent; /* highest response byte passed on */
	__u32 resp_acked;
	__u32 client_window; /* bytes that the client takes from resp_acked on */
	__u32 fin_seq;	     /* sequence number of the client's FIN, if seen */
	__u32 head_len;
	__u32 relayed_from;   /* agent lane: home write_seq of C and copied_seq of U … */
	__u32 relayed_copied; /* … before the first response byte */
	__u32 relayed;	      /* response bytes that C was written before the lend */
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
	__u8 offered;	  /* agent lane: 1 slot offered, 2 relay marks taken */
	__u8 note;	  /* KV_NOTE_* */
	__u64 backend_ns; /* the backend's last segment, CLOCK_MONOTONIC; the client's: last_ns */
	struct kv_framing response;
	__u32 stash_base; /* position of the stash's first byte */
	__u32 zero;
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

/* ---- kernel to agent ----------------------------------------------------------------- */

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

/* ---- agent to kernel ----------------------------------------------------------------- */

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
	__u8 zero[5];
	__u64 now_ns; /* BUSY */
	/* BUSY, out: kv_client.left and .trace */
	__u32 left;
	__u32 trace;
	/* END, out: the pair that is over, and the state that its client has now */
	__u32 state;
	__u32 zero2;
	struct kv_pair pair;
};

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

/* ---- recordings ---------------------------------------------------------------------- */

/* The one value of map kv_recording: the lease of kvsteer record, which renews it, so that one that
 * was killed costs nothing for long. What it hears with is in map kv_recorders: a ring buffer of
 * dispatches, each cut behind its last rung. One without its charge has been taken back. */
struct kv_recording {
	__u64 until_ns; /* dispatches before that are handed over; 0: nobody records */
	__u64 lost;	/* dispatches that found no room; only rises */
	__u32 service;	/* of this one only; KV_NONE: all */
	__u32 owner;	/* process, 0: none */
};

struct kv_meta {
	__u32 magic;
	__u32 schema;
	__u32 upstreams_per_backend;
	__u32 max_backends;
	__u32 max_clients;
	__u32 max_prefixes;
	__u32 max_sessions;
	__u32 agent_pid;
	__u64 started_ns;   /* CLOCK_MONOTONIC */
	__u64 heartbeat_ns; /* the agent lives while this moves (1 s) */
	__u64 prefix_key;   /* secret: which set of kv_prefixes a hash is in */
	char version[32];
};

#endif /* KVSTEER_SHARED_H */
