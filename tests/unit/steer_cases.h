/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Short words for the steering tests' cases. There is one prompt in all of them: rungs every 100
 * tokens, the one of depth d with hash HASH(d).
 */
#ifndef KVSTEER_TESTS_STEER_CASES_H
#define KVSTEER_TESTS_STEER_CASES_H

#include <errno.h>

#include "steer_world.h"

#define SECOND 1000000000ull
#define HASH(rung) (0x1000ull + (rung)) /* rungs count from 1 */

static struct kv_steer st;
static struct kv_dispatch dispatch;

/* A prompt of n rungs, or one of which nothing is known. */
static inline void ask(__u32 n)
{
	memset(&st.query, 0, sizeof(st.query));
	st.query.exclude = KV_NONE;
	st.query.total = 100 * n;
	st.query.n_rungs = n;
	for (__u32 i = 0; i < n; i++) {
		st.query.rungs[i].depth = 100 * (i + 1);
		st.query.rungs[i].hash = HASH(i + 1);
	}
}

static inline __u32 decide(void)
{
	kv_steer_decide(&st);
	return st.choice.backend;
}

static inline void commit(void)
{
	kv_steer_commit(&st, &dispatch);
}

static inline struct kv_prefix *known(__u32 rung)
{
	return kv_prefix_find(kv_world_prefix_set(HASH(rung)), HASH(rung));
}

/* In a place of a known rung's entry. */
static inline __u64 word(__u32 rung, __u32 j)
{
	return kv_prefix_bind(known(rung)->holder[j], HASH(rung));
}

static inline void set_word(__u32 rung, __u32 j, __u64 word)
{
	known(rung)->holder[j] = kv_prefix_bind(word, HASH(rung));
}

/* The backend holds the prompt up to a rung, as of its clock now. */
static inline void hold(__u32 backend, __u32 rung, __u64 flags)
{
	struct kv_backend *b = &world.backends[backend];
	__u32 j = 0;

	kv_prefix_insert(kv_world_prefix_set(HASH(rung)), HASH(rung), 0, world.now);
	while (j < KV_HOLDERS - 1 && word(rung, j))
		j++;
	set_word(rung, j, kv_holder_make(backend, b->epoch, b->clock, flags));
}

/* Its word in a rung's entry, 0 if it has none. */
static inline __u64 holder(__u32 backend, __u32 rung)
{
	for (__u32 j = 0; known(rung) && j < KV_HOLDERS; j++)
		if (word(rung, j) && kv_holder_backend(word(rung, j)) == backend)
			return word(rung, j);
	return 0;
}

static inline void in_session(__u32 backend, __u64 key, __u32 total, __u64 body_len)
{
	struct kv_backend *b = &world.backends[backend];
	struct kv_session *s = kv_world_session_create(key);

	s->holder = kv_holder_make(backend, b->epoch, b->clock, 0);
	s->total = total;
	s->body_len = body_len;
}

/* Tokens queued, none of them being computed yet. */
static inline void busy(__u32 backend, __u64 tokens)
{
	world.backends[backend].inflight_tokens = tokens;
	world.backends[backend].head_ns = world.now;
	world.backends[backend].head_tokens = tokens;
}

#endif /* KVSTEER_TESTS_STEER_CASES_H */
