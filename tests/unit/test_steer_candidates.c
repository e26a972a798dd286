/* SPDX-License-Identifier: BSD-2-Clause */
/* Deciding: who can be chosen, and by what match: states, masks, limits, weights, large fleets. */
#include "check.h"
#include "steer_cases.h"

static void test_candidates(void)
{
	TEST("down, draining, free and excluded backends are not chosen")
	{
		for (int policy = 0; policy < KV_POLICY_MAX; policy++) {
			world_reset(policy, 5, 1000000, 1000);
			for (__u32 i = 0; i < 4; i++)
				hold(i, 10, 0);
			world.backends[0].state = KV_BACKEND_DOWN;
			world.backends[1].state = KV_BACKEND_DRAINING;
			world.backends[2].state = KV_BACKEND_FREE;
			for (int i = 0; i < 20; i++) {
				ask(10);
				st.query.exclude = 3;
				CHECK_EQ(decide(), 4);
				CHECK_EQ(st.choice.best, 0);
			}
			world.backends[4].state = KV_BACKEND_DOWN;
			CHECK_EQ(kv_steer_decide(&st), -ENOENT);
			CHECK_EQ(st.choice.backend, KV_NONE);
			st.query.service = 15; /* none of its own */
			CHECK_EQ(kv_steer_decide(&st), -ENOENT);
			st.query.service = ~0u;
			CHECK_EQ(kv_steer_decide(&st), -ENOENT);
		}
	}

	TEST("of a mask, those in it; at its limit, none")
	{
		world_reset(KV_POLICY_PRICE, 4, 1000000, 1000);
		hold(2, 8, 0);
		ask(10);
		st.masked = 1;
		st.mask[0] = 1 << 1 | 1 << 3;
		for (__u32 i = 0; i < 4; i++)
			world.backends[i].clock = 1000 - i;
		CHECK_EQ(decide(), 3);
		world.backends[3].limit = 2;
		world.backends[3].inflight_requests = 1;
		CHECK_EQ(decide(), 3);
		world.backends[3].inflight_requests = 2;
		CHECK_EQ(decide(), 1);
		st.mask[0] = 1 << 3;
		CHECK_EQ(decide(), 3); /* there is nobody else */
		st.mask[0] = 1 << 9;
		CHECK_EQ(decide(), KV_NONE);
		st.masked = 0;
		CHECK_EQ(decide(), 2);
	}

	TEST("by its weight: so many of the requests that it would get; all that it holds")
	{
		unsigned int got = 0;

		world_reset(KV_POLICY_PRICE, 2, 1000000, 1000);
		world.backends[0].clock = 1000;
		world.backends[1].weight = KV_WEIGHT_FULL / 8;
		ask(10);
		for (int i = 0; i < 8000; i++)
			got += decide() == 1;
		CHECK(got > 800 && got < 1200);
		hold(1, 8, 0);
		for (int i = 0; i < 100; i++)
			CHECK_EQ(decide(), 1);
		world.backends[0].state = KV_BACKEND_DOWN;
		ask(7);
		for (int i = 0; i < 100; i++)
			CHECK_EQ(decide(), 1);
	}

	TEST("what others have sent there counts as queued, and as in flight")
	{
		world_reset(KV_POLICY_PRICE, 2, 1000000, 1000);
		hold(1, 8, 0);
		ask(10);
		CHECK_EQ(decide(), 1);
		world.backends[1].foreign_tokens = 801;
		CHECK_EQ(decide(), 0);
		CHECK_EQ(kv_wait(&world.backends[1], world.now), 801);
		busy(1, 100);
		CHECK_EQ(kv_wait(&world.backends[1], world.now), 901);
		world_reset(KV_POLICY_LEAST, 2, 1000000, 1000);
		world.backends[0].inflight_requests = 2;
		world.backends[1].foreign_requests = 3;
		CHECK_EQ(decide(), 0);
		world.backends[0].inflight_requests = 4;
		CHECK_EQ(decide(), 1);
	}

	TEST("a match below the floor does not count")
	{
		world_reset(KV_POLICY_PRICE, 4, 1000000, 1000);
		hold(2, 3, 0);
		world.services[0].floor = 300;
		ask(10);
		CHECK_EQ(decide(), 2);
		world.services[0].floor = 301;
		CHECK_EQ(decide(), 0);
		CHECK_EQ(st.choice.best, 0);
	}

	TEST("each backend's match is its own deepest live rung")
	{
		const __u32 matches[] = {200, 900, 500, 0};

		world_reset(KV_POLICY_PRICE, 4, 1000000, 1000);
		hold(0, 2, 0);
		hold(1, 9, 0);
		hold(2, 5, 0);
		ask(10);
		CHECK_EQ(decide(), 1);
		for (int i = 0; i < 4; i++)
			CHECK_EQ(st.match[i], matches[i]);
		world.backends[1].epoch++;
		CHECK_EQ(decide(), 2);
	}

	TEST("large fleet: holders and a sample of two")
	{
		__u32 idle = 0;

		world_reset(KV_POLICY_PRICE, 200, 1000000, 1000);
		world.backends[150].service = 0;
		hold(150, 8, 0);
		hold(151, 9, 0);
		world.backends[151].service = 1; /* another service's */
		ask(10);
		CHECK_EQ(decide(), 150);
		CHECK(st.n <= 3);
		for (__u32 i = 0; i < 100; i++)
			busy(2 * i, 50);
		busy(150, 1000);
		for (int i = 0; i < 1000; i++)
			idle += decide() & 1; /* odd ones are idle */
		CHECK(idle > 700 && idle < 800);
		/* and when nearly all are down, those that are up are found */
		for (__u32 i = 0; i < 200; i++)
			world.backends[i].state = i == 77 ? KV_BACKEND_UP : KV_BACKEND_DOWN;
		CHECK_EQ(decide(), 77);
	}
}

int main(void)
{
	test_candidates();
	world_free();
	return check_done();
}
