// SPDX-License-Identifier: BSD-2-Clause
/* A run of blocks, one behind the other: our chain over their tokens, and their entries. */
#include <stdlib.h>
#include <string.h>

#include "events/index_private.h"

#define BATCH 8	      /* blocks whose memory is fetched together */
#define EXTRAS_MAX 16 /* pictures in one block that are told apart */

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void add_key(struct kv_index_run *r, const uint32_t *tokens, uint32_t n, const uint64_t *mm,
		    uint32_t n_mm)
{
	uint64_t local = kv_hash_local(tokens, n, mm, n_mm, r->seed);

	r->prev = r->depth ? kv_hash_chain(r->prev, local) : local;
	r->depth += n;
}

/* One block of the engine is one or several of ours. */
static void chain_block(struct kv_index_run *r, uint32_t block)
{
	const uint32_t *tokens = r->tokens + (size_t)r->at * r->size;
	uint64_t mm[EXTRAS_MAX];
	uint32_t n_mm = 0;

	for (; r->extra < r->n_extras && r->extras[r->extra].block <= r->at; r->extra++)
		if (r->extras[r->extra].block == r->at && n_mm < EXTRAS_MAX)
			mm[n_mm++] = r->extras[r->extra].hash;
	if (n_mm > 1)
		qsort(mm, n_mm, sizeof(*mm), by_value);
	for (uint32_t i = 0; i < r->size; i += block)
		add_key(r, tokens + i, block, mm, n_mm);
}

/* Pages are parts of a block of ours. True: one has become full. */
static bool chain_page(struct kv_index_run *r, uint32_t block)
{
	memcpy(r->tail + r->n_tail, r->tokens + (size_t)r->at * r->size,
	       r->size * sizeof(uint32_t));
	r->n_tail += r->size;
	if (r->n_tail < block)
		return false;
	add_key(r, r->tail, block, NULL, 0);
	r->n_tail = 0;
	return true;
}

/* Where the next block stands: its key, or what a page keeps, its tokens and the way back to its
 * block's beginning. */
struct place {
	uint64_t hash, key, seed;
	uint32_t depth;
	bool page;
};

static void next_place(struct kv_index_run *r, uint32_t block, struct place *ret)
{
	uint64_t before = r->page;
	bool full = true;

	if (r->size < block)
		full = chain_page(r, block);
	else
		chain_block(r, block);
	r->page = ret->hash = r->hashes[r->at++];
	ret->page = !full;
	ret->depth = r->depth + r->n_tail;
	ret->key = r->prev;
	ret->seed = r->seed;
	if (!full) {
		uint32_t tokens[2] = {r->tail[r->n_tail - r->size],
				      r->size == 2 ? r->tail[r->n_tail - 1] : 0};

		memcpy(&ret->key, tokens, sizeof(ret->key));
		if (ret->depth != r->size)
			ret->seed = before;
	}
}

bool index_run_behind(struct kv_index *ix, int id, struct kv_index_run *r, const struct kv_entry *p)
{
	uint32_t tokens[KV_TAIL_MAX], n = 0;

	r->page = p->hash;
	r->n_tail = 0;
	while (p->state & KV_ENTRY_PAGE) {
		uint32_t two[2];

		if (r->size > 2 || n + r->size > KV_TAIL_MAX)
			return false;
		memcpy(two, &p->key, sizeof(two));
		for (uint32_t i = r->size; i--;)
			tokens[n++] = two[i];
		if (p->depth == r->size) { /* the prompt's first page */
			r->seed = p->seed;
			p = NULL;
			break;
		}
		p = index_find(ix, id, p->seed);
		if (!p || p->state & KV_ENTRY_ORPHAN)
			return false;
	}
	r->prev = p ? p->key : 0;
	r->depth = p ? p->depth : 0;
	if (p)
		r->seed = p->seed;
	while (n)
		r->tail[r->n_tail++] = tokens[--n];
	return true;
}

static void settle(struct kv_index *ix, int id, const struct kv_index_run *r,
		   const struct place *place, bool adopting)
{
	struct engine *engine = ix->engines[id];
	struct kv_entry *e = index_find(ix, id, place->hash);
	bool new = !e;

	if (!e && !adopting)
		e = index_insert(ix, id, place->hash);
	if (!e)
		return;
	if (e->state & KV_ENTRY_ORPHAN) {
		e->key = place->key;
		e->seed = place->seed;
		e->depth = place->depth;
		e->state |= place->page ? KV_ENTRY_PAGE : 0;
		if (!adopting)
			e->refs[r->tier]++;
		if (!index_reveal(ix, e)) {
			engine->stats.refused++;
			index_drop(ix, e);
			return;
		}
		engine->stats.adopted += !new;
		if (!TAILQ_EMPTY(&engine->orphans))
			orphan_wake(ix, id, e);
	} else if (!adopting) {
		index_ref(ix, e, r->tier);
	}
	engine->stats.blocks_stored += !adopting;
}

uint32_t index_run_blocks(struct kv_index *ix, int id, struct kv_index_run *r, bool adopting)
{
	uint32_t backend = ix->engines[id]->backend, n = r->n - r->at;
	struct place places[BATCH];
	uint64_t where[BATCH][KV_TABLES];

	n = n < BATCH ? n : BATCH;
	for (uint32_t i = 0; i < n; i++) {
		next_place(r, ix->engines[id]->block, &places[i]);
		where[i][KV_BY_HASH] = kv_store_where(&ix->store, id, places[i].hash);
		where[i][KV_BY_KEY] = kv_store_where(&ix->store, backend, places[i].key);
		for (int t = 0; t < KV_TABLES; t++)
			kv_store_prefetch(&ix->store, t, where[i][t]);
	}
	for (uint32_t i = 0; i < n; i++)
		for (int t = 0; t < KV_TABLES; t++)
			kv_store_prefetch_entry(&ix->store, t, where[i][t]);
	for (uint32_t i = 0; i < n; i++)
		settle(ix, id, r, &places[i], adopting);
	return n;
}

void index_run_orphan(struct kv_index *ix, int id, struct kv_index_run *r)
{
	struct engine *engine = ix->engines[id];
	struct kv_entry *e = index_find(ix, id, r->hashes[r->at]);

	if (!e)
		e = index_insert(ix, id, r->hashes[r->at]);
	r->at++;
	if (!e)
		return;
	index_ref(ix, e, r->tier);
	engine->stats.blocks_stored++;
	engine->stats.orphans++;
}
