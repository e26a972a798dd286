/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Telling: what an engine says of its own cache (KV events), entered beside what is learned from
 * dispatching. Include it after steer.h.
 *
 * Told wins: a stored block is held whatever its age, until the engine says that it is gone or the
 * backend's epoch is raised; and a block that is gone is held no more, though it had been learned.
 * Only what a request under way has taught stays: the engine is just about to have it again.
 *
 * The backend's clock does not move by this. It ages what is learned, so it counts what was
 * dispatched; told entries have no age.
 */
#ifndef KVSTEER_TELL_H
#define KVSTEER_TELL_H

#include "steer.h"

/* kv_loop's context: kv_steer_of() finds the first. */
struct kv_tell {
	struct kv_steer *st;
	const struct kv_telling *telling;
};

KV_INLINE __u64 kv_tell_hash(__u32 i, void *ctx)
{
	const struct kv_telling *t = ((struct kv_tell *)ctx)->telling;

	return t->hash[kv_index(i, KV_TELL_MAX)];
}

static long kv_tell_stored_step(__u32 i, void *ctx)
{
	struct kv_steer *st = kv_steer_of(ctx);
	__u64 hash = kv_tell_hash(i, ctx);

	st->place = KV_HOLDERS; /* to be looked for */
	/* again if a request has just learned it, but not for ever */
	if (!kv_hold(st, hash, false, true) && !kv_hold(st, hash, false, true))
		kv_hold(st, hash, false, true);
	return 0;
}

static long kv_tell_gone_step(__u32 i, void *ctx)
{
	struct kv_steer *st = kv_steer_of(ctx);
	__u64 hash = kv_tell_hash(i, ctx), empty = kv_prefix_name(hash);
	__u64 was, h, left = 0;
	struct kv_prefix_set *set = kv_world_prefix_set(hash);
	struct kv_prefix *p = kv_prefix_find(set, hash);

	if (!p)
		return 0;
	for (__u32 j = 0; j < KV_HOLDERS; j++) {
		was = kv_read_once(p->holder[j]);
		h = was ^ empty;
		if (h && kv_holder_backend(h) == st->choice.backend && !(h & KV_HOLDER_TENTATIVE) &&
		    kv_atomic_cas(&p->holder[j], was, empty) == was)
			h = 0; /* else somebody has just learned it */
		left |= h;
	}
	if (!left)
		kv_prefix_free(set, hash);
	return 0;
}

/* All of a telling. st is scratch; returns 0, or -ENOENT when there is no such backend, or the
 * telling is of another epoch than the backend's: its cache has been lost since. */
KV_ENTRY int kv_tell(struct kv_steer *st, const struct kv_telling *t)
{
	struct kv_tell tell = {.st = st, .telling = t};
	struct kv_backend *b = kv_world_backend(t->backend);

	if (!b || t->backend == KV_NONE || t->epoch != b->epoch)
		return -ENOENT;
	st->choice.backend = t->backend;
	st->now = kv_world_ns();
	st->tier = t->tier;
	st->epoch = t->epoch;
	st->clock = kv_read_once(b->clock);
	kv_loop(t->n < KV_TELL_MAX ? t->n : KV_TELL_MAX,
		t->gone ? kv_tell_gone_step : kv_tell_stored_step, &tell);
	return 0;
}

#endif /* KVSTEER_TELL_H */
