// SPDX-License-Identifier: BSD-2-Clause
#include "engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

int sim_cache_init(struct sim_cache *c, uint32_t capacity)
{
	/* A request's blocks enter before others leave. */
	uint64_t room = 2ull * capacity, buckets = 1;

	while (buckets < capacity / 2)
		buckets *= 2;
	*c = (struct sim_cache){
		.ids = malloc(room * sizeof(*c->ids)),
		.stretches = malloc(room * sizeof(*c->stretches)),
		.buckets = malloc(buckets * sizeof(*c->buckets)),
		.mask = buckets - 1,
		.capacity = capacity,
	};
	if (!c->ids || !c->stretches || !c->buckets) {
		sim_cache_free(c);
		return -ENOMEM;
	}
	/* The memory is there before the first request, not at each first use. */
	memset(c->ids, 0, room * sizeof(*c->ids));
	memset(c->stretches, 0, room * sizeof(*c->stretches));
	sim_cache_clear(c);
	return 0;
}

void sim_cache_free(struct sim_cache *c)
{
	free(c->ids);
	free(c->stretches);
	free(c->buckets);
	c->ids = NULL;
	c->stretches = NULL;
	c->buckets = NULL;
}

void sim_cache_clear(struct sim_cache *c)
{
	memset(c->buckets, 0xff, (c->mask + 1ull) * sizeof(*c->buckets));
	c->n = c->n_ids = c->n_stretches = c->oldest = 0;
	c->evicted = 0;
}

/* ---- stretches ------------------------------------------------------------------------ */

static uint32_t *bucket_of(const struct sim_cache *c, uint64_t id)
{
	return &c->buckets[(id * 0x9e3779b97f4a7c15ull >> 32) & c->mask];
}

/* The one that begins with this block. */
static uint32_t find(const struct sim_cache *c, uint64_t id)
{
	uint32_t i = *bucket_of(c, id);

	while (i != NONE && c->stretches[i].first != id)
		i = c->stretches[i].chain;
	return i;
}

static void enter(struct sim_cache *c, uint32_t i)
{
	struct sim_stretch *s = &c->stretches[i];
	uint32_t *bucket = bucket_of(c, s->first);

	s->chain = *bucket;
	*bucket = i;
}

static void leave(struct sim_cache *c, uint32_t i)
{
	uint32_t *link = bucket_of(c, c->stretches[i].first);

	while (*link != i)
		link = &c->stretches[*link].chain;
	*link = c->stretches[i].chain;
}

/* How far it goes along with a prompt's rest. */
static uint32_t common(const struct sim_cache *c, const struct sim_stretch *s, const uint64_t *ids,
		       uint32_t n)
{
	const uint64_t *own = c->ids + s->at;
	uint32_t i = 0;

	n = n < s->n ? n : s->n;
	while (i < n && own[i] == ids[i])
		i++;
	return i;
}

/* Its first blocks are another one's. */
static void give(struct sim_cache *c, uint32_t i, uint32_t n)
{
	struct sim_stretch *s = &c->stretches[i];

	leave(c, i);
	s->at += n;
	s->n -= n;
	if (!s->n)
		return;
	s->first = c->ids[s->at];
	enter(c, i);
}

/* What is left of all is moved together. */
static void pack(struct sim_cache *c)
{
	uint32_t n_ids = 0, n = 0;

	memset(c->buckets, 0xff, (c->mask + 1ull) * sizeof(*c->buckets));
	for (uint32_t i = c->oldest; i < c->n_stretches; i++) {
		struct sim_stretch s = c->stretches[i];

		if (!s.n)
			continue;
		memmove(c->ids + n_ids, c->ids + s.at, s.n * sizeof(*c->ids));
		s.at = n_ids;
		n_ids += s.n;
		c->stretches[n] = s;
		enter(c, n++);
	}
	c->n_ids = n_ids;
	c->n_stretches = n;
	c->oldest = 0;
}

static void append(struct sim_cache *c, const uint64_t *ids, uint32_t n)
{
	uint32_t i;

	if (c->n_ids + n > 2 * c->capacity)
		pack(c);
	i = c->n_stretches++;
	memcpy(c->ids + c->n_ids, ids, n * sizeof(*ids));
	c->stretches[i] = (struct sim_stretch){.first = ids[0], .at = c->n_ids, .n = n};
	c->n_ids += n;
	enter(c, i);
}

/* The least recent n blocks. */
static void evict(struct sim_cache *c, uint32_t n)
{
	c->n -= n;
	c->evicted += n;
	while (n) {
		struct sim_stretch *s = &c->stretches[c->oldest];
		uint32_t some = n < s->n ? n : s->n, left = s->n - some;

		for (; c->changed && s->n > left; s->n--)
			c->changed(c->ctx, c->ids[s->at + s->n - 1], false);
		s->n = left;
		n -= some;
		if (left)
			continue;
		if (some)
			leave(c, c->oldest);
		c->oldest++;
	}
}

/* ---- requests ------------------------------------------------------------------------- */

uint32_t sim_cache_match(const struct sim_cache *c, const uint64_t *ids, uint32_t n)
{
	uint32_t held = 0, i;

	while (held < n && (i = find(c, ids[held])) != NONE)
		held += common(c, &c->stretches[i], ids + held, n - held);
	return held;
}

uint32_t sim_cache_serve(struct sim_cache *c, const uint64_t *ids, uint32_t n)
{
	uint32_t held = 0, some, i;

	if (n > c->capacity)
		n = c->capacity;
	while (held < n && (i = find(c, ids[held])) != NONE) {
		some = common(c, &c->stretches[i], ids + held, n - held);
		give(c, i, some);
		held += some;
	}
	if (n)
		append(c, ids, n);
	c->n += n - held;
	for (uint32_t at = n; c->changed && at > held; at--)
		c->changed(c->ctx, ids[at - 1], true);
	if (c->n > c->capacity)
		evict(c, c->n - c->capacity);
	return held;
}
