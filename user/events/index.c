// SPDX-License-Identifier: BSD-2-Clause
/* Engines, their batches, and what is said of a whole cache. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "events/index_private.h"

#define PAGE_MAX 2	  /* tokens: what an entry can keep */
#define PAGED_BLOCK 16	  /* tokens per key for engines of such pages */
#define EVENT_COST 4	  /* blocks: what an event costs beside its blocks */
#define STORE_SHARE_MIN 8 /* the orphans never get more than one part in so many */

enum { NEXT, STORE, ORPHAN, MOVE, REMOVE };

struct kv_index *kv_index_new(const struct kv_index_limits *limits,
			      const struct kv_index_sink *sink, void *ctx)
{
	struct kv_index *ix = calloc(1, sizeof(*ix));
	uint64_t max;

	if (!ix)
		return NULL;
	ix->limits = *limits;
	if (ix->limits.max_orphan_bytes > limits->max_bytes / STORE_SHARE_MIN)
		ix->limits.max_orphan_bytes = limits->max_bytes / STORE_SHARE_MIN;
	max = (limits->max_bytes - ix->limits.max_orphan_bytes) / KV_STORE_ENTRY_BYTES;
	ix->sink = sink;
	ix->ctx = ctx;
	ix->doomed = ix->doomed_end = KV_NO_ENTRY;
	TAILQ_INIT(&ix->ready);
	ix->engines = calloc(KV_INDEX_ENGINES, sizeof(*ix->engines));
	if (ix->engines && !kv_store_init(&ix->store, max < 1u << 31 ? max : 1u << 31))
		return ix;
	free(ix->engines);
	free(ix);
	return NULL;
}

void kv_index_free(struct kv_index *ix)
{
	if (!ix)
		return;
	for (int i = 0; i < ix->n_ids; i++) {
		orphan_forget(ix, i);
		free(ix->engines[i]->model);
		free(ix->engines[i]);
	}
	kv_store_exit(&ix->store);
	free(ix->engines);
	free(ix);
}

/* ---- engines ------------------------------------------------------------------------- */

static int free_id(struct kv_index *ix)
{
	for (int i = 0; i < ix->n_ids; i++)
		if (!ix->engines[i]->used && !ix->engines[i]->n_doomed)
			return i;
	if (ix->n_ids == KV_INDEX_ENGINES)
		return -ENOSPC;
	ix->engines[ix->n_ids] = calloc(1, sizeof(struct engine));
	if (!ix->engines[ix->n_ids])
		return -ENOMEM;
	return ix->n_ids++;
}

int kv_index_add(struct kv_index *ix, const struct kv_index_engine *config)
{
	struct engine *e;
	char *model;
	int id;

	for (int i = 0; i < ix->n_ids; i++)
		if (ix->engines[i]->used && ix->engines[i]->backend == config->backend &&
		    ix->engines[i]->rank == config->rank)
			return -EEXIST;
	id = free_id(ix);
	if (id < 0)
		return id;
	model = strdup(config->model ? config->model : "");
	if (!model)
		return -ENOMEM;
	e = ix->engines[id];
	*e = (struct engine){.used = true,
			     .gen = e->gen,
			     .backend = config->backend,
			     .rank = config->rank,
			     .block = config->block,
			     .block_given = config->block,
			     .oldest = KV_NO_ENTRY,
			     .newest = KV_NO_ENTRY,
			     .retell = KV_NO_ENTRY,
			     .lora_is_model = config->lora_is_model,
			     .model = model};
	TAILQ_INIT(&e->orphans);
	ix->n_used++;
	return id;
}

/* No other rank's cache is under the same backend. */
static bool alone(const struct kv_index *ix, int id)
{
	for (int i = 0; i < ix->n_ids; i++)
		if (i != id && ix->engines[i]->used &&
		    ix->engines[i]->backend == ix->engines[id]->backend)
			return false;
	return true;
}

/* Begins anew, with nothing in it and not complete. */
static void reset(struct kv_index *ix, int id)
{
	struct engine *e = ix->engines[id];

	orphan_forget(ix, id);
	e->wholesale = alone(ix, id);
	index_doom(ix, id);
	e->block = e->block_given;
	e->full_groups = e->other_groups = 0;
	e->stats.clears++;
	index_incomplete(ix, id);
}

void kv_index_clear(struct kv_index *ix, int id)
{
	struct engine *e = ix->engines[id];

	reset(ix, id);
	ix->sink->cleared(ix->ctx, e->backend, e->rank, e->wholesale);
}

void kv_index_unsure(struct kv_index *ix, int id)
{
	struct engine *e = ix->engines[id];

	reset(ix, id);
	ix->sink->unsure(ix->ctx, e->backend, e->rank, e->wholesale);
}

void kv_index_complete(struct kv_index *ix, int id)
{
	struct engine *e = ix->engines[id];

	if (!e->complete)
		ix->sink->complete(ix->ctx, e->backend, e->rank, true);
	e->complete = true;
}

void kv_index_remove(struct kv_index *ix, int id)
{
	struct engine *e = ix->engines[id];

	kv_index_unsure(ix, id);
	free(e->model);
	e->model = NULL;
	e->used = false;
	ix->n_used--;
}

/* ---- events -------------------------------------------------------------------------- */

/* Only caches of full attention keep whole prefixes. Removals do not say what kind theirs is, so
 * it is learned from the stores; a group that none has told of is full attention if it is the
 * first. */
static bool wanted(struct engine *engine, const struct kv_cache_event *e)
{
	uint64_t bit = e->has_group && e->group < 64 ? 1ull << e->group : 0;

	if (e->has_group && !bit)
		return false;
	if (e->kind == KV_EVENT_STORED && bit && e->spec != KV_SPEC_UNSAID) {
		uint64_t *set =
			e->spec == KV_SPEC_FULL ? &engine->full_groups : &engine->other_groups;

		*set |= bit;
	}
	if (e->spec != KV_SPEC_UNSAID)
		return e->spec == KV_SPEC_FULL;
	if (!bit)
		return true;
	if (engine->full_groups & bit)
		return true;
	return !(engine->other_groups & bit) && !e->group;
}

static uint64_t seed_of(struct engine *engine, const struct kv_cache_event *e)
{
	struct kv_key key = {.domain = KVSTEER_TOKENS,
			     .model = {engine->model, strlen(engine->model)},
			     .salt = e->salt};

	if (e->lora.len && engine->lora_is_model)
		key.model = e->lora;
	else
		key.lora = e->lora;
	if (e->lora.len || !e->lora_id)
		return kv_seed(&key);
	engine->stats.lora_unnamed++;
	return kv_seed(&key) + XXH3_64bits_withSeed(&e->lora_id, sizeof(e->lora_id), 4);
}

/* Whether its blocks go with our keys; the first store decides what ours are, unless told. */
static bool fits(struct engine *engine, uint32_t size)
{
	if (!engine->block)
		engine->block = size <= PAGE_MAX ? PAGED_BLOCK : size;
	if (size >= engine->block)
		return size % engine->block == 0;
	return size <= PAGE_MAX && engine->block % size == 0 && engine->block <= KV_TAIL_MAX;
}

/* What is to be done with a store. */
static int begin_store(struct kv_index *ix, struct kv_index_apply *a,
		       const struct kv_cache_event *e)
{
	struct engine *engine = ix->engines[a->id];
	struct kv_index_run *r = &a->run;
	const struct kv_entry *parent;

	if (!e->n_hashes)
		return NEXT;
	if (!e->n_tokens && !e->block_size)
		return MOVE;
	if (!e->block_size || (uint64_t)e->n_hashes * e->block_size != e->n_tokens) {
		engine->stats.malformed++;
		return NEXT;
	}
	r->tokens = a->batch->tokens + e->token_at;
	r->extras = a->batch->extras + e->extra_at;
	r->n_extras = e->n_extras;
	r->size = e->block_size;
	if (!fits(engine, r->size) || (r->size < engine->block && r->n_extras)) {
		engine->stats.unfit += r->n;
		index_incomplete(ix, a->id);
		return NEXT;
	}
	if (e->n_tokens > DEPTH_MAX) {
		engine->stats.malformed++;
		return NEXT;
	}
	if (!e->has_parent) {
		r->seed = seed_of(engine, e);
		return STORE;
	}
	parent = index_find(ix, a->id, e->parent);
	if (!parent || parent->state & KV_ENTRY_ORPHAN)
		return orphan_keep(ix, a->id, r, e->parent) ? ORPHAN : NEXT;
	if (parent->depth > DEPTH_MAX || !index_run_behind(ix, a->id, r, parent)) {
		engine->stats.unfit += r->n;
		index_incomplete(ix, a->id);
		return NEXT;
	}
	return STORE;
}

static int begin_event(struct kv_index *ix, struct kv_index_apply *a)
{
	const struct kv_cache_event *e = &a->batch->events[a->event];
	struct engine *engine = ix->engines[a->id];

	a->run = (struct kv_index_run){.hashes = a->batch->hashes + e->hash_at,
				       .n = e->n_hashes,
				       .tier = e->tier,
				       .whole = e->whole};
	if (e->kind == KV_EVENT_CLEARED) {
		kv_index_clear(ix, a->id);
		kv_index_complete(ix, a->id);
		return NEXT;
	}
	if (!wanted(engine, e)) {
		engine->stats.ignored_groups++;
		return NEXT;
	}
	return e->kind == KV_EVENT_STORED ? begin_store(ix, a, e) : REMOVE;
}

/* A block of which only the hash is said. */
static void known_block(struct kv_index *ix, struct kv_index_apply *a)
{
	const struct kv_store *s = &ix->store;
	const uint64_t *ahead = a->run.hashes + a->run.at;
	uint32_t left = a->run.n - a->run.at;
	struct engine *engine = ix->engines[a->id];
	struct kv_entry *e;

	if (left > 8)
		kv_store_prefetch(s, KV_BY_HASH, kv_store_where(s, a->id, ahead[8]));
	if (left > 4)
		kv_store_prefetch_entry(s, KV_BY_HASH, kv_store_where(s, a->id, ahead[4]));
	e = index_find(ix, a->id, a->run.hashes[a->run.at++]);
	if (e && a->doing == MOVE) {
		index_ref(ix, e, a->run.tier);
		engine->stats.blocks_stored++;
	} else if (e && a->run.whole) {
		index_drop(ix, e);
		engine->stats.blocks_removed++;
	} else if (e && index_unref(ix, e, a->run.tier)) {
		engine->stats.blocks_removed++;
	} else {
		engine->stats.ignored_unknown++;
	}
}

void kv_index_begin(struct kv_index_apply *a, int id, const struct kv_batch *batch)
{
	a->id = id;
	a->batch = batch;
	a->event = 0;
	a->doing = NEXT;
	a->run = (struct kv_index_run){0};
}

bool kv_index_step(struct kv_index *ix, struct kv_index_apply *a, uint32_t blocks)
{
	uint32_t spent = 0;

	while (spent < blocks) {
		if (a->run.at == a->run.n || a->doing == NEXT) {
			if (a->event == a->batch->n_events)
				return true;
			a->doing = begin_event(ix, a);
			a->event++;
			spent += EVENT_COST;
			continue;
		}
		if (a->doing == STORE) {
			spent += index_run_blocks(ix, a->id, &a->run, false);
			continue;
		}
		if (a->doing == ORPHAN)
			index_run_orphan(ix, a->id, &a->run);
		else
			known_block(ix, a);
		spent++;
	}
	return a->event == a->batch->n_events && (a->run.at == a->run.n || a->doing == NEXT);
}

bool kv_index_work(struct kv_index *ix, uint32_t blocks)
{
	uint32_t done = orphan_adopt(ix, blocks);

	if (done < blocks)
		done += index_reap(ix, blocks - done);
	if (done < blocks)
		index_retell(ix, blocks - done);
	return TAILQ_EMPTY(&ix->ready) && ix->doomed == KV_NO_ENTRY && !ix->retelling;
}

void kv_index_retell(struct kv_index *ix, uint32_t backend)
{
	for (int i = 0; i < ix->n_ids; i++) {
		struct engine *e = ix->engines[i];

		if (!e->used || e->backend != backend || e->oldest == KV_NO_ENTRY)
			continue;
		if (e->retell == KV_NO_ENTRY)
			ix->retelling++;
		e->retell = e->oldest;
	}
}

/* ---- looking ------------------------------------------------------------------------- */

uint32_t kv_index_block(const struct kv_index *ix, int id)
{
	return ix->engines[id]->block;
}

bool kv_index_is_complete(const struct kv_index *ix, int id)
{
	return ix->engines[id]->complete;
}

uint64_t kv_index_bytes(const struct kv_index *ix)
{
	return kv_store_bytes(&ix->store) + ix->orphan_bytes;
}

uint32_t kv_index_entries(const struct kv_index *ix)
{
	return ix->store.n;
}

uint32_t kv_index_held(const struct kv_index *ix, int id)
{
	return ix->engines[id]->n;
}

void kv_index_stats(const struct kv_index *ix, int id, struct kv_index_stats *ret)
{
	*ret = ix->engines[id]->stats;
}
