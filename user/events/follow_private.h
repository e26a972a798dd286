/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef KVSTEER_EVENTS_FOLLOW_PRIVATE_H
#define KVSTEER_EVENTS_FOLLOW_PRIVATE_H

#include <pthread.h>
#include <sys/queue.h>
#include <zmq.h>

#include "common/clock.h"
#include "events/follow.h"
#include "events/frames.h"

enum task_kind { TASK_APPLY, TASK_RESTARTED, TASK_UNSURE, TASK_COMPLETE };

/* What the sequence says is to be done, in order. */
struct task {
	STAILQ_ENTRY(task) link;
	enum task_kind kind;
	zmq_msg_t payload; /* of TASK_APPLY */
};

enum polled_kind { POLLED_EVENT, POLLED_UP, POLLED_DOWN };

/* What somebody has brought of an engine that was asked. */
struct polled {
	STAILQ_ENTRY(polled) link;
	enum polled_kind kind;
	char *endpoint;
	char *text;
	size_t len;
};

STAILQ_HEAD(polled_list, polled);

/* One socket: of one source, or bound and shared. Polled: none, shared by an engine's ranks. */
struct feed {
	LIST_ENTRY(feed) link;
	void *sub;
	char *endpoint;
	bool bind, polled;
	struct polled_list inbox;
	bool waiting; /* there is something in it; changed under the lock */
	TAILQ_HEAD(, source) sources;
};

struct source {
	TAILQ_ENTRY(source) link;
	TAILQ_ENTRY(source) feed_link;
	struct kv_follow *follow;
	char *name, *pod, *replay_endpoint;
	struct feed *feed;
	void *monitor;	  /* of a feed of its own */
	void *replay;	  /* DEALER while a replay runs */
	uint64_t down_ns; /* since when it is not connected, 0: it is */
	int id;		  /* in the index */
	uint32_t rank;
	struct kv_polled about; /* of a polled one */
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

enum command_kind { COMMAND_ADD, COMMAND_REMOVE };

/* What another thread wants done by this one; the strings are its own. */
struct command {
	TAILQ_ENTRY(command) link;
	enum command_kind kind;
	struct kv_follow_source source;
	char *name, *endpoint, *pod, *topic, *replay, *model;
	int error;
};

TAILQ_HEAD(commands, command);

struct kv_follow {
	struct kv_follow_limits limits;
	kv_problem_fn *problem;
	kv_turn_fn *turn;
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
	struct source *asked;	/* whom stats were asked of last; NULL: nobody */
	struct commands commands, failed;
	struct polled_list polled;
	uint64_t bytes, shown_strangers;
	uint32_t entries;
};

/* A line for the log, unless the last of its kind was said a moment ago. source: as in
 * kv_problem_fn. */
void follow_say(struct kv_follow *f, uint64_t *said_ns, const char *source, enum kv_problem what,
		const char *text);

/* follow.c: in the thread */
int source_add(struct kv_follow *f, const struct kv_follow_source *config);
void source_remove(struct kv_follow *f, const char *name);
/* What the sources are at now is what others see. */
void follow_show(struct kv_follow *f);

/* follow_command.c: in the thread; true: there is more */
bool follow_obey(struct kv_follow *f);
/* Under the lock: -EINPROGRESS: it is to be added; -ENOENT: removed; 0: neither. */
int command_pending(const struct kv_follow *f, const char *name);
/* Under the lock: why it could not be added, or -ENOENT. */
int command_failed(const struct kv_follow *f, const char *name);
void command_free(struct command *c);

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
/* NULL: errno says why. queue: messages. */
void *feed_socket(struct kv_follow *f, int type, int queue);
/* s->feed, the socket for that endpoint: sources that share a bound one share it. It is not
 * connected yet. */
int feed_join(struct source *s, const struct kv_follow_source *config);
void feed_leave(struct source *s);
/* Says when the connection stands, and when it ends. */
void *feed_monitor(struct kv_follow *f, void *sub);
/* A bound socket waits for the slowest of those who share it. */
bool feed_busy(struct feed *feed);
/* Hands some messages to their sources. */
void feed_receive(struct kv_follow *f, struct feed *feed);

/* follow_poll.c: in the thread */
void follow_sort_polled(struct kv_follow *f);
void feed_receive_polled(struct kv_follow *f, struct feed *feed, int most, size_t most_bytes);
void polled_drop(struct polled_list *list);

#endif
