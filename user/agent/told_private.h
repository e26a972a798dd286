/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of told.h. */
#ifndef AGENT_TOLD_PRIVATE_H
#define AGENT_TOLD_PRIVATE_H

#include <pthread.h>

#include "agent/told.h"
#include "engines/fetch.h"
#include "engines/fetch_text.h"
#include "events/follow.h"
#include "events/tie.h"

#define TOLD_SOURCE_LEN (KV_NAME_LEN + 16) /* of a source's name: BACKEND/RANK */
#define TOLD_ENDPOINT_LEN (KV_ENDPOINT_LEN + KV_ADDR_TEXT + 8)

struct told_poll;

/* How a backend's engine is followed. */
struct told_way {
	struct kv_service_events events;
	__u16 port, replay_port;
	struct kv_addr address; /* of the engine */
};

/* Of the loop. */
struct told_backend {
	char name[KV_NAME_LEN];
	struct told_way way;
	bool on;	    /* it has sources, one per rank */
	bool lost;	    /* not connected for some time: what it told counts as learned */
	__u64 retry_ns;	    /* not before */
	__u64 connected_ns; /* when all its sources were last seen connected */
	__u32 epoch;	    /* the backend's, as seen last … */
	__u64 epoch_ns;	    /* … since when */
	struct kv_follow_stats *counted; /* by rank: what is in the counters already */
	struct told_poll *poll;
	/* told_model.c */
	struct fetch *fetch;
	struct fetch_text answer;
	char model[KV_MODEL_LEN]; /* empty: not known */
};

/* Of one prompt's rungs. */
struct told_ties {
	struct told_ties *next;
	__u32 n;
	struct kv_tie tie[KV_MAX_RUNGS];
};

/* Of the follower's thread, but for what is under the mutex. */
struct told_sink {
	struct kv_backend *backends; /* the map's */
	__u32 max_backends;
	struct kv_telling *telling; /* the map's one value: blocks on their way */
	size_t telling_bytes;
	int program_fd;
	bool known[KV_MAX_BACKENDS]; /* `epoch` is set */
	__u32 epoch[KV_MAX_BACKENDS];
	pthread_mutex_t mutex;
	bool retell[KV_MAX_BACKENDS]; /* asked for by the loop */
	bool any_retell;
	struct told_ties *inbox;
	struct kv_ties *ties; /* the thread's again */
};

struct told {
	struct agent *agent;
	struct kv_follow *follow; /* NULL: no service wants it */
	struct kv_timer second;
	struct told_sink sink;
	struct tokenizer *tokenizer;
	__u64 strangers;
	struct told_backend backends[KV_MAX_BACKENDS];
};

/* told_sink.c */
extern const struct kv_index_sink told_sink_ops;
/* tie_bytes: of memory for ties. */
int told_sink_open(struct told_sink *s, struct dataplane *dp, size_t tie_bytes);
void told_sink_close(struct told_sink *s);
void told_sink_turn(void *sink, struct kv_index *ix);
/* From another thread: what that backend holds is to be told anew. */
void told_sink_retell(struct told_sink *s, __u32 backend);
/* From another thread: takes them over. */
void told_sink_tie(struct told_sink *s, struct told_ties *ties);
/* What has been told until now counts as learned. */
void told_sink_void(struct kv_backend *backend);

/* told_sources.c. The follower is started when the first engine is to be followed. */
int told_follower_start(struct told *t);
/* Whatever of it there is. */
void told_follower_stop(struct told *t);
void told_source_name(const struct told_backend *b, __u32 rank, char name[TOLD_SOURCE_LEN]);
int told_source_add(struct told *t, __u32 id, __u32 rank, const char *model);
/* The first `ranks` of them, and what they have counted. */
void told_sources_remove(struct told *t, struct told_backend *b, __u32 ranks);
/* Of an engine that is asked, once its sources are there. */
int told_poll_begin(struct told *t, struct told_backend *b);

/* told_poll.c: asks that backend's engine for its events, at that endpoint of the follower. */
int told_poll_start(struct told *t, struct told_backend *b, const char *endpoint);
void told_poll_stop(struct told_backend *b);

/* told_model.c: NULL as long as it is not known; then it is being asked for. */
const char *told_model(struct told *t, __u32 id);
void told_model_forget(struct told_backend *b);

#endif
