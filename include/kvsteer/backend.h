/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Services and backends. Included by shared.h. */
#ifndef KVSTEER_BACKEND_H
#define KVSTEER_BACKEND_H

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

/* Whether what backends are believed to hold counts. */
enum kv_affinity {
	KV_AFFINITY_AUTO, /* by the share that has been found of it: kv_backend.discount */
	KV_AFFINITY_FULL,
	KV_AFFINITY_OFF,
	KV_AFFINITY_MAX,
};

#define KV_SERVICE_UP 1u
#define KV_SERVICE_DRAINING 2u /* no new lends: every request goes to the agent */
#define KV_SERVICE_MODELS 4u   /* its engines' models differ: who serves which, the agent knows */
#define KV_SERVICE_HEADER 8u   /* the agent names backend and match in the answers that it relays */

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
	__u32 affinity; /* enum kv_affinity */
	__u32 zero;
	struct kv_listen listen[8];
	/* fleet utilisation: uncached tokens and requests (in 1/1024) dispatched, decaying with
	 * 30 s (load.h) */
	__u64 used_tokens;
	__u64 used_requests;
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
	/* Of the last tokens that were predicted to be in its cache, and were looked for, so many
	 * were there: the agent's figures, 0 and 0 if nothing has been measured. */
	__u64 worth_predicted;
	__u64 worth_found;
	__u32 discount; /* percent: so much of what it is believed to hold does not count */
	__u32 zero;
	__u32 limit;  /* requests at a time, 0: none */
	__u32 weight; /* gets so many of 1024 of the requests that it would get; 0: all */
	/* sums, only rising */
	__u64 requests;
	__u64 prompt_tokens;
	__u64 matched_tokens;	/* counted on to be cached, at dispatch */
	__u64 predicted_tokens; /* believed to be cached, whether that counted or not, of answered
				 * requests */
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

#define KV_DISCOUNT_ALL 100 /* percent */

/* How much of what it is believed to hold does not count? affinity: its service's. */
KV_INLINE __u32 kv_affinity_discount(__u32 affinity, const struct kv_backend *b)
{
	__u32 discount = kv_read_once(b->discount);

	if (affinity == KV_AFFINITY_AUTO)
		return discount < KV_DISCOUNT_ALL ? discount : KV_DISCOUNT_ALL;
	return affinity == KV_AFFINITY_FULL ? 0 : KV_DISCOUNT_ALL;
}

/* … and how many of so many tokens do? */
KV_INLINE __u32 kv_discounted(__u32 tokens, __u32 discount)
{
	if (!discount) /* mostly; and divisions are slow */
		return tokens;
	return (__u64)tokens * (KV_DISCOUNT_ALL - discount) / KV_DISCOUNT_ALL;
}

#endif /* KVSTEER_BACKEND_H */
