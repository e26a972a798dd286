/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Follows the KV events of engines over ZeroMQ, in a thread of its own; those of engines that have
 * to be asked for them are brought to it.
 *
 * Every source gets its turn of a bounded amount of work; from one that has work left nothing more
 * is received, so its publisher waits or drops, and nobody else does. The sink is called in the
 * thread, without locks held.
 */
#ifndef KVSTEER_EVENTS_FOLLOW_H
#define KVSTEER_EVENTS_FOLLOW_H

#include "events/index.h"
#include "events/sequence.h"

struct kv_follow_limits {
	struct kv_index_limits index;
	struct kv_sequence_limits sequence; /* replay and first are the source's */
	size_t message_bytes;		    /* a longer one ends its connection */
	int queue;			    /* messages in libzmq, per source */
	int replay_queue;
	uint64_t reconnect_ns; /* libzmq's own attempts end with an error of the protocol */
	uint64_t problem_ns;   /* between two reports of one kind for one source */
};

#define KV_FOLLOW_LIMITS                                                                           \
	{                                                                                          \
		.index = KV_INDEX_LIMITS, .sequence = KV_SEQUENCE_LIMITS,                          \
		.message_bytes = 2u << 20, .queue = 32, .replay_queue = 256,                       \
		.reconnect_ns = 3000000000, .problem_ns = 10000000000                              \
	}

/* Strings are copied. */
struct kv_follow_source {
	const char *name;     /* unique */
	const char *endpoint; /* tcp://host:port, or of an address of this host */
	bool bind;	      /* engines connect to it; several sources may share it */
	bool polled;	      /* any name: kv_follow_polled brings its events, of all its ranks */
	const char *pod; /* with bind: who it is, the topic's middle (kv@POD@MODEL) or the topic */
	const char *topic;  /* prefix subscribed to; NULL: all */
	const char *replay; /* the publisher's replay socket, or NULL */
	uint64_t first;	    /* number of the first message */
	struct kv_index_engine engine;
};

enum kv_problem {
	KV_PROBLEM_FRAMES,   /* not three frames, a number that is not 8 bytes, no payload */
	KV_PROBLEM_PAYLOAD,  /* not a batch of events */
	KV_PROBLEM_GAP,	     /* events were missed and cannot be had */
	KV_PROBLEM_PEER,     /* no ZeroMQ publisher answers there, or it sends too much at once */
	KV_PROBLEM_STRANGER, /* a topic of no source */
	KV_PROBLEMS,
};

/* For log lines: at most one of each kind per source in problem_ns. source: NULL for strangers. */
typedef void kv_problem_fn(void *ctx, const char *source, enum kv_problem what, const char *text);

struct kv_follow_stats {
	struct kv_index_stats index;
	struct kv_sequence_stats sequence;
	uint64_t messages, bytes;
	uint64_t bad_frames, bad_payloads;
	uint64_t unknown_events, unknown_fields, malformed_events;
	uint64_t connects, disconnects;
	uint64_t last_ns; /* of the last message, CLOCK_MONOTONIC; 0: none */
	uint32_t held, block;
	bool replaying;
	bool connected; /* where we connect: to a publisher; polled: it answers */
	bool complete;
};

struct kv_follow;

/* In the thread, at the end of each of its turns: at least every 100 ms, at once after
 * kv_follow_wake. */
typedef void kv_turn_fn(void *ctx, struct kv_index *ix);

/* The thread runs from here on. */
struct kv_follow *kv_follow_new(const struct kv_follow_limits *limits,
				const struct kv_index_sink *sink, kv_problem_fn *problem,
				void *ctx);
void kv_follow_free(struct kv_follow *f);
/* Before any source is added. */
void kv_follow_on_turn(struct kv_follow *f, kv_turn_fn *turn);
void kv_follow_wake(struct kv_follow *f);

/* Both are for the thread to do, in this order; nobody waits for it. 0 or -ENOMEM; what came of an
 * add, kv_follow_stats() says. */
int kv_follow_add(struct kv_follow *f, const struct kv_follow_source *source);
/* The sink hears unsure for it, later. */
int kv_follow_remove(struct kv_follow *f, const char *name);

/* One event of TensorRT-LLM's, as it answers with them; malloc'ed, and taken over in any case.
 * 0 or -ENOMEM: a gap. */
int kv_follow_polled(struct kv_follow *f, const char *endpoint, char *text, size_t len);
/* It has answered, or does no more. */
int kv_follow_answers(struct kv_follow *f, const char *endpoint, bool it_does);
/* Some of what was brought has not been looked at: to be asked for no more until then. */
bool kv_follow_behind(struct kv_follow *f, const char *endpoint);

/* As of at most 200 ms ago. -ENOENT, or -EINPROGRESS: about to be added; or, until it is removed,
 * why it could not be: -EEXIST, -EINVAL (an endpoint that is none), -EADDRINUSE, -ENOSPC, … */
int kv_follow_stats(struct kv_follow *f, const char *name, struct kv_follow_stats *ret);
/* Bytes in use, and strangers' messages. */
void kv_follow_totals(struct kv_follow *f, uint64_t *ret_bytes, uint32_t *ret_entries,
		      uint64_t *ret_strangers);

#endif
