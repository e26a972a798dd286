// SPDX-License-Identifier: BSD-2-Clause
#include <stdlib.h>
#include <string.h>

#include "cache.h"

#define NIL UINT32_MAX

struct node {
	uint64_t hash;
	uint32_t newer, older; /* in order of use; `older` also links the free nodes */
	uint32_t next;	       /* in its bucket */
};

struct cache {
	uint32_t blocks, used, mask;
	uint32_t newest, oldest, free;
	uint32_t *bucket;
	void (*evicted)(void *ctx, uint64_t hash);
	void *ctx;
	struct node node[];
};

void cache_clear(struct cache *c)
{
	memset(c->bucket, 0xff, (c->mask + 1) * sizeof(*c->bucket));
	for (uint32_t i = 0; i < c->blocks; i++)
		c->node[i].older = i + 1 < c->blocks ? i + 1 : NIL;
	c->free = 0;
	c->used = 0;
	c->newest = c->oldest = NIL;
}

struct cache *cache_new(uint32_t blocks)
{
	struct cache *c = calloc(1, sizeof(*c) + blocks * sizeof(struct node));
	uint32_t buckets = 1;

	if (!c)
		return NULL;
	while (buckets < blocks)
		buckets *= 2;
	c->blocks = blocks;
	c->mask = buckets - 1;
	c->bucket = malloc(buckets * sizeof(*c->bucket));
	if (!c->bucket) {
		free(c);
		return NULL;
	}
	cache_clear(c);
	return c;
}

void cache_free(struct cache *c)
{
	if (c)
		free(c->bucket);
	free(c);
}

uint32_t cache_used(const struct cache *c)
{
	return c->used;
}

static uint32_t find(const struct cache *c, uint64_t hash)
{
	uint32_t i = c->bucket[hash & c->mask];

	while (i != NIL && c->node[i].hash != hash)
		i = c->node[i].next;
	return i;
}

uint32_t cache_match(const struct cache *c, const uint64_t *hashes, uint32_t n)
{
	uint32_t i = 0;

	while (i < n && find(c, hashes[i]) != NIL)
		i++;
	return i;
}

static void unlink_node(struct cache *c, uint32_t i)
{
	struct node *n = &c->node[i];

	if (n->newer != NIL)
		c->node[n->newer].older = n->older;
	else
		c->newest = n->older;
	if (n->older != NIL)
		c->node[n->older].newer = n->newer;
	else
		c->oldest = n->newer;
}

static void link_newest(struct cache *c, uint32_t i)
{
	c->node[i].newer = NIL;
	c->node[i].older = c->newest;
	if (c->newest != NIL)
		c->node[c->newest].newer = i;
	else
		c->oldest = i;
	c->newest = i;
}

static void evict(struct cache *c)
{
	uint32_t i = c->oldest, *link = &c->bucket[c->node[i].hash & c->mask];

	if (c->evicted)
		c->evicted(c->ctx, c->node[i].hash);
	unlink_node(c, i);
	while (*link != i)
		link = &c->node[*link].next;
	*link = c->node[i].next;
	c->node[i].older = c->free;
	c->free = i;
	c->used--;
}

void cache_watch(struct cache *c, void (*evicted)(void *ctx, uint64_t hash), void *ctx)
{
	c->evicted = evicted;
	c->ctx = ctx;
}

void cache_insert(struct cache *c, const uint64_t *hashes, uint32_t n, bool *ret_fresh)
{
	if (n > c->blocks)
		n = c->blocks;
	while (n--) {
		uint32_t i = find(c, hashes[n]);

		if (ret_fresh)
			ret_fresh[n] = i == NIL;
		if (i != NIL) {
			unlink_node(c, i);
		} else {
			if (c->free == NIL)
				evict(c);
			i = c->free;
			c->free = c->node[i].older;
			c->node[i].hash = hashes[n];
			c->node[i].next = c->bucket[hashes[n] & c->mask];
			c->bucket[hashes[n] & c->mask] = i;
			c->used++;
		}
		link_newest(c, i);
	}
}
