/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The order of a publisher's messages: gaps, replays, restarts. No sockets, no clock of its own.
 *
 * Messages carry a number that begins at 0 in each life of the engine and rises by one. What was
 * missed is asked for again from the publisher's replay socket, which keeps the last few thousand
 * messages; live ones that come meanwhile are held. A replay begins with the last message that was
 * applied, if there is one: if it is not the same message as then, the engine is another one.
 */
#ifndef KVSTEER_EVENTS_SEQUENCE_H
#define KVSTEER_EVENTS_SEQUENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kv_message {
	uint64_t seq;
	uint64_t digest; /* of its payload */
	size_t bytes;
	void *payload; /* the caller's */
};

/* What is to be done; every message that is given in comes out once, by apply or by release. */
struct kv_sequence_ops {
	void (*apply)(void *ctx, struct kv_message *m);
	void (*release)(void *ctx, struct kv_message *m);
	/* Ask the replay socket, by a connection of its own for each: answers name no question. */
	void (*ask)(void *ctx, uint64_t from);
	void (*stop)(void *ctx);      /* the answer is wanted no more */
	void (*restarted)(void *ctx); /* another life of the engine: its cache is empty */
	void (*unsure)(void *ctx);    /* something was missed and cannot be had */
	void (*complete)(void *ctx);  /* all there is from the first message on has been applied */
};

struct kv_sequence_limits {
	bool replay;	   /* there is a replay socket */
	uint64_t first;	   /* number of a life's first message; llm-d's simulator: 1 */
	size_t hold_bytes; /* of live messages, while a replay runs */
	uint32_t hold_count;
	uint64_t idle_ns;    /* a replay is given up when nothing comes for so long … */
	uint64_t total_ns;   /* … or when it has taken so long */
	uint64_t pause_ns;   /* between two replays that brought nothing */
	uint64_t restart_ns; /* restarts that follow each other faster wait for their replay */
};

#define KV_SEQUENCE_LIMITS                                                                         \
	{                                                                                          \
		.replay = true, .hold_bytes = 16u << 20, .hold_count = 4096,                       \
		.idle_ns = 2000000000, .total_ns = 120000000000, .pause_ns = 30000000000,          \
		.restart_ns = 500000000                                                            \
	}

struct kv_sequence_stats {
	uint64_t applied, duplicates, gaps, replays, replays_failed, restarts, held_dropped;
};

enum kv_sequence_state { KV_SEQUENCE_NEW, KV_SEQUENCE_LIVE, KV_SEQUENCE_REPLAY };

struct kv_sequence {
	const struct kv_sequence_ops *ops;
	void *ctx;
	struct kv_sequence_limits limits;
	enum kv_sequence_state state;
	bool any;      /* something of this life has been applied: `last` */
	bool lost;     /* something of it was missed */
	bool dirty;    /* something has been applied, or said to be complete, since then */
	bool empty;    /* its replay had nothing */
	uint64_t last; /* number of the message applied last, and its digest */
	uint64_t digest;
	bool any_live;
	uint64_t live; /* number of the live message that came last */
	bool waiting;  /* the replay has not been asked for yet */
	bool answered; /* the replay has brought a message … */
	bool progress; /* … that was new */
	bool check;    /* it begins with `last`, to be compared */
	uint64_t asked_ns, heard_ns, restarted_ns;
	uint64_t quiet_until; /* no replay before */
	struct kv_message *held;
	uint32_t n_held, held_capacity;
	size_t held_bytes;
	struct kv_sequence_stats stats;
};

void kv_sequence_init(struct kv_sequence *s, const struct kv_sequence_limits *limits,
		      const struct kv_sequence_ops *ops, void *ctx);
void kv_sequence_exit(struct kv_sequence *s);

/* The connection to the publisher stands, the first time or again: events may have been missed,
 * and it may be another engine. */
void kv_sequence_connected(struct kv_sequence *s, uint64_t now);
void kv_sequence_live(struct kv_sequence *s, struct kv_message *m, uint64_t now);
void kv_sequence_replayed(struct kv_sequence *s, struct kv_message *m, uint64_t now);
/* The end marker of a replay. */
void kv_sequence_replay_end(struct kv_sequence *s, uint64_t now);
/* Looks at the clock. When to be called next, UINT64_MAX: need not. */
uint64_t kv_sequence_tick(struct kv_sequence *s, uint64_t now);
/* A message could not be read: as good as missed. */
void kv_sequence_spoiled(struct kv_sequence *s);
/* A message said that the cache is empty: nothing is missed any more. */
void kv_sequence_cleared(struct kv_sequence *s);

#endif
