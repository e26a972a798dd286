/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The steering core's world over tables of this process, as bpf/lib has it over maps. Time and
 * chance are the owner's to set. The table of prefixes is the kernel's own; that of sessions is
 * open-addressed.
 *
 * Who includes this has its own copy of the core, and one pointer to the world it works on.
 */
#ifndef KVSTEER_SIM_WORLD_H
#define KVSTEER_SIM_WORLD_H

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "kvsteer/counters.h"
#include "kvsteer/prefixes.h"
#include "kvsteer/shared.h"
#include "sim/random.h"

#define WORLD_KEY 0x9e3779b97f4a7c15ull /* nobody here means it ill */

struct world_session {
	__u64 key; /* 0: free */
	struct kv_session value;
};

struct steer_world {
	struct kv_prefix_set *prefixes;
	struct world_session *sessions;
	__u32 prefix_sets;
	__u32 session_slots; /* a power of two */
	__u32 n_sessions, max_sessions;
	__u64 now;
	__u64 random; /* state of the generator */
	__u64 counters[KV_CNT_MAX];
	struct kv_service services[KV_MAX_SERVICES];
	struct kv_backend backends[KV_MAX_BACKENDS];
};

static struct steer_world *kv_world;

static inline __u64 world_slot(__u64 key)
{
	return key * 0x9e3779b97f4a7c15ull >> 32;
}

static struct kv_prefix_set *kv_world_prefix_set(__u64 hash)
{
	return &kv_world->prefixes[kv_prefix_set_of(hash, WORLD_KEY, kv_world->prefix_sets)];
}

static struct kv_session *kv_world_session(__u64 key)
{
	for (__u64 i = world_slot(key);; i++) {
		struct world_session *s = &kv_world->sessions[i & (kv_world->session_slots - 1)];

		if (s->key == key)
			return &s->value;
		if (!s->key)
			return NULL;
	}
}

static struct kv_session *kv_world_session_create(__u64 key)
{
	if (kv_world->n_sessions >= kv_world->max_sessions)
		return kv_world_session(key);
	for (__u64 i = world_slot(key);; i++) {
		struct world_session *s = &kv_world->sessions[i & (kv_world->session_slots - 1)];
		__u64 was = s->key ?: kv_atomic_cas(&s->key, 0, key);

		if (!was)
			kv_atomic_add(&kv_world->n_sessions, 1);
		if (!was || was == key)
			return &s->value;
	}
}

static struct kv_backend *kv_world_backend(__u32 id)
{
	return id < KV_MAX_BACKENDS ? &kv_world->backends[id] : NULL;
}

static struct kv_service *kv_world_service(__u32 id)
{
	return id < KV_MAX_SERVICES ? &kv_world->services[id] : NULL;
}

static __u64 kv_world_ns(void)
{
	return kv_world->now;
}

static __u32 kv_world_random(void)
{
	return sim_random(&kv_world->random) >> 33;
}

static void kv_world_count(enum kv_counter counter)
{
	kv_atomic_add(&kv_world->counters[counter], 1);
}

#include "kvsteer/steer.h"
#include "kvsteer/tell.h"

/* One service (0) of n equal backends, all up. */
static inline void world_populate(struct steer_world *w, __u32 policy, __u32 n, __u64 capacity,
				  __u64 rate)
{
	w->max_sessions = w->session_slots / 4 * 3;
	w->now = 1000000000000ull;
	w->random = 1;
	w->services[0].flags = KV_SERVICE_UP;
	w->services[0].policy = policy;
	w->services[0].n_backends = n;
	for (__u32 i = 0; i < n; i++) {
		w->services[0].backends[i] = i;
		w->backends[i].state = KV_BACKEND_UP;
		w->backends[i].epoch = 1; /* backend 0, epoch 0, clock 0 would be an empty word */
		w->backends[i].capacity = capacity;
		w->backends[i].rate = rate;
	}
}

#define WORLD_HUGE (2ull << 20) /* a large page */

/* Cleared, and each set in cache lines of its own. NULL: no memory. */
static inline struct kv_prefix_set *world_prefixes(__u32 sets)
{
	size_t len = sets * sizeof(struct kv_prefix_set), slack = len < WORLD_HUGE ? 0 : WORLD_HUGE;
	char *table =
		mmap(NULL, len + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t before;

	if (table == MAP_FAILED)
		return NULL;
	if (!slack)
		return (struct kv_prefix_set *)table;
	/* Look-ups go anywhere: with small pages each would also miss the TLB. */
	before = -(uintptr_t)table % WORLD_HUGE;
	if (before)
		munmap(table, before);
	if (before < slack)
		munmap(table + before + len, slack - before);
	madvise(table + before, len, MADV_HUGEPAGE);
	/* Now, not at each first look-up. */
	madvise(table + before, len, MADV_POPULATE_WRITE);
	return (struct kv_prefix_set *)(table + before);
}

static inline void world_prefixes_free(struct kv_prefix_set *table, __u32 sets)
{
	if (table)
		munmap(table, sets * sizeof(*table));
}

static inline int world_alloc(struct steer_world *w, __u32 prefix_sets, __u32 session_slots)
{
	w->prefixes = world_prefixes(prefix_sets);
	w->sessions = calloc(session_slots, sizeof(*w->sessions));
	w->prefix_sets = prefix_sets;
	w->session_slots = session_slots;
	return w->prefixes && w->sessions ? 0 : -ENOMEM;
}

static inline void world_free_tables(struct steer_world *w)
{
	world_prefixes_free(w->prefixes, w->prefix_sets);
	free(w->sessions);
	w->prefixes = NULL;
	w->sessions = NULL;
}

#endif /* KVSTEER_SIM_WORLD_H */
