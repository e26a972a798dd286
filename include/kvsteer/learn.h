/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Learning: what a dispatched request leaves behind. Included by steer.h.
 *
 * A prefix entry states a fact: this backend is given these blocks. So its rungs are learned at the
 * backend that serves it, diverted or not: it does get the cache, and an entry has places for
 * several holders, so that knowing the new one does not forget the home. A session has one place
 * only: there the intended home stays, so that one diverted request does not move a conversation
 * away from its cache. Under price a move is never a diversion: with all costs in, the choice is
 * where the request, and so the conversation, is best served.
 */
#ifndef KVSTEER_LEARN_H
#define KVSTEER_LEARN_H

#include "load.h"

/* kv_loop's context: kv_steer_of() finds the first. */
struct kv_commit {
	struct kv_steer *st;
	struct kv_dispatch *d;
};

/* ---- the clock ----------------------------------------------------------------------- */

/* Do the tokens up to an entry move to the front of the cache with this request? If they were not
 * there, or if they have not been touched in this generation (a generation lasts one capacity). */
KV_INLINE bool kv_enters(const struct kv_steer *st, __u64 holder)
{
	__u64 age;

	if (!holder || kv_holder_epoch(holder) != (st->epoch & 0xfff))
		return true;
	age = kv_holder_age(holder, st->clock);
	return age > st->clock || st->clock - age < st->generation;
}

static long kv_enter_rung_step(__u32 i, void *ctx)
{
	struct kv_steer *st = kv_steer_of(ctx);
	struct kv_dispatch *d = ((struct kv_commit *)ctx)->d;
	__u32 at = kv_index(i, KV_MAX_RUNGS), depth = st->query.rungs[at].depth;
	__u64 hash = st->query.rungs[at].hash, held = 0;

	d->query.rungs[at] = st->query.rungs[at];
	st->own[at] = KV_HOLDERS;
	if (!(st->absent >> at & 1))
		st->own[at] =
			kv_prefix_place(kv_world_prefix_set(hash), hash, st->choice.backend, &held);
	if (kv_enters(st, held))
		st->entered += kv_left(depth, st->prev);
	st->prev = depth;
	return 0;
}

/* Without rungs all of the prompt enters, but for what its session has there already. */
KV_INLINE void kv_enter_session(struct kv_steer *st)
{
	struct kv_session *s = NULL;

	st->entered = st->need;
	if (st->query.session && st->choice.believed)
		s = kv_world_session(st->query.session);
	if (s && kv_holder_backend(s->holder) == st->choice.backend && !kv_enters(st, s->holder))
		st->entered = kv_left(st->need, st->choice.believed);
}

/* ---- holders ------------------------------------------------------------------------- */

/* An LRU has a prompt's last token behind all of its others: engines free a request's blocks last
 * one first. (What is told does not age.) */
KV_INLINE __u64 kv_end_clock(const struct kv_steer *st)
{
	return st->clock - (st->depth ? st->depth - 1 : 0);
}

/* The word that replaces old. What has been confirmed once stays so: a failing request says
 * nothing about what was there before it. told: by the engine itself (tell.h). */
KV_INLINE __u64 kv_holder_word(const struct kv_steer *st, __u64 old, const struct kv_backend *b,
			       bool told)
{
	__u64 flags = told ? KV_HOLDER_TOLD | KV_HOLDER_TIER(st->tier) : KV_HOLDER_TENTATIVE;

	if (!told && old && kv_holder_backend(old) == st->choice.backend && kv_holder_live(old, b))
		flags = old & (kv_holder_told(old, b) ? KV_HOLDER_TOLD | KV_HOLDER_TIER_MASK
						      : KV_HOLDER_TENTATIVE);
	/* read anew each time: parts of it would be kept on the stack */
	return kv_holder_make(kv_read_once(st->choice.backend), kv_read_once(st->epoch),
			      flags & KV_HOLDER_TOLD ? kv_read_once(st->clock) : kv_end_clock(st),
			      flags);
}

/* Which place to write: this backend's own, else a free one, else a dead one, else the one
 * that is furthest through its backend's cache. */
static long kv_place_step(__u32 j, void *ctx)
{
	struct kv_steer *st = kv_steer_of(ctx);
	__u64 h = st->holder[kv_index(j, KV_HOLDERS)], worth;
	__u32 id = kv_holder_backend(h);
	struct kv_backend *b;

	if (!h) {
		worth = KV_PLACE_FREE;
	} else if (id == st->choice.backend) {
		worth = KV_PLACE_OWN;
	} else {
		b = kv_world_backend(id);
		worth = KV_PLACE_DEAD;
		if (b && kv_holder_live(h, b))
			worth = kv_holder_age(h, b->clock) * 1024 / (b->capacity ? b->capacity : 1);
	}
	if (worth > st->load || !j) {
		st->load = worth;
		st->place = j;
	}
	return worth == KV_PLACE_OWN;
}

/* Puts this backend's word into an entry's place for it: st->place if it is there, as it was a
 * moment ago, else it is looked for. False: another CPU took the place first. */
KV_INLINE bool kv_hold_once(struct kv_steer *st, struct kv_prefix *p, __u64 hash,
			    const struct kv_backend *b, bool told)
{
	__u64 empty = kv_prefix_name(hash), old = 0;

	if (st->place < KV_HOLDERS)
		old = kv_read_once(p->holder[kv_index(st->place, KV_HOLDERS)]) ^ empty;
	if (old && kv_holder_backend(old) == st->choice.backend) {
		st->load = KV_PLACE_OWN;
	} else {
		kv_prefix_copy(st->holder, p, hash);
		kv_loop(KV_HOLDERS, kv_place_step, &st);
		old = st->holder[kv_index(st->place, KV_HOLDERS)];
	}
	if (kv_atomic_cas(&p->holder[kv_index(st->place, KV_HOLDERS)], old ^ empty,
			  kv_holder_word(st, old, b, told) ^ empty) != (old ^ empty))
		return false;
	if (st->load < KV_PLACE_DEAD)
		kv_world_count(KV_CNT_holder_evicted);
	return true;
}

/* A new entry with this one holder, the usual case for a new tail. False: somebody else has just
 * made it. */
KV_INLINE bool kv_hold_first(struct kv_steer *st, struct kv_prefix_set *set, __u64 hash,
			     const struct kv_backend *b, bool told)
{
	int ret = kv_prefix_insert(set, hash, kv_holder_word(st, 0, b, told), st->now);

	if (ret == -EEXIST)
		return false;
	kv_world_count(ret < 0 ? KV_CNT_prefix_busy : KV_CNT_prefix_inserted);
	if (ret > 0)
		kv_world_count(KV_CNT_prefix_evicted);
	return true;
}

/* The chosen backend holds this prefix; absent: there was no entry a moment ago. False: other CPUs
 * were quicker, it may be tried again. */
KV_INLINE bool kv_hold(struct kv_steer *st, __u64 hash, bool absent, bool told)
{
	struct kv_backend *b = kv_world_backend(st->choice.backend);
	struct kv_prefix_set *set = kv_world_prefix_set(hash);
	struct kv_prefix *p = NULL;

	if (!b || !set)
		return true;
	if (!absent)
		p = kv_prefix_touch(set, hash, st->now);
	if (!p) {
		if (kv_hold_first(st, set, hash, b, told))
			return true;
		p = kv_prefix_touch(set, hash, st->now); /* a sibling was quicker */
	}
	return !p || kv_hold_once(st, p, hash, b, told);
}

static long kv_learn_rung_step(__u32 i, void *ctx)
{
	struct kv_steer *st = kv_steer_of(ctx);
	__u32 at = kv_index(i, KV_MAX_RUNGS);

	st->depth = st->query.rungs[at].depth;
	st->place = st->own[at];
	if (st->todo >> at & 1 &&
	    kv_hold(st, st->query.rungs[at].hash, st->absent >> at & 1, false))
		st->todo &= ~(1u << at);
	return 0;
}

/* Looks again where other CPUs were quicker, but not for ever. No loop: before 6.4 no jump may lead
 * back to behind a bpf_loop. */
KV_INLINE void kv_learn_rungs(struct kv_steer *st)
{
	__u32 n = st->query.n_rungs;

	st->todo = n < KV_MAX_RUNGS ? (1u << n) - 1 : ~0u;
	if (st->todo)
		kv_loop(n, kv_learn_rung_step, &st);
	if (st->todo)
		kv_loop(n, kv_learn_rung_step, &st);
	if (st->todo)
		kv_loop(n, kv_learn_rung_step, &st);
}

KV_INLINE void kv_learn_session(struct kv_steer *st, const struct kv_backend *b)
{
	struct kv_session *s = kv_world_session(st->query.session);
	struct kv_backend *home;
	__u64 old;

	if (!s) {
		s = kv_world_session_create(st->query.session);
		kv_world_count(s ? KV_CNT_session_inserted : KV_CNT_session_full);
		if (!s)
			return;
	}
	old = kv_read_once(s->holder);
	if (old && st->choice.intended != st->choice.backend &&
	    kv_holder_backend(old) == st->choice.intended) {
		home = kv_world_backend(st->choice.intended);
		if (home && kv_holder_live(old, home))
			return;
	}
	if (kv_atomic_cas(&s->holder, old, kv_holder_word(st, old, b, false)) != old)
		return; /* a sibling's entry is as good */
	s->body_len = st->query.body_len;
	s->total = st->query.total;
}

/* Charges the chosen backend and learns what it is about to hold. d is filled whole; without a
 * choice it is empty, and settling it does nothing. */
KV_ENTRY void kv_steer_commit(struct kv_steer *st, struct kv_dispatch *d)
{
	struct kv_backend *b = kv_world_backend(st->choice.backend);
	struct kv_service *svc = kv_world_service(st->query.service);
	struct kv_commit commit = {.st = st, .d = d};

	d->backend = st->choice.backend;
	d->charged_tokens = 0;
	d->charged_request = 0;
	d->unconfirmed = 0;
	d->at_ns = st->now;
	d->believed = st->choice.believed;
	__builtin_memcpy(&d->query, &st->query, sizeof(st->query) - sizeof(st->query.rungs));
	if (!b || !svc) {
		d->query.n_rungs = 0;
		return;
	}

	kv_world_count(KV_CNT_decisions);
	if (st->choice.best)
		kv_world_count(KV_CNT_matches);
	if (st->choice.matched < st->choice.best)
		kv_world_count(KV_CNT_diverted);

	kv_queue_add(b, st->now, st->choice.own);
	kv_atomic_add(&b->inflight_requests, 1);
	kv_atomic_add(&b->requests, 1);
	kv_atomic_add(&b->prompt_tokens, st->need);
	kv_atomic_add(&b->matched_tokens, st->need - st->choice.own);
	kv_used_add(svc, st->now, st->choice.own);
	d->charged_tokens = st->choice.own;
	d->charged_request = 1;
	d->unconfirmed = 1;

	st->epoch = b->epoch;
	st->capacity = b->capacity;
	st->clock = kv_read_once(b->clock);
	st->entered = 0;
	st->prev = 0;
	st->generation = st->clock - st->clock % (st->capacity ? st->capacity : 1);
	if (st->query.n_rungs)
		kv_loop(st->query.n_rungs, kv_enter_rung_step, &commit);
	else
		kv_enter_session(st);
	st->clock = kv_atomic_fetch_add(&b->clock, st->entered) + st->entered;
	kv_learn_rungs(st);
	st->depth = st->need;
	if (st->query.session)
		kv_learn_session(st, b);
}

#endif /* KVSTEER_LEARN_H */
