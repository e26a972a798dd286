/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The index's entries and the two tables that find them, by the engine's hash and by our own key.
 *
 * Memory grows and shrinks with the entries, in small steps: entries live in chunks of a reserved
 * address range, an empty chunk goes back to the kernel; the tables are linear hashes, which split
 * or join one bucket at a time. No insertion ever waits for a table to be built anew. 64 bytes per
 * entry, 8 for its share of both tables, 12 per chunk of 512.
 */
#ifndef KVSTEER_EVENTS_STORE_H
#define KVSTEER_EVENTS_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "events/decode.h"

#define KV_NO_ENTRY UINT32_MAX

#define KV_ENTRY_ORPHAN 0x8000u /* its key is not known yet: not in the table of keys */
#define KV_ENTRY_PAGE 0x4000u	/* ends within a block of ours: has no key, keeps its tokens */
#define KV_ENTRY_GEN 0x3fffu	/* of its engine's cache; another than the engine's: doomed */

enum kv_table { KV_BY_HASH, KV_BY_KEY, KV_TABLES };

struct kv_entry {
	uint64_t hash; /* the engine's */
	uint64_t key;  /* ours; of a page: its tokens */
	uint64_t seed; /* of the chain; of a page: its parent's hash, of a first page: the seed */
	uint32_t next[KV_TABLES];
	uint32_t older, newer; /* of its engine's entries */
	uint32_t depth;	       /* tokens up to its end */
	uint16_t engine;
	uint16_t state; /* KV_ENTRY_* */
	uint16_t refs[KV_TIERS];
} __attribute__((aligned(64))); /* one cache line: each is met by a miss */
_Static_assert(sizeof(struct kv_entry) == 64, "counted in docs/events.md");

struct kv_chunk {
	uint16_t used, free;
	uint32_t next, prev; /* of chunks with room */
};

struct kv_store {
	struct kv_entry *entries;
	struct kv_chunk *chunks;
	uint32_t *heads[KV_TABLES];
	uint32_t max, n; /* entries */
	uint32_t n_chunks, live_chunks, room, released;
	uint32_t buckets, level, max_buckets; /* level <= buckets < 2 * level */
	uint64_t secret[2];		      /* chains of one bucket cannot be made on purpose */
};

#define KV_STORE_ENTRY_BYTES 73 /* the above, rounded up */

/* 0 or -ENOMEM. */
int kv_store_init(struct kv_store *s, uint32_t max_entries);
void kv_store_exit(struct kv_store *s);
/* What is in use of the reserved memory. */
uint64_t kv_store_bytes(const struct kv_store *s);

/* KV_NO_ENTRY: full. The entry is zero but for `next`, and in no table. */
uint32_t kv_store_new(struct kv_store *s);
/* It must be in no table. */
void kv_store_delete(struct kv_store *s, uint32_t i);

void kv_store_link(struct kv_store *s, enum kv_table table, uint64_t where, uint32_t i);
void kv_store_unlink(struct kv_store *s, enum kv_table table, uint64_t where, uint32_t i);

/* Where an entry belongs: by its engine's hash, by its backend and key. */
static inline uint64_t kv_store_where(const struct kv_store *s, uint32_t whose, uint64_t hash)
{
	unsigned __int128 m = (unsigned __int128)(hash ^ s->secret[0]) *
			      (((uint64_t)whose << 32 | 0x9e3779b9) ^ s->secret[1]);

	return (uint64_t)m ^ (uint64_t)(m >> 64);
}

static inline uint32_t *kv_store_head(const struct kv_store *s, enum kv_table table, uint64_t where)
{
	uint32_t b = where & (2 * s->level - 1);

	return &s->heads[table][b < s->buckets ? b : b - s->level];
}

/* Two steps ahead of looking there: the bucket, then the entry that it begins with. */
static inline void kv_store_prefetch(const struct kv_store *s, enum kv_table table, uint64_t where)
{
	__builtin_prefetch(kv_store_head(s, table, where));
}

static inline void kv_store_prefetch_entry(const struct kv_store *s, enum kv_table table,
					   uint64_t where)
{
	uint32_t i = *kv_store_head(s, table, where);

	if (i != KV_NO_ENTRY)
		__builtin_prefetch(&s->entries[i]);
}

/* The tables split and join: where an entry of the table belongs must be told. */
typedef uint64_t kv_where_fn(const void *ctx, const struct kv_entry *e, enum kv_table table);
/* One step towards as many buckets as entries; after every few insertions and removals. */
void kv_store_balance(struct kv_store *s, kv_where_fn *where, const void *ctx);

#endif
