// SPDX-License-Identifier: BSD-2-Clause
/* The tables that the simulator and the steering tests stand on: entries come and go in any order,
 * and a full table takes no more. */
#include <string.h>

#include "check.h"

#define WORLD_SLOTS 64u
#include "steer_world.h"

#define KEYS 96u

static __u64 key_of(__u32 i)
{
	return kv_mix(i + 1);
}

static int enter(__u32 i)
{
	const struct kv_prefix fresh = {.holder = {i + 1}};

	return kv_world_prefix_insert(key_of(i), &fresh);
}

/* Each of the keys is there, with its own value, if and only if it has to be. */
static bool as_wanted(const bool *there)
{
	__u32 n = 0;

	for (__u32 i = 0; i < KEYS; i++) {
		const struct kv_prefix *p = kv_world_prefix(key_of(i));

		n += there[i];
		if (!p != !there[i] || (p && p->holder[0] != i + 1))
			return false;
	}
	return world.n_prefixes == n;
}

int main(void)
{
	TEST("prefixes come and go in any order: none is lost, none comes back")
	{
		bool there[KEYS] = {false};
		__u64 random = 1;

		world_reset(KV_POLICY_PRICE, 1, 1000, 1000);
		for (int i = 0; i < 20000 && as_wanted(there); i++) {
			__u32 key = (sim_random(&random) >> 33) % KEYS;
			bool full = world.n_prefixes == world.max_prefixes;

			if (there[key] && i % 2) {
				kv_world_prefix_delete(key_of(key));
				there[key] = false;
			} else {
				CHECK_EQ(enter(key), there[key] ? -EEXIST : full ? -ENOMEM : 0);
				there[key] |= !full;
			}
		}
		CHECK(as_wanted(there));
	}

	TEST("a full table finds what it has, and takes nothing new")
	{
		bool there[KEYS] = {false};

		world_reset(KV_POLICY_PRICE, 1, 1000, 1000);
		CHECK_EQ(world.max_prefixes, 48);
		for (__u32 i = 0; i < 48; i++)
			there[i] = enter(i) == 0 && kv_world_session_create(key_of(i));
		CHECK_EQ(enter(48), -ENOMEM);
		CHECK_EQ(enter(47), -EEXIST);
		CHECK(as_wanted(there));
		CHECK_EQ(world.n_prefixes, 48);
		kv_world_prefix_delete(key_of(50)); /* not there */
		CHECK_EQ(world.n_prefixes, 48);
		CHECK(!kv_world_session_create(key_of(48)));
		CHECK(kv_world_session_create(key_of(47)) == kv_world_session(key_of(47)));
		CHECK_EQ(world.n_sessions, 48);
	}

	world_free();
	return check_done();
}
