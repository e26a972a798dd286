/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An emulated engine: a cache, which is an LRU of blocks, and prefill, which is one FIFO server. A
 * request hits the leading blocks that are there; then all of its blocks are, its head most
 * recent, its tail least, as engines free them.
 */
#ifndef KVSTEER_SIM_ENGINE_H
#define KVSTEER_SIM_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

struct sim_block {
	uint64_t id;
	uint32_t chain;	     /* next of its hash bucket */
	uint32_t prev, next; /* neighbours in order of use */
};

/* Told of every block that enters or leaves. */
typedef void (*sim_changed_fn)(void *ctx, uint64_t id, bool stored);

struct sim_cache {
	struct sim_block *blocks; /* [0] is the list's head; free ones are linked by chain */
	uint32_t *buckets;
	uint32_t mask;
	uint32_t n, capacity, free;
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
void sim_cache_serve(struct sim_cache *c, const uint64_t *ids, uint32_t n);

struct sim_engine {
	struct sim_cache cache;
	double rate;	/* tokens per second */
	double free_at; /* when its queue is empty */
	double work;	/* seconds of prefill, in all */
	bool cold;	/* started again, and nothing evicted since */
};

/* Seconds that a request would wait. */
static inline double sim_engine_wait(const struct sim_engine *e, double now)
{
	return e->free_at > now ? e->free_at - now : 0;
}

#endif
