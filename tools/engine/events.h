// SPDX-License-Identifier: BSD-2-Clause
/* The engine's KV events: what its cache takes in and gives up, over ZeroMQ, as engines do it. */
#ifndef ENGINE_EVENTS_H
#define ENGINE_EVENTS_H

#include <msgpack.h>
#include <stdbool.h>
#include <stdint.h>

struct engine;
struct conn;
struct answer;
struct buf;

enum events_form {
	EVENTS_MAP,    /* vLLM from 0.24 on */
	EVENTS_ARRAY,  /* vLLM up to 0.23 */
	EVENTS_SGLANG, /* arrays, signed hashes, metadata as a map */
	EVENTS_TRTLLM, /* Dynamo's relay: maps, signed hashes, no medium */
	EVENTS_SIM,    /* llm-d-inference-sim: short arrays, parent 0, numbers from 1 */
	EVENTS_POLLED, /* trtllm-serve: JSON, for who asks; nothing is published */
};

struct events_config {
	char endpoint[128], replay[128], topic[128];
	enum events_form form;
	bool old_replay; /* without the topic */
	bool bytes;	 /* hashes as 32 bytes */
	uint32_t keep;	 /* batches for replays */
	uint32_t rank;
	uint64_t first;
};

/* What one prefill has changed. Blocks in order; fresh: those that are new. */
struct events_change {
	const uint64_t *hashes;
	const uint32_t *tokens;
	const bool *fresh;
	uint32_t n, block_size;
	const char *lora, *salt; /* NULL: none */
};

/* NAME=JSON: endpoint, replay_endpoint, topic, form (map, array, sglang, trtllm, sim, polled),
 * replay (old, new), hashes (int, bytes), buffer_steps, dp_rank. 0 or -1 with what is wrong. */
int events_config(const char *json, size_t n, struct events_config *ret, const char **ret_why);
int events_start(struct engine *e, const struct events_config *config, const char **ret_why);

/* Only when events are on: e->events. */
void events_stored(struct engine *e, const struct events_change *change);
void events_cleared(struct engine *e);

/* GET and POST /events[?engine=NAME]: counts, and faults. */
void events_request(struct conn *c, struct engine *e);

/* POST /kv_cache_events of form polled */
void events_polled(struct conn *c);

/* events_pack.c */
struct events_batch {
	const uint64_t *removed;
	uint32_t n_removed;
	const struct events_change *stored; /* NULL: none */
	bool cleared;
};
void events_pack(msgpack_sbuffer *out, const struct events_config *config,
		 const struct events_batch *batch);
/* The run of new blocks at or behind *at. */
bool events_next_run(const struct events_change *c, uint32_t *at, uint32_t *ret_n);

/* events_json.c: what form polled has in its queue */
struct events_queue;
/* most: events; older ones are lost. */
struct events_queue *events_queue_new(uint32_t most, uint32_t rank);
/* Begins with nothing but word of the cache. */
void events_queue_restart(struct events_queue *q, uint32_t blocks);
/* lost: they get their numbers and are gone. How many there were. */
uint32_t events_queue_add(struct events_queue *q, const struct events_batch *batch, bool lost);
uint64_t events_queue_next(const struct events_queue *q);
void events_queue_forget(struct events_queue *q);
/* All of it, as an answer; it is empty then. */
void events_queue_take(struct events_queue *q, struct buf *ret);

#endif
