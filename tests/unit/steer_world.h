/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The steering core's world over tables of this process, as bpf/lib has it over maps. Time and
 * chance are the test's to set. Tables are open-addressed and never grow: "full" is one of the
 * cases.
 */
#ifndef KVSTEER_TESTS_STEER_WORLD_H
#define KVSTEER_TESTS_STEER_WORLD_H

#include <stdlib.h>

#include "kvsteer/counters.h"
#include "kvsteer/shared.h"

#ifndef WORLD_SLOTS
#define WORLD_SLOTS (1u << 19) /* of the prefix table; sessions have the same */
#endif

struct world_prefix {
	__u64 key; /* 0: free */
	struct kv_prefix value;
};

struct world_session {
	__u64 key;
	struct kv_session value;
};

static struct {
	struct world_prefix *prefixes;
	struct world_session *sessions;
	__u32 n_prefixes, max_prefixes;
	__u32 n_sessions, max_sessions;
	__u64 now;
	__u64 random; /* state of the generator */
	__u64 counters[KV_CNT_MAX];
	struct kv_service services[KV_MAX_SERVICES];
	struct kv_backend backends[KV_MAX_BACKENDS];
} world;

static struct kv_prefix *kv_world_prefix(__u64 hash)
{
	for (__u64 i = hash * 0x9e3779b97f4a7c15ull >> 44;; i++) {
		struct world_prefix *p = &world.prefixes[i % WORLD_SLOTS];

		if (p->key == hash)
			return &p->value;
		if (!p->key)
			return NULL;
	}
}

static struct kv_session *kv_world_session(__u64 key)
{
	for (__u64 i = key * 0x9e3779b97f4a7c15ull >> 44;; i++) {
		struct world_session *s = &world.sessions[i % WORLD_SLOTS];

		if (s->key == key)
			return &s->value;
		if (!s->key)
			return NULL;
	}
}

static struct kv_prefix *kv_world_prefix_create(__u64 hash)
{
	__u64 i = hash * 0x9e3779b97f4a7c15ull >> 44;

	if (world.n_prefixes >= world.max_prefixes)
		return kv_world_prefix(hash);
	while (!__sync_bool_compare_and_swap(&world.prefixes[i % WORLD_SLOTS].key, 0, hash)) {
		if (world.prefixes[i % WORLD_SLOTS].key == hash)
			return &world.prefixes[i % WORLD_SLOTS].value;
		i++;
	}
	__sync_fetch_and_add(&world.n_prefixes, 1);
	return &world.prefixes[i % WORLD_SLOTS].value;
}

static struct kv_session *kv_world_session_create(__u64 key)
{
	__u64 i = key * 0x9e3779b97f4a7c15ull >> 44;

	if (world.n_sessions >= world.max_sessions)
		return kv_world_session(key);
	while (!__sync_bool_compare_and_swap(&world.sessions[i % WORLD_SLOTS].key, 0, key)) {
		if (world.sessions[i % WORLD_SLOTS].key == key)
			return &world.sessions[i % WORLD_SLOTS].value;
		i++;
	}
	__sync_fetch_and_add(&world.n_sessions, 1);
	return &world.sessions[i % WORLD_SLOTS].value;
}

static struct kv_backend *kv_world_backend(__u32 id)
{
	return id < KV_MAX_BACKENDS ? &world.backends[id] : NULL;
}

static struct kv_service *kv_world_service(__u32 id)
{
	return id < KV_MAX_SERVICES ? &world.services[id] : NULL;
}

static __u64 kv_world_ns(void)
{
	return world.now;
}

static __u32 kv_world_random(void)
{
	world.random = world.random * 6364136223846793005ull + 1442695040888963407ull;
	return world.random >> 33;
}

static void kv_world_count(enum kv_counter counter)
{
	__sync_fetch_and_add(&world.counters[counter], 1);
}

#include "kvsteer/steer.h"

/* An empty world: one service (0) of n equal backends, all up. */
static inline void world_reset(__u32 policy, __u32 n, __u64 capacity, __u64 rate)
{
	struct world_prefix *prefixes = world.prefixes;
	struct world_session *sessions = world.sessions;

	memset(&world, 0, sizeof(world));
	world.prefixes = prefixes ?: calloc(WORLD_SLOTS, sizeof(*prefixes));
	world.sessions = sessions ?: calloc(WORLD_SLOTS, sizeof(*sessions));
	if (!world.prefixes || !world.sessions)
		abort();
	/* clearing costs less than the page faults of fresh memory */
	if (prefixes)
		memset(prefixes, 0, WORLD_SLOTS * sizeof(*prefixes));
	if (sessions)
		memset(sessions, 0, WORLD_SLOTS * sizeof(*sessions));
	world.max_prefixes = world.max_sessions = WORLD_SLOTS / 4 * 3;
	world.now = 1000000000000ull;
	world.random = 1;
	world.services[0].flags = KV_SERVICE_UP;
	world.services[0].policy = policy;
	world.services[0].n_backends = n;
	for (__u32 i = 0; i < n; i++) {
		world.services[0].backends[i] = i;
		world.backends[i].state = KV_BACKEND_UP;
		world.backends[i].epoch =
			1; /* backend 0, epoch 0, clock 0 would be an empty word */
		world.backends[i].capacity = capacity;
		world.backends[i].rate = rate;
	}
}

static inline void world_free(void)
{
	free(world.prefixes);
	free(world.sessions);
	world.prefixes = NULL;
	world.sessions = NULL;
}

#endif /* KVSTEER_TESTS_STEER_WORLD_H */
