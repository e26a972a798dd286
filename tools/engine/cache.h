// SPDX-License-Identifier: BSD-2-Clause
/* The engine's prefix cache: full blocks by chain hash, least recently used goes first. */
#ifndef ENGINE_CACHE_H
#define ENGINE_CACHE_H

#include <stdbool.h>
#include <stdint.h>

struct cache;

struct cache *cache_new(uint32_t blocks);
void cache_free(struct cache *c);
void cache_clear(struct cache *c);
uint32_t cache_used(const struct cache *c);
/* Leading blocks that are resident; does not change the order. */
uint32_t cache_match(const struct cache *c, const uint64_t *hashes, uint32_t n);
/* Makes the chain resident and most recent, its tail less recent than its head. ret_fresh: of each
 * block whether it is new; NULL: does not matter. */
void cache_insert(struct cache *c, const uint64_t *hashes, uint32_t n, bool *ret_fresh);
/* Hears of every block that has to go. */
void cache_watch(struct cache *c, void (*evicted)(void *ctx, uint64_t hash), void *ctx);

#endif
