// SPDX-License-Identifier: BSD-2-Clause
/* Stores that came before their parent: kept, within bounds, until it comes. */
#include <stdlib.h>
#include <string.h>

#include "events/index_private.h"

#define BLOCKS_MAX 8192 /* of one store: it is dropped at once */
#define FEWEST_SHARES 4 /* no engine has more than a quarter of the orphans' memory */

static struct waiting *bucket(struct kv_index *ix, int id, uint64_t parent)
{
	return &ix->waiting[kv_store_where(&ix->store, id, parent) % WAIT_BUCKETS];
}

/* From both lists, with its entries if nobody is to give them a key any more. */
static void discard(struct kv_index *ix, struct orphan *o, bool entries)
{
	struct engine *engine = ix->engines[o->id];

	for (uint32_t i = o->run.at; entries && i < o->run.n; i++) {
		struct kv_entry *e = index_find(ix, o->id, o->run.hashes[i]);

		if (e && e->state & KV_ENTRY_ORPHAN)
			index_drop(ix, e);
	}
	engine->orphan_bytes -= o->bytes;
	ix->orphan_bytes -= o->bytes;
	free(o);
}

static void drop_oldest(struct kv_index *ix, struct engine *engine)
{
	struct orphan *o = TAILQ_FIRST(&engine->orphans);

	engine->stats.orphans_dropped += o->run.n;
	TAILQ_REMOVE(&engine->orphans, o, link);
	LIST_REMOVE(o, wait);
	index_incomplete(ix, o->id);
	discard(ix, o, true);
}

/* Until an engine's have no more than that. False: what is left is about to be adopted, and is
 * counted until then. */
static bool make_room(struct kv_index *ix, struct engine *engine, size_t most)
{
	while (engine->orphan_bytes > most && !TAILQ_EMPTY(&engine->orphans))
		drop_oldest(ix, engine);
	return engine->orphan_bytes <= most;
}

bool orphan_keep(struct kv_index *ix, int id, const struct kv_index_run *r, uint64_t parent)
{
	struct engine *engine = ix->engines[id];
	size_t hashes = r->n * sizeof(*r->hashes), extras = r->n_extras * sizeof(*r->extras);
	size_t tokens = (size_t)r->n * r->size * sizeof(*r->tokens);
	size_t bytes = sizeof(struct orphan) + hashes + extras + tokens;
	size_t share = ix->limits.max_orphan_bytes /
		       (ix->n_used > FEWEST_SHARES ? ix->n_used : FEWEST_SHARES);
	struct orphan *o = NULL;

	if (r->n <= BLOCKS_MAX && bytes <= share && make_room(ix, engine, share - bytes))
		o = malloc(bytes);
	if (!o) {
		engine->stats.orphans_dropped += r->n;
		index_incomplete(ix, id);
		return false;
	}
	o->parent = parent;
	o->id = id;
	o->bytes = bytes;
	o->run = *r;
	o->run.hashes = memcpy(o->data, r->hashes, hashes);
	o->run.extras = (void *)((char *)o->data + hashes);
	if (extras)
		memcpy((char *)o->data + hashes, r->extras, extras);
	o->run.tokens = memcpy((char *)o->data + hashes + extras, r->tokens, tokens);
	engine->orphan_bytes += bytes;
	ix->orphan_bytes += bytes;
	TAILQ_INSERT_TAIL(&engine->orphans, o, link);
	LIST_INSERT_HEAD(bucket(ix, id, parent), o, wait);
	return true;
}

void orphan_wake(struct kv_index *ix, int id, const struct kv_entry *e)
{
	struct engine *engine = ix->engines[id];
	struct orphan *o, *next;

	for (o = LIST_FIRST(bucket(ix, id, e->hash)); o; o = next) {
		next = LIST_NEXT(o, wait);
		if (o->id != id || o->parent != e->hash)
			continue;
		TAILQ_REMOVE(&engine->orphans, o, link);
		LIST_REMOVE(o, wait);
		/* The parent may be gone again before its turn comes. */
		if (e->depth <= DEPTH_MAX && index_run_behind(ix, id, &o->run, e)) {
			TAILQ_INSERT_TAIL(&ix->ready, o, link);
		} else {
			engine->stats.orphans_dropped += o->run.n;
			discard(ix, o, true);
		}
	}
}

uint32_t orphan_adopt(struct kv_index *ix, uint32_t blocks)
{
	uint32_t done = 0;

	while (done < blocks && !TAILQ_EMPTY(&ix->ready)) {
		struct orphan *o = TAILQ_FIRST(&ix->ready);

		while (done < blocks && o->run.at < o->run.n)
			done += index_run_blocks(ix, o->id, &o->run, true);
		if (o->run.at < o->run.n)
			break;
		TAILQ_REMOVE(&ix->ready, o, link);
		discard(ix, o, false);
	}
	return done;
}

void orphan_forget(struct kv_index *ix, int id)
{
	struct orphan *o, *next;

	while ((o = TAILQ_FIRST(&ix->engines[id]->orphans))) {
		TAILQ_REMOVE(&ix->engines[id]->orphans, o, link);
		LIST_REMOVE(o, wait);
		discard(ix, o, false);
	}
	for (o = TAILQ_FIRST(&ix->ready); o; o = next) {
		next = TAILQ_NEXT(o, link);
		if (o->id != id)
			continue;
		TAILQ_REMOVE(&ix->ready, o, link);
		discard(ix, o, false);
	}
}
