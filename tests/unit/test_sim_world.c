// SPDX-License-Identifier: BSD-2-Clause
/* The simulator's table of sessions: a full one finds what it has, and takes nothing new. */
#include <string.h>

#include "check.h"

#define WORLD_SLOTS 64u
#include "steer_world.h"

static __u64 key_of(__u32 i)
{
	return kv_mix(i + 1);
}

int main(void)
{
	TEST("a full table finds what it has, and takes nothing new")
	{
		world_reset(KV_POLICY_PRICE, 1, 1000, 1000);
		CHECK_EQ(world.max_sessions, 48);
		for (__u32 i = 0; i < 48; i++)
			CHECK(kv_world_session_create(key_of(i)) != NULL);
		CHECK(!kv_world_session_create(key_of(48)));
		CHECK(!kv_world_session(key_of(48)));
		for (__u32 i = 0; i < 48; i++)
			CHECK(kv_world_session_create(key_of(i)) == kv_world_session(key_of(i)));
		CHECK_EQ(world.n_sessions, 48);
	}

	world_free();
	return check_done();
}
