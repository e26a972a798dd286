/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What engines hold, as their own events tell it.
 *
 * An engine here is one cache: a backend's data-parallel rank. Its events name blocks by hashes of
 * its own, which mean nothing elsewhere; the token ids in them give our chain hash (lib/hash.h),
 * the key that requests are looked up by. An entry ties the two together and counts references per
 * tier: an engine may hold copies of a block and announces each.
 *
 * Nothing here knows of sockets or sequence numbers; work is done in bounded steps, so that many
 * engines can take turns. Not thread-safe.
 */
#ifndef KVSTEER_EVENTS_INDEX_H
#define KVSTEER_EVENTS_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "events/decode.h"

/* Who is told. A backend of several ranks holds a key while any of them does. `wholesale`: all that
 * was told of the backend is void at once, no `gone` follows; else the rank's keys go one by one.
 * Those of a rank that was on its way out before may still go one by one: a `gone` of what is not
 * held is to be ignored. */
struct kv_index_sink {
	/* Holds the prefix that ends here; again when its weight changes. depth: tokens. */
	void (*told)(void *ctx, uint64_t key, uint32_t depth, uint32_t backend, uint32_t weight);
	void (*gone)(void *ctx, uint64_t key, uint32_t backend);
	/* Its cache is empty. */
	void (*cleared)(void *ctx, uint32_t backend, uint32_t rank, bool wholesale);
	/* What was told may be wrong by now; its cache is not empty. */
	void (*unsure)(void *ctx, uint32_t backend, uint32_t rank, bool wholesale);
	/* Whether what is not told is not there. Begins as false. */
	void (*complete)(void *ctx, uint32_t backend, uint32_t rank, bool complete);
};

struct kv_index_limits {
	uint64_t max_bytes;	    /* over all, orphans included */
	uint64_t max_orphan_bytes;  /* of that, for stores whose parent has not come */
	uint32_t weights[KV_TIERS]; /* 0: that tier is not told */
};

#define KV_INDEX_LIMITS                                                                            \
	{                                                                                          \
		.max_bytes = 1ull << 30, .max_orphan_bytes = 32u << 20,                            \
		.weights = {                                                                       \
			255,                                                                       \
			128,                                                                       \
			32,                                                                        \
			0,                                                                         \
		},                                                                                 \
	}

struct kv_index_stats {
	uint64_t blocks_stored, blocks_removed, clears;
	uint64_t ignored_groups;  /* events of caches that are not full attention */
	uint64_t ignored_unknown; /* blocks removed, or moved to another tier, that are not known */
	uint64_t malformed;	  /* stores whose tokens do not fill their blocks */
	uint64_t unfit;		  /* blocks of a size that does not go with ours */
	uint64_t orphans, adopted; /* blocks whose parent was not known; of those, it came */
	uint64_t orphans_dropped;
	uint64_t refused, evicted; /* blocks, for the cap */
	uint64_t lora_unnamed;	   /* prompts whose LoRA has but a number: no request finds them */
};

struct kv_index;

struct kv_index *kv_index_new(const struct kv_index_limits *limits,
			      const struct kv_index_sink *sink, void *ctx);
void kv_index_free(struct kv_index *ix);

struct kv_index_engine {
	uint32_t backend, rank;
	const char *model;  /* of the keys' seed; NULL: none */
	bool lora_is_model; /* requests name a LoRA as their model (vLLM) */
	uint32_t block;	    /* tokens per key; 0: the engine's own, or 16 if that is 1 or 2 */
};

/* An id, or -ENOSPC (KV_INDEX_ENGINES are there), -EEXIST, -ENOMEM. */
#define KV_INDEX_ENGINES 4096
int kv_index_add(struct kv_index *ix, const struct kv_index_engine *engine);
/* Forgets it: unsure, wholesale or one by one. */
void kv_index_remove(struct kv_index *ix, int id);

/* Its cache is empty, or unknown; both begin a new one, not complete. */
void kv_index_clear(struct kv_index *ix, int id);
void kv_index_unsure(struct kv_index *ix, int id);
/* All its events from an empty cache on have been applied. */
void kv_index_complete(struct kv_index *ix, int id);

/* Keys of at most so many tokens can be put together from pages of 1 or 2. */
#define KV_TAIL_MAX 64

/* A batch under way. */
struct kv_index_run {
	const uint64_t *hashes;
	const uint32_t *tokens;
	const struct kv_extra *extras;
	uint32_t n, at, n_extras, extra;
	uint32_t size;	/* tokens per block of the engine */
	uint32_t depth; /* before block `at` */
	uint64_t prev;	/* our chain there */
	uint64_t seed;
	uint64_t page;			    /* the engine's hash of the block before */
	uint32_t tail[KV_TAIL_MAX], n_tail; /* tokens since our last key */
	uint8_t tier;
	bool whole; /* removed from all tiers */
};

struct kv_index_apply {
	int id;
	const struct kv_batch *batch;
	size_t event;
	uint8_t doing;
	struct kv_index_run run;
};

void kv_index_begin(struct kv_index_apply *a, int id, const struct kv_batch *batch);
/* Applies at most about that many blocks. True: the batch is done. */
bool kv_index_step(struct kv_index *ix, struct kv_index_apply *a, uint32_t blocks);
/* What is left over: dead entries, orphans that can be adopted. True: nothing. */
bool kv_index_work(struct kv_index *ix, uint32_t blocks);

/* All that the backend holds is told again, bit by bit as work is done. */
void kv_index_retell(struct kv_index *ix, uint32_t backend);

/* Weight of that prefix at a backend, 0: not held. */
uint32_t kv_index_lookup(const struct kv_index *ix, uint32_t backend, uint64_t key);
bool kv_index_is_complete(const struct kv_index *ix, int id);
/* Tokens per key of an engine, 0: not known yet. */
uint32_t kv_index_block(const struct kv_index *ix, int id);
uint64_t kv_index_bytes(const struct kv_index *ix);
uint32_t kv_index_entries(const struct kv_index *ix);	   /* of all engines, dead ones included */
uint32_t kv_index_held(const struct kv_index *ix, int id); /* blocks of one */
void kv_index_stats(const struct kv_index *ix, int id, struct kv_index_stats *ret);

#endif
