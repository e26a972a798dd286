/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef KVSTEER_EVENTS_FOLLOW_PRIVATE_H
#define KVSTEER_EVENTS_FOLLOW_PRIVATE_H

#include <pthread.h>
#include <sys/queue.h>
#include <zmq.h>

#include "events/follow.h"

struct command;

enum task_kind { TASK_APPLY, TASK_RESTARTED, TASK_UNSURE, TASK_COMPLETE };

/* What the sequence says is to be done, in order. */
struct task {
	STAILQ_ENTRY(task) link;
	enum task_kind kind;
	zmq_msg_t payload; /* of TASK_APPLY */
};

/* One socket: of one source, or bound and shared. */
struct feed {
	LIST_ENTRY(feed) link;
	void *sub;
	char *endpoint;
	bool bind;
	int users;
};

struct source {
	TAILQ_ENTRY(source) link;
	struct kv_follow *follow;
	char *name, *pod, *replay_endpoint;
	struct feed *feed;
	void *monitor;	  /* of a feed of its own */
	void *replay;	  /* DEALER while a replay runs */
	uint64_t down_ns; /* since when it is not connected, 0: it is */
	int id;		  /* in the index */
	struct kv_sequence sequence;
	STAILQ_HEAD(, task) tasks;
	struct kv_decode *decode;
	bool decoding, applying;
	struct kv_index_apply apply;
	struct kv_follow_stats stats;
	struct kv_follow_stats shown; /* under the lock */
	uint64_t said_ns[KV_PROBLEMS];
};

TAILQ_HEAD(sources, source);

struct kv_follow {
	struct kv_follow_limits limits;
	kv_problem_fn *problem;
	void *ctx;
	void *zmq;
	struct kv_index *index;
	LIST_HEAD(, feed) feeds; /* the thread's, as is all above; sources: see lock */
	pthread_t thread;
	bool running;
	int wake; /* eventfd */
	bool stop;
	uint64_t strangers, stranger_said_ns;
	struct sources sources; /* changed by the thread, under the lock */
	pthread_mutex_t lock;	/* of what follows, and of what sources show */
	pthread_cond_t obeyed;
	struct command *command;
	uint64_t bytes, shown_strangers;
	uint32_t entries;
};

/* What another thread wants done by this one. */
struct command {
	const struct kv_follow_source *add;
	const char *remove;
	bool done;
	int result;
};

uint64_t follow_now(void);

/* follow_source.c: in the thread */
extern const struct kv_sequence_ops source_ops;
void source_say(struct source *s, enum kv_problem what, const char *text);
/* A message of the feed for this source: number and payload, which is taken. */
void source_live(struct source *s, uint64_t seq, zmq_msg_t *payload);
/* Receives some of its replay. */
void source_replay(struct source *s);
void source_monitor(struct source *s);
/* Connects anew, when it has not been connected for some time. */
void source_reconnect(struct source *s, uint64_t now);
/* A share of its work; false: nothing left. */
bool source_work(struct source *s);
void source_drop_work(struct source *s);
void source_show(struct source *s);

/* follow_feed.c: in the thread */
int feed_set(void *socket, int option, int value);
/* The socket for that endpoint: sources that share a bound one share it. It is not connected yet.
 */
int feed_get(struct kv_follow *f, const struct kv_follow_source *config, struct feed **ret);
void feed_put(struct feed *feed);
/* Says when the connection stands, and when it ends. */
void *feed_monitor(struct kv_follow *f, void *sub);
/* A bound socket waits for the slowest of those who share it. */
bool feed_busy(struct kv_follow *f, struct feed *feed);
/* Hands some messages to their sources. */
void feed_receive(struct kv_follow *f, struct feed *feed);

/* follow_frames.c */
#define FRAMES_MAX 4
struct frames {
	zmq_msg_t part[FRAMES_MAX];
	int n;
	bool more; /* there were more than that */
};
/* 1: a message, 0: none there, or -errno. */
int frames_receive(void *socket, struct frames *f);
void frames_close(struct frames *f);
/* Last but one: the number, big-endian, last: the payload. */
bool frames_seq(struct frames *f, uint64_t *ret);

#endif
