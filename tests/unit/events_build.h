/* SPDX-License-Identifier: BSD-2-Clause */
/* Batches by hand, and a sink that remembers what it has been told. */
#ifndef KVSTEER_TESTS_EVENTS_BUILD_H
#define KVSTEER_TESTS_EVENTS_BUILD_H

#include <stdlib.h>
#include <string.h>

#include "events/index.h"

struct world {
	struct kv_index *ix;
	struct {
		uint64_t key;
		uint32_t backend, depth, weight;
	} told[8192];
	unsigned int n_told, n_calls, cleared, unsure, gone_unknown;
	bool complete[16];
	bool deaf; /* to keys: a list is no good for many */
	uint32_t last_backend, last_rank;
};

static inline int world_find(const struct world *w, uint32_t backend, uint64_t key)
{
	for (unsigned int i = 0; i < w->n_told; i++)
		if (w->told[i].key == key && w->told[i].backend == backend)
			return i;
	return -1;
}

static inline uint32_t world_weight(const struct world *w, uint32_t backend, uint64_t key)
{
	int i = world_find(w, backend, key);

	return i < 0 ? 0 : w->told[i].weight;
}

/* Every call for a key; false: it need not be looked for. */
static inline bool world_hears(struct world *w)
{
	w->n_calls++;
	return !w->deaf;
}

static inline void world_told(void *ctx, uint64_t key, uint32_t depth, uint32_t backend,
			      uint32_t weight)
{
	struct world *w = ctx;
	int i;

	if (!world_hears(w))
		return;
	i = world_find(w, backend, key);
	if (i < 0)
		i = w->n_told++;
	if (i >= 8192)
		abort();
	w->told[i].key = key;
	w->told[i].backend = backend;
	w->told[i].depth = depth;
	w->told[i].weight = weight;
}

static inline void world_gone(void *ctx, uint64_t key, uint32_t backend)
{
	struct world *w = ctx;
	int i;

	if (!world_hears(w))
		return;
	i = world_find(w, backend, key);
	if (i < 0)
		w->gone_unknown++;
	else
		w->told[i] = w->told[--w->n_told];
}

static inline void world_void(struct world *w, uint32_t backend, uint32_t rank, bool wholesale)
{
	w->last_backend = backend;
	w->last_rank = rank;
	for (unsigned int i = 0; wholesale && i < w->n_told;)
		if (w->told[i].backend == backend)
			w->told[i] = w->told[--w->n_told];
		else
			i++;
}

static inline void world_cleared(void *ctx, uint32_t backend, uint32_t rank, bool wholesale)
{
	struct world *w = ctx;

	w->cleared++;
	world_void(w, backend, rank, wholesale);
}

static inline void world_unsure(void *ctx, uint32_t backend, uint32_t rank, bool wholesale)
{
	struct world *w = ctx;

	w->unsure++;
	world_void(w, backend, rank, wholesale);
}

static inline void world_complete(void *ctx, uint32_t backend, uint32_t rank, bool complete)
{
	struct world *w = ctx;

	(void)rank;
	w->complete[backend % 16] = complete;
}

static const struct kv_index_sink world_sink = {
	.told = world_told,
	.gone = world_gone,
	.cleared = world_cleared,
	.unsure = world_unsure,
	.complete = world_complete,
};

/* One event of a batch of its own. */
struct build {
	struct kv_cache_event event;
	struct kv_batch batch;
	uint64_t hashes[4096];
	uint32_t tokens[65536];
	struct kv_extra extras[64];
};

/* Without what is left over: as between two events of one message. */
static inline void build_step(struct kv_index *ix, int id, struct build *b)
{
	struct kv_index_apply a;

	b->batch = (struct kv_batch){.rank = -1,
				     .events = &b->event,
				     .hashes = b->hashes,
				     .tokens = b->tokens,
				     .extras = b->extras,
				     .n_events = 1,
				     .n_hashes = b->event.n_hashes,
				     .n_tokens = b->event.n_tokens,
				     .n_extras = b->event.n_extras};
	kv_index_begin(&a, id, &b->batch);
	while (!kv_index_step(ix, &a, 3))
		;
}

static inline void build_apply(struct kv_index *ix, int id, struct build *b)
{
	build_step(ix, id, b);
	while (!kv_index_work(ix, 5))
		;
}

/* ---- the one index of a test program ------------------------------------------------- */

static struct world w;
static struct build b;

static inline void open_with(struct kv_index_limits limits)
{
	kv_index_free(w.ix);
	memset(&w, 0, sizeof(w));
	w.ix = kv_index_new(&limits, &world_sink, &w);
}

static inline void open_index(void)
{
	open_with((struct kv_index_limits)KV_INDEX_LIMITS);
}

static inline int add(uint32_t backend, uint32_t rank, uint32_t block)
{
	struct kv_index_engine e = {.backend = backend, .rank = rank, .model = "m", .block = block};

	return kv_index_add(w.ix, &e);
}

static inline void begin(uint8_t kind, uint64_t first, uint32_t n)
{
	memset(&b.event, 0, sizeof(b.event));
	b.event.kind = kind;
	b.event.n_hashes = n;
	for (uint32_t i = 0; i < n; i++)
		b.hashes[i] = first + i;
}

/* Blocks first … first + n - 1 of the prompt whose tokens count up from 1; the block's number tells
 * its place. parent 0: none. */
static inline void with_tokens(uint64_t parent, uint32_t place, uint32_t size)
{
	b.event.block_size = size;
	b.event.has_parent = parent != 0;
	b.event.parent = parent;
	b.event.n_tokens = b.event.n_hashes * size;
	for (uint32_t i = 0; i < b.event.n_tokens; i++)
		b.tokens[i] = place * size + i + 1;
}

#endif
