/* SPDX-License-Identifier: BSD-2-Clause */
/* Deciding: beliefs other than rungs that count whole: sessions, and what counts by its share. */
#include "check.h"
#include "steer_cases.h"

static void test_session(void)
{
	TEST("session: what the prompt has grown by, in tokens where they are known")
	{
		world_reset(KV_POLICY_PRICE, 4, 1000000, 1000);
		world.backends[0].clock = 10;
		in_session(3, 7, 900, 0);
		ask(0);
		st.query.session = 7;
		st.query.total = 1000;
		CHECK_EQ(decide(), 3);
		CHECK_EQ(st.choice.own, 100);
		st.query.session = 8;
		CHECK(decide() != 3 || st.choice.own == 1000);
	}

	TEST("session: in bytes where they are not")
	{
		world_reset(KV_POLICY_PRICE, 4, 1000000, 1000);
		in_session(3, 7, 0, 4000);
		ask(0);
		st.query.session = 7;
		st.query.body_len = 4400;
		CHECK_EQ(decide(), 3);
		CHECK_EQ(st.need, 1100);
		CHECK_EQ(st.choice.own, 100);
		/* cut by 1,000 bytes: as much again is taken to differ */
		st.query.body_len = 3000;
		CHECK_EQ(decide(), 3);
		CHECK_EQ(st.choice.matched, 500);
		st.query.body_len = 2000;
		decide();
		CHECK_EQ(st.choice.best, 0);
		st.query.body_len = 1ull << 60; /* no overflow */
		decide();
		CHECK_EQ(st.need, ~0u);
	}

	TEST("session: dead with its backend's cache; rungs know better")
	{
		in_session(3, 7, 900, 0);
		hold(1, 5, 0);
		ask(10);
		st.query.session = 7;
		CHECK_EQ(decide(), 1);
		ask(0);
		st.query.session = 7;
		st.query.total = 1000;
		CHECK_EQ(decide(), 3);
		world.backends[3].epoch++;
		decide();
		CHECK_EQ(st.choice.best, 0);
	}
}

/* Both hold the prompt, 0 more of it; 2 and 3 hold nothing, and have taken in less. */
static void two_holders(__u32 policy)
{
	world_reset(policy, 4, 1000000, 1000);
	for (__u32 i = 0; i < 4; i++)
		world.backends[i].clock = 1000 - 100 * i;
	hold(0, 9, 0);
	hold(1, 5, 0);
	ask(10);
}

static void test_discount(void)
{
	static const __u32 policies[] = {KV_POLICY_PRICE, KV_POLICY_STICKY, KV_POLICY_TTFT};

	TEST("discounted wholly, a backend counts as holding nothing, and no other one")
	{
		for (__u32 i = 0; i < 3; i++) {
			two_holders(policies[i]);
			busy(0, 50);
			CHECK_EQ(decide(), 0);
			world.backends[0].discount = KV_DISCOUNT_ALL;
			CHECK_EQ(decide(), 1);
			CHECK_EQ(st.choice.matched, 500);
			CHECK_EQ(st.choice.best, 500);
			CHECK_EQ(st.choice.believed, 500);
			world.backends[1].discount = KV_DISCOUNT_ALL;
			busy(1, 50);
			CHECK_EQ(decide(), 3);
			CHECK_EQ(st.choice.best, 0);
			/* and it is charged and shown as what it will be */
			busy(2, 100);
			busy(3, 100);
			CHECK_EQ(decide(), 0);
			CHECK_EQ(st.choice.matched, 0);
			CHECK_EQ(st.choice.believed, 900);
			CHECK_EQ(st.choice.own, 1000);
			CHECK_EQ(st.choice.intended, 0);
		}
	}

	TEST("a match counts by its share, a fresh backend's whole")
	{
		for (__u32 i = 0; i < 3; i++) {
			two_holders(policies[i]);
			CHECK_EQ(world.backends[0].discount, 0);
			CHECK_EQ(decide(), 0);
			CHECK_EQ(st.choice.matched, 900);
			world.backends[0].discount = 40; /* 540 of 900 */
			CHECK_EQ(decide(), 0);
			CHECK_EQ(st.choice.best, 540);
			CHECK_EQ(st.choice.matched, 540);
			CHECK_EQ(st.choice.believed, 900);
			CHECK_EQ(st.choice.own, 460);
			world.backends[0].discount = 50; /* 450: less than 500 */
			CHECK_EQ(decide(), 1);
			CHECK_EQ(st.choice.best, 500);
			CHECK_EQ(st.choice.matched, 500);
			world.backends[1].discount = 99; /* 5 */
			CHECK_EQ(decide(), 0);
			CHECK_EQ(st.choice.best, 450);
			/* no more than all of it is taken off */
			world.backends[0].discount = ~0u;
			CHECK_EQ(decide(), 1);
			CHECK_EQ(st.choice.best, 5);
		}
	}

	TEST("at equal cost a belief that is discounted is put to the test, the longest first")
	{
		two_holders(KV_POLICY_PRICE);
		world.backends[0].discount = world.backends[1].discount = KV_DISCOUNT_ALL;
		CHECK_EQ(decide(), 0);
		busy(0, 1);
		CHECK_EQ(decide(), 1);
		busy(1, 1);
		CHECK_EQ(decide(), 3);
		/* also when the clock has gone further than any prompt is long */
		two_holders(KV_POLICY_PRICE);
		world.backends[0].discount = world.backends[1].discount = KV_DISCOUNT_ALL;
		world.backends[2].clock = 0;
		CHECK_EQ(decide(), 0);
		/* where it counts nothing is different */
		world.backends[0].discount = world.backends[1].discount = 0;
		CHECK_EQ(decide(), 0);
	}

	TEST("a service's affinity held full or off, whatever has been measured")
	{
		two_holders(KV_POLICY_PRICE);
		busy(0, 50);
		world.backends[0].discount = KV_DISCOUNT_ALL;
		world.services[0].affinity = KV_AFFINITY_FULL;
		CHECK_EQ(decide(), 0);
		CHECK_EQ(st.choice.matched, 900);
		world.backends[0].discount = 55;
		CHECK_EQ(decide(), 0);
		CHECK_EQ(st.choice.matched, 900);
		world.backends[0].discount = 0;
		world.services[0].affinity = KV_AFFINITY_OFF;
		CHECK_EQ(decide(), 3); /* off: not even put to the test */
		CHECK_EQ(st.choice.best, 0);
		busy(2, 100);
		busy(3, 100);
		CHECK_EQ(decide(), 1);
		CHECK_EQ(st.choice.matched, 0);
		CHECK_EQ(st.choice.believed, 500);
	}

	TEST("discounted: sessions count no more than prefixes do; hash goes its way")
	{
		world_reset(KV_POLICY_PRICE, 4, 1000000, 1000);
		in_session(3, 7, 900, 0);
		ask(0);
		st.query.session = 7;
		st.query.total = 1000;
		busy(3, 50);
		CHECK_EQ(decide(), 3);
		world.backends[3].discount = KV_DISCOUNT_ALL;
		CHECK(decide() != 3);
		world.services[0].policy = KV_POLICY_HASH;
		world.backends[3].discount = 0;
		for (__u32 key = 1; key < 50; key++) {
			__u32 was;

			st.query.session = key;
			was = decide();
			world.backends[was].discount = KV_DISCOUNT_ALL;
			CHECK_EQ(decide(), was);
			world.backends[was].discount = 0;
		}
	}

	TEST("discounted, in a large fleet: its holders are drawn, and count by their load")
	{
		__u32 there = 0;

		world_reset(KV_POLICY_PRICE, 200, 1000000, 1000);
		hold(150, 8, 0);
		world.backends[150].discount = KV_DISCOUNT_ALL;
		ask(10);
		for (int i = 0; i < 100; i++)
			there += decide() == 150;
		CHECK_EQ(there, 100); /* all are idle */
		busy(150, 1);
		for (int i = 0; i < 100; i++)
			there += decide() == 150;
		CHECK_EQ(there, 100);
	}
}

int main(void)
{
	test_session();
	test_discount();
	world_free();
	return check_done();
}
