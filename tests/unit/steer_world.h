/* SPDX-License-Identifier: BSD-2-Clause */
/* The simulator's world for tests: one of it, whose insides can be read and set. */
#ifndef KVSTEER_TESTS_STEER_WORLD_H
#define KVSTEER_TESTS_STEER_WORLD_H

#include "sim/world.h"

#ifndef WORLD_SLOTS
#define WORLD_SLOTS (1u << 19) /* of the prefix table; sessions have the same */
#endif

static struct steer_world world;

/* An empty world: one service (0) of n equal backends, all up. */
static inline void world_reset(__u32 policy, __u32 n, __u64 capacity, __u64 rate)
{
	struct world_prefix *prefixes = world.prefixes;
	struct world_session *sessions = world.sessions;

	memset(&world, 0, sizeof(world));
	if (prefixes && sessions) {
		/* clearing costs less than the page faults of fresh memory */
		world.prefixes = memset(prefixes, 0, WORLD_SLOTS * sizeof(*prefixes));
		world.sessions = memset(sessions, 0, WORLD_SLOTS * sizeof(*sessions));
		world.prefix_slots = world.session_slots = WORLD_SLOTS;
	} else if (world_alloc(&world, WORLD_SLOTS, WORLD_SLOTS)) {
		abort();
	}
	kv_world = &world;
	world_populate(&world, policy, n, capacity, rate);
}

static inline void world_free(void)
{
	world_free_tables(&world);
}

#endif /* KVSTEER_TESTS_STEER_WORLD_H */
