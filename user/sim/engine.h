/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An emulated engine: a cache, which is an LRU of blocks, and prefill, which is one FIFO server. A
 * request hits the leading blocks that are there; then all of its blocks are, its head most
 * recent, its tail least, as engines free them.
 *
 * An id names a block and all before it, so what two prompts have in common is their beginnings. A
 * request takes its own beginning from those before it and leaves them their ends; from behind,
 * blocks go off the oldest one's end. So of each request there is one stretch of blocks, the
 * stretches stand in order of use as they came, and whose block it is that a prompt goes on with
 * is told by the first of each stretch alone.
 */
#ifndef KVSTEER_SIM_ENGINE_H
#define KVSTEER_SIM_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

/* What is left in the cache of one request's blocks. */
struct sim_stretch {
	uint64_t first; /* id */
	uint32_t at;	/* of sim_cache.ids */
	uint32_t n;	/* 0: nothing */
	uint32_t chain; /* next of its hash bucket */
};

/* Told of every block that enters or leaves. */
typedef void (*sim_changed_fn)(void *ctx, uint64_t id, bool stored);

struct sim_cache {
	uint64_t *ids; /* in the order in which they came: room for twice the capacity */
	struct sim_stretch *stretches; /* likewise */
	uint32_t *buckets;
	uint32_t mask;
	uint32_t n, capacity; /* blocks */
	uint32_t n_ids, n_stretches, oldest;
	uint64_t evicted;
	sim_changed_fn changed;
	void *ctx;
};

int sim_cache_init(struct sim_cache *c, uint32_t capacity);
void sim_cache_free(struct sim_cache *c);
/* It has lost everything, and says nothing of it. */
void sim_cache_clear(struct sim_cache *c);
/* How many leading blocks are there. */
uint32_t sim_cache_match(const struct sim_cache *c, const uint64_t *ids, uint32_t n);
/* The same of a request, whose blocks are there from now on. */
uint32_t sim_cache_serve(struct sim_cache *c, const uint64_t *ids, uint32_t n);

struct sim_engine {
	struct sim_cache cache;
	double rate;	/* tokens per second */
	double free_at; /* when its queue is empty */
	double work;	/* seconds of prefill, in all */
	bool off;	/* keeps nothing, finds nothing */
	bool cold;	/* started again, and nothing evicted since */
};

/* Seconds that a request would wait. */
static inline double sim_engine_wait(const struct sim_engine *e, double now)
{
	return e->free_at > now ? e->free_at - now : 0;
}

#endif
