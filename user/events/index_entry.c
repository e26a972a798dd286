// SPDX-License-Identifier: BSD-2-Clause
/* Entries: found, made, dropped; when their backend is told of. */
#include "events/index_private.h"

/* Entries of a backend with one key: one for each rank, and what a mad engine makes of one prompt.
 */
#define ALIASES_MAX 256
#define REAP_EACH 2 /* dead ones for each new one: they cannot pile up */

static uint64_t where(const void *ctx, const struct kv_entry *e, enum kv_table table)
{
	const struct kv_index *ix = ctx;

	return table == KV_BY_HASH
		       ? kv_store_where(&ix->store, e->engine, e->hash)
		       : kv_store_where(&ix->store, ix->engines[e->engine]->backend, e->key);
}

static bool alive(const struct kv_index *ix, const struct kv_entry *e)
{
	return (e->state & KV_ENTRY_GEN) == ix->engines[e->engine]->gen;
}

static bool keyed(const struct kv_entry *e)
{
	return !(e->state & (KV_ENTRY_ORPHAN | KV_ENTRY_PAGE));
}

static uint32_t index_of(const struct kv_index *ix, const struct kv_entry *e)
{
	return e - ix->store.entries;
}

struct kv_entry *index_find(const struct kv_index *ix, int id, uint64_t hash)
{
	const struct kv_store *s = &ix->store;
	uint32_t i = *kv_store_head(s, KV_BY_HASH, kv_store_where(s, id, hash));

	for (; i != KV_NO_ENTRY; i = s->entries[i].next[KV_BY_HASH]) {
		struct kv_entry *e = &s->entries[i];

		if (e->hash == hash && e->engine == id && alive(ix, e))
			return e;
	}
	return NULL;
}

static uint32_t weight(const struct kv_index *ix, const struct kv_entry *e)
{
	uint32_t best = 0;

	for (int t = 0; t < KV_TIERS; t++)
		if (e->refs[t] && ix->limits.weights[t] > best)
			best = ix->limits.weights[t];
	return best;
}

/* What the backend holds of that key, in all its ranks but for one entry. */
static uint32_t others(const struct kv_index *ix, uint32_t backend, uint64_t key,
		       const struct kv_entry *but, int *ret_n)
{
	const struct kv_store *s = &ix->store;
	uint32_t i = *kv_store_head(s, KV_BY_KEY, kv_store_where(s, backend, key)), best = 0;
	int n = 0;

	for (; i != KV_NO_ENTRY; i = s->entries[i].next[KV_BY_KEY]) {
		const struct kv_entry *e = &s->entries[i];
		uint32_t w;

		if (e == but || e->key != key || ix->engines[e->engine]->backend != backend)
			continue;
		n++;
		if (!alive(ix, e))
			continue;
		w = weight(ix, e);
		best = w > best ? w : best;
	}
	*ret_n = n;
	return best;
}

uint32_t kv_index_lookup(const struct kv_index *ix, uint32_t backend, uint64_t key)
{
	int n;

	return others(ix, backend, key, NULL, &n);
}

static void say(struct kv_index *ix, const struct kv_entry *e, uint32_t before, uint32_t after)
{
	uint32_t backend = ix->engines[e->engine]->backend, rest;
	int n;

	if (before == after || !keyed(e))
		return;
	rest = others(ix, backend, e->key, e, &n);
	before = before > rest ? before : rest;
	after = after > rest ? after : rest;
	if (after == before)
		return;
	if (after)
		ix->sink->told(ix->ctx, e->key, e->depth, backend, after);
	else
		ix->sink->gone(ix->ctx, e->key, backend);
}

static void retell_from(struct kv_index *ix, struct engine *engine, uint32_t entry)
{
	engine->retell = entry;
	if (entry == KV_NO_ENTRY)
		ix->retelling--;
}

static void unlink_engine(struct kv_index *ix, struct kv_entry *e)
{
	struct engine *engine = ix->engines[e->engine];

	if (engine->retell == index_of(ix, e))
		retell_from(ix, engine, e->newer);
	if (e->older != KV_NO_ENTRY)
		ix->store.entries[e->older].newer = e->newer;
	else
		engine->oldest = e->newer;
	if (e->newer != KV_NO_ENTRY)
		ix->store.entries[e->newer].older = e->older;
	else
		engine->newest = e->older;
	engine->n--;
}

static void erase(struct kv_index *ix, struct kv_entry *e)
{
	uint32_t i = index_of(ix, e);

	kv_store_unlink(&ix->store, KV_BY_HASH, where(ix, e, KV_BY_HASH), i);
	if (keyed(e))
		kv_store_unlink(&ix->store, KV_BY_KEY, where(ix, e, KV_BY_KEY), i);
	kv_store_delete(&ix->store, i);
	kv_store_balance(&ix->store, where, ix);
}

void index_drop(struct kv_index *ix, struct kv_entry *e)
{
	say(ix, e, weight(ix, e), 0);
	unlink_engine(ix, e);
	erase(ix, e);
}

uint32_t index_reap(struct kv_index *ix, uint32_t n)
{
	uint32_t done = 0;

	for (; done < n && ix->doomed != KV_NO_ENTRY; done++) {
		struct kv_entry *e = &ix->store.entries[ix->doomed];
		struct engine *engine = ix->engines[e->engine];

		ix->doomed = e->newer;
		engine->n_doomed--;
		if (!engine->wholesale)
			say(ix, e, weight(ix, e), 0);
		erase(ix, e);
	}
	if (ix->doomed == KV_NO_ENTRY)
		ix->doomed_end = KV_NO_ENTRY;
	return done;
}

void index_doom(struct kv_index *ix, int id)
{
	struct engine *engine = ix->engines[id];

	if (engine->n) {
		if (ix->doomed == KV_NO_ENTRY)
			ix->doomed = engine->oldest;
		else
			ix->store.entries[ix->doomed_end].newer = engine->oldest;
		ix->doomed_end = engine->newest;
		engine->n_doomed += engine->n;
	}
	if (engine->retell != KV_NO_ENTRY)
		retell_from(ix, engine, KV_NO_ENTRY);
	engine->oldest = engine->newest = KV_NO_ENTRY;
	engine->n = 0;
	engine->gen = (engine->gen + 1) & KV_ENTRY_GEN;
	/* A generation comes again after 16384: none that is dead may live again. */
	if (!engine->gen)
		index_reap(ix, UINT32_MAX);
}

void index_incomplete(struct kv_index *ix, int id)
{
	struct engine *engine = ix->engines[id];

	if (engine->complete)
		ix->sink->complete(ix->ctx, engine->backend, engine->rank, false);
	engine->complete = false;
}

uint32_t index_retell(struct kv_index *ix, uint32_t n)
{
	uint32_t done = 0;

	for (int i = 0; i < ix->n_ids && ix->retelling; i++) {
		struct engine *engine = ix->engines[i];

		for (; engine->retell != KV_NO_ENTRY && done < n; done++) {
			const struct kv_entry *e = &ix->store.entries[engine->retell];
			uint32_t w = keyed(e) ? kv_index_lookup(ix, engine->backend, e->key) : 0;

			if (w)
				ix->sink->told(ix->ctx, e->key, e->depth, engine->backend, w);
			retell_from(ix, engine, e->newer);
		}
	}
	return done;
}

/* Room for an entry of that engine. The cap is shared fairly: who has more than its share gives up
 * its oldest entry to who has less; who has its share is refused. */
static bool make_room(struct kv_index *ix, int id)
{
	uint32_t share = ix->store.max / (ix->n_used ? ix->n_used : 1), most = share;
	int from = -1;

	if (index_reap(ix, 64))
		return true;
	if (ix->engines[id]->n >= share)
		return false;
	for (int i = 0; i < ix->n_ids; i++) {
		if (ix->engines[i]->n > most) {
			most = ix->engines[i]->n;
			from = i;
		}
	}
	/* Several, so that the others are not looked through for each. */
	for (int n = 0; from >= 0 && n < 32 && ix->engines[from]->n > share; n++) {
		index_incomplete(ix, from);
		ix->engines[from]->stats.evicted++;
		index_drop(ix, &ix->store.entries[ix->engines[from]->oldest]);
	}
	return from >= 0;
}

struct kv_entry *index_insert(struct kv_index *ix, int id, uint64_t hash)
{
	struct engine *engine = ix->engines[id];
	struct kv_entry *e;
	uint32_t i;

	index_reap(ix, REAP_EACH);
	i = kv_store_new(&ix->store);
	if (i == KV_NO_ENTRY && make_room(ix, id))
		i = kv_store_new(&ix->store);
	if (i == KV_NO_ENTRY) {
		engine->stats.refused++;
		index_incomplete(ix, id);
		return NULL;
	}
	e = &ix->store.entries[i];
	e->hash = hash;
	e->engine = id;
	e->state = engine->gen | KV_ENTRY_ORPHAN;
	e->newer = KV_NO_ENTRY;
	e->older = engine->newest;
	if (engine->newest != KV_NO_ENTRY)
		ix->store.entries[engine->newest].newer = i;
	else
		engine->oldest = i;
	engine->newest = i;
	engine->n++;
	kv_store_link(&ix->store, KV_BY_HASH, where(ix, e, KV_BY_HASH), i);
	kv_store_balance(&ix->store, where, ix);
	return e;
}

bool index_reveal(struct kv_index *ix, struct kv_entry *e)
{
	uint32_t backend = ix->engines[e->engine]->backend, mine = weight(ix, e), rest;
	int n;

	e->state &= ~KV_ENTRY_ORPHAN;
	if (!keyed(e))
		return true;
	rest = others(ix, backend, e->key, e, &n);
	if (n >= ALIASES_MAX) {
		e->state |= KV_ENTRY_ORPHAN;
		return false;
	}
	kv_store_link(&ix->store, KV_BY_KEY, where(ix, e, KV_BY_KEY), index_of(ix, e));
	if (mine > rest)
		ix->sink->told(ix->ctx, e->key, e->depth, backend, mine);
	return true;
}

void index_ref(struct kv_index *ix, struct kv_entry *e, uint8_t tier)
{
	uint32_t before = weight(ix, e);

	/* At the most it stays: then it is dropped too early rather than never. */
	if (e->refs[tier] < UINT16_MAX)
		e->refs[tier]++;
	say(ix, e, before, weight(ix, e));
}

bool index_unref(struct kv_index *ix, struct kv_entry *e, uint8_t tier)
{
	uint32_t before = weight(ix, e), left = 0;

	if (!e->refs[tier])
		return false;
	for (int t = 0; t < KV_TIERS; t++)
		left += e->refs[t];
	if (left == 1) {
		index_drop(ix, e);
		return true;
	}
	e->refs[tier]--;
	say(ix, e, before, weight(ix, e));
	return true;
}
