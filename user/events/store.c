// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "events/store.h"

#define CHUNK 512 /* entries: 8 pages */
#define CHUNK_BYTES (CHUNK * sizeof(struct kv_entry))
#define NONE UINT32_MAX
#define NO_SLOT 0xffff
#define FEWEST 1024	 /* buckets */
#define GIVE_BACK 262144 /* buckets: 1 MiB */

_Static_assert(CHUNK_BYTES % 4096 == 0, "a chunk goes back to the kernel as a whole");

static void *reserve(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		return NULL;
	/* Entries are met at random: with small pages every one costs a walk of the page tables. */
	madvise(at, bytes, MADV_HUGEPAGE);
	return at;
}

static size_t chunk_count(const struct kv_store *s)
{
	return s->max / CHUNK;
}

int kv_store_init(struct kv_store *s, uint32_t max_entries)
{
	memset(s, 0, sizeof(*s));
	s->max = (max_entries < FEWEST ? FEWEST : max_entries) / CHUNK * CHUNK;
	s->max_buckets = s->max;
	s->level = s->buckets = FEWEST;
	s->room = s->released = NONE;
	if (getrandom(s->secret, sizeof(s->secret), 0) != sizeof(s->secret))
		return -EIO;
	s->entries = reserve(s->max * sizeof(struct kv_entry));
	s->chunks = reserve(chunk_count(s) * sizeof(struct kv_chunk));
	for (int t = 0; t < KV_TABLES; t++) {
		s->heads[t] = reserve(s->max_buckets * sizeof(uint32_t));
		if (s->heads[t])
			memset(s->heads[t], 0xff, FEWEST * sizeof(uint32_t));
	}
	if (s->entries && s->chunks && s->heads[0] && s->heads[1])
		return 0;
	kv_store_exit(s);
	return -ENOMEM;
}

void kv_store_exit(struct kv_store *s)
{
	if (s->entries)
		munmap(s->entries, s->max * sizeof(struct kv_entry));
	if (s->chunks)
		munmap(s->chunks, chunk_count(s) * sizeof(struct kv_chunk));
	for (int t = 0; t < KV_TABLES; t++)
		if (s->heads[t])
			munmap(s->heads[t], s->max_buckets * sizeof(uint32_t));
	memset(s, 0, sizeof(*s));
}

uint64_t kv_store_bytes(const struct kv_store *s)
{
	return s->live_chunks * CHUNK_BYTES + s->n_chunks * sizeof(struct kv_chunk) +
	       (uint64_t)s->buckets * KV_TABLES * sizeof(uint32_t);
}

/* ---- chunks -------------------------------------------------------------------------- */

static void room_add(struct kv_store *s, uint32_t c)
{
	s->chunks[c].prev = NONE;
	s->chunks[c].next = s->room;
	if (s->room != NONE)
		s->chunks[s->room].prev = c;
	s->room = c;
}

static void room_remove(struct kv_store *s, uint32_t c)
{
	struct kv_chunk *chunk = &s->chunks[c];

	if (chunk->prev != NONE)
		s->chunks[chunk->prev].next = chunk->next;
	else
		s->room = chunk->next;
	if (chunk->next != NONE)
		s->chunks[chunk->next].prev = chunk->prev;
}

static bool chunk_new(struct kv_store *s)
{
	uint32_t c = s->released;

	if (c != NONE)
		s->released = s->chunks[c].next;
	else if (s->n_chunks < chunk_count(s))
		c = s->n_chunks++;
	else
		return false;
	for (uint32_t i = 0; i < CHUNK; i++)
		s->entries[c * CHUNK + i].older = i + 1 < CHUNK ? i + 1 : NO_SLOT;
	s->chunks[c].used = 0;
	s->chunks[c].free = 0;
	s->live_chunks++;
	room_add(s, c);
	return true;
}

uint32_t kv_store_new(struct kv_store *s)
{
	struct kv_chunk *chunk;
	uint32_t i;

	if (s->room == NONE && !chunk_new(s))
		return KV_NO_ENTRY;
	chunk = &s->chunks[s->room];
	i = s->room * CHUNK + chunk->free;
	chunk->free = s->entries[i].older;
	if (++chunk->used == CHUNK)
		room_remove(s, s->room);
	memset(&s->entries[i], 0, sizeof(s->entries[i]));
	s->entries[i].next[KV_BY_HASH] = s->entries[i].next[KV_BY_KEY] = KV_NO_ENTRY;
	s->n++;
	return i;
}

void kv_store_delete(struct kv_store *s, uint32_t i)
{
	uint32_t c = i / CHUNK;
	struct kv_chunk *chunk = &s->chunks[c];

	s->entries[i].older = chunk->free;
	chunk->free = i % CHUNK;
	if (chunk->used == CHUNK)
		room_add(s, c);
	chunk->used--;
	s->n--;
	/* One empty chunk stays, lest one entry more and less calls the kernel each time. */
	if (chunk->used || (s->room == c && chunk->next == NONE))
		return;
	room_remove(s, c);
	madvise(&s->entries[c * CHUNK], CHUNK_BYTES, MADV_DONTNEED);
	chunk->next = s->released;
	s->released = c;
	s->live_chunks--;
}

/* ---- tables -------------------------------------------------------------------------- */

void kv_store_link(struct kv_store *s, enum kv_table table, uint64_t where, uint32_t i)
{
	uint32_t *head = kv_store_head(s, table, where);

	s->entries[i].next[table] = *head;
	*head = i;
}

void kv_store_unlink(struct kv_store *s, enum kv_table table, uint64_t where, uint32_t i)
{
	uint32_t *link = kv_store_head(s, table, where);

	while (*link != i)
		link = &s->entries[*link].next[table];
	*link = s->entries[i].next[table];
}

#define AHEAD 8 /* splits */

/* The entry that stands there as the n-th in its bucket, which will be split soon. */
static void look_at(const struct kv_store *s, int table, uint32_t bucket, int n)
{
	uint32_t i = s->heads[table][bucket];

	while (n-- && i != KV_NO_ENTRY)
		i = s->entries[i].next[table];
	if (i != KV_NO_ENTRY)
		__builtin_prefetch(&s->entries[i]);
}

static void look_ahead(const struct kv_store *s, uint32_t from)
{
	if (from + AHEAD >= s->level)
		return;
	for (int t = 0; t < KV_TABLES; t++) {
		look_at(s, t, from + AHEAD, 0);
		look_at(s, t, from + AHEAD * 2 / 3, 1);
		look_at(s, t, from + AHEAD / 3, 2);
	}
}

static void split(struct kv_store *s, kv_where_fn *where, const void *ctx)
{
	uint32_t from = s->buckets - s->level, to = s->buckets;

	for (int t = 0; t < KV_TABLES; t++) {
		uint32_t i = s->heads[t][from], next, *stay = &s->heads[t][from];
		uint32_t *move = &s->heads[t][to];

		for (; i != KV_NO_ENTRY; i = next) {
			struct kv_entry *e = &s->entries[i];
			uint32_t **end = where(ctx, e, t) & s->level ? &move : &stay;

			next = e->next[t];
			**end = i;
			*end = &e->next[t];
		}
		*stay = *move = KV_NO_ENTRY;
	}
	if (++s->buckets == 2 * s->level)
		s->level *= 2;
	look_ahead(s, s->buckets - s->level);
}

static void join(struct kv_store *s)
{
	uint32_t from, to;

	if (s->buckets == s->level)
		s->level /= 2;
	from = --s->buckets;
	to = from - s->level;
	for (int t = 0; t < KV_TABLES; t++) {
		uint32_t *end = &s->heads[t][to];

		while (*end != KV_NO_ENTRY)
			end = &s->entries[*end].next[t];
		*end = s->heads[t][from];
		if (from % GIVE_BACK == 0 && s->max_buckets - from >= GIVE_BACK)
			madvise(&s->heads[t][from], GIVE_BACK * sizeof(uint32_t), MADV_DONTNEED);
	}
}

void kv_store_balance(struct kv_store *s, kv_where_fn *where, const void *ctx)
{
	/* Two joins: the buckets become fewer as fast as entries do, from their double. */
	if (s->n > s->buckets && s->buckets < s->max_buckets)
		split(s, where, ctx);
	for (int i = 0; i < 2 && s->n < s->buckets / 2 && s->buckets > FEWEST; i++)
		join(s);
}
