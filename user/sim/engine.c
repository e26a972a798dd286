// SPDX-License-Identifier: BSD-2-Clause
#include "engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NO_BLOCK UINT32_MAX

int sim_cache_init(struct sim_cache *c, uint32_t capacity)
{
	/* A request's blocks enter before others leave. */
	uint64_t room = 2ull * capacity + 1, buckets = 1;

	while (buckets < room)
		buckets *= 2;
	*c = (struct sim_cache){
		.blocks = malloc(room * sizeof(*c->blocks)),
		.buckets = malloc(buckets * sizeof(*c->buckets)),
		.mask = buckets - 1,
		.capacity = capacity,
		.free = 1,
	};
	if (!c->blocks || !c->buckets) {
		sim_cache_free(c);
		return -ENOMEM;
	}
	memset(c->buckets, 0xff, buckets * sizeof(*c->buckets));
	for (uint64_t i = 0; i < room; i++)
		c->blocks[i] = (struct sim_block){.chain = i + 1 < room ? i + 1 : NO_BLOCK};
	return 0;
}

void sim_cache_free(struct sim_cache *c)
{
	free(c->blocks);
	free(c->buckets);
	c->blocks = NULL;
	c->buckets = NULL;
}

static uint32_t *bucket_of(const struct sim_cache *c, uint64_t id)
{
	return &c->buckets[(id * 0x9e3779b97f4a7c15ull >> 32) & c->mask];
}

static uint32_t find(const struct sim_cache *c, uint64_t id)
{
	uint32_t at = *bucket_of(c, id);

	while (at != NO_BLOCK && c->blocks[at].id != id)
		at = c->blocks[at].chain;
	return at;
}

static void unlink_use(struct sim_cache *c, uint32_t at)
{
	c->blocks[c->blocks[at].prev].next = c->blocks[at].next;
	c->blocks[c->blocks[at].next].prev = c->blocks[at].prev;
}

static void link_front(struct sim_cache *c, uint32_t at)
{
	uint32_t first = c->blocks[0].next;

	c->blocks[at].prev = 0;
	c->blocks[at].next = first;
	c->blocks[first].prev = at;
	c->blocks[0].next = at;
}

static uint32_t insert(struct sim_cache *c, uint64_t id)
{
	uint32_t at = c->free, *bucket = bucket_of(c, id);

	c->free = c->blocks[at].chain;
	c->blocks[at].id = id;
	c->blocks[at].chain = *bucket;
	*bucket = at;
	c->n++;
	if (c->changed)
		c->changed(c->ctx, id, true);
	return at;
}

static void evict(struct sim_cache *c, uint32_t at)
{
	uint32_t *link = bucket_of(c, c->blocks[at].id);

	unlink_use(c, at);
	while (*link != at)
		link = &c->blocks[*link].chain;
	*link = c->blocks[at].chain;
	c->blocks[at].chain = c->free;
	c->free = at;
	c->n--;
	c->evicted++;
	if (c->changed)
		c->changed(c->ctx, c->blocks[at].id, false);
}

void sim_cache_clear(struct sim_cache *c)
{
	sim_changed_fn changed = c->changed;

	c->changed = NULL;
	while (c->n)
		evict(c, c->blocks[0].prev);
	c->changed = changed;
	c->evicted = 0;
}

uint32_t sim_cache_match(const struct sim_cache *c, const uint64_t *ids, uint32_t n)
{
	uint32_t i = 0;

	while (i < n && find(c, ids[i]) != NO_BLOCK)
		i++;
	return i;
}

void sim_cache_serve(struct sim_cache *c, const uint64_t *ids, uint32_t n)
{
	if (n > c->capacity)
		n = c->capacity;
	while (n--) {
		uint32_t at = find(c, ids[n]);

		if (at == NO_BLOCK)
			at = insert(c, ids[n]);
		else
			unlink_use(c, at);
		link_front(c, at);
	}
	while (c->n > c->capacity)
		evict(c, c->blocks[0].prev);
}
