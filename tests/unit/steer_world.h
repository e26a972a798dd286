/* SPDX-License-Identifier: BSD-2-Clause */
/* The simulator's world for tests: one of it, whose insides can be read and set. */
#ifndef KVSTEER_TESTS_STEER_WORLD_H
#define KVSTEER_TESTS_STEER_WORLD_H

#include "sim/world.h"

#ifndef WORLD_SLOTS
#define WORLD_SLOTS (1u << 19) /* of each table */
#endif

#define WORLD_SETS (WORLD_SLOTS / KV_WAYS)

static struct steer_world world;

/* A word of the i-th place for a prefix, as it was stored; 0: an empty one. */
static inline __u64 world_holder(__u32 i, __u32 j)
{
	const struct kv_prefix_set *set = &world.prefixes[i / KV_WAYS];
	__u64 hash = set->hash[i % KV_WAYS];

	return hash ? kv_prefix_bind(set->entry[i % KV_WAYS].holder[j], hash) : 0;
}

static inline __u32 world_known(void)
{
	__u32 n = 0;

	for (__u32 i = 0; i < world.prefix_sets * KV_WAYS; i++)
		n += world.prefixes[i / KV_WAYS].hash[i % KV_WAYS] != 0;
	return n;
}

/* An empty world: one service (0) of n equal backends, all up. */
static inline void world_reset(__u32 policy, __u32 n, __u64 capacity, __u64 rate)
{
	struct kv_prefix_set *prefixes = world.prefixes;
	struct world_session *sessions = world.sessions;

	memset(&world, 0, sizeof(world));
	if (prefixes && sessions) {
		/* clearing costs less than the page faults of fresh memory */
		world.prefixes = memset(prefixes, 0, WORLD_SETS * sizeof(*prefixes));
		world.sessions = memset(sessions, 0, WORLD_SLOTS * sizeof(*sessions));
		world.prefix_sets = WORLD_SETS;
		world.session_slots = WORLD_SLOTS;
	} else if (world_alloc(&world, WORLD_SETS, WORLD_SLOTS)) {
		abort();
	}
	kv_world = &world;
	world_populate(&world, policy, n, capacity, rate);
}

static inline void world_free(void)
{
	world.prefix_sets = WORLD_SETS;
	world_free_tables(&world);
}

#endif /* KVSTEER_TESTS_STEER_WORLD_H */
