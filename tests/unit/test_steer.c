/* SPDX-License-Identifier: BSD-2-Clause */
/* Deciding: every policy, candidates, sessions, large fleets. What is learned: test_learn.c. */
#include "check.h"
#include "steer_cases.h"

static void test_price(void)
{
	TEST("price: holder while that is cheaper than another's idle cache")
	{
		world_reset(KV_POLICY_PRICE, 4, 1000000, 1000);
		hold(2, 8, 0);
		ask(10);
		CHECK_EQ(decide(), 2);
		CHECK_EQ(st.choice.matched, 800);
		CHECK_EQ(st.choice.best, 800);
		CHECK_EQ(st.choice.own, 200);
		CHECK_EQ(st.choice.wait, 0);
		busy(2, 799);
		CHECK_EQ(decide(), 2);
		CHECK_EQ(st.choice.wait, 799);
		busy(2, 801);
		CHECK(decide() != 2);
		CHECK_EQ(st.choice.matched, 0);
		CHECK_EQ(st.choice.best, 800);
		CHECK_EQ(st.choice.own, 1000);
	}

	TEST("price: a busy fleet waits longer to save work, ttft does not")
	{
		/* u = 1/2: p = 1, so a holder is worth twice what it saves */
		world.services[0].used_tokens = 4 * 1000 * 30 / 2;
		world.services[0].used_at = world.now;
		busy(2, 1599);
		CHECK_EQ(decide(), 2);
		CHECK_EQ(st.choice.price, 1024);
		busy(2, 1601);
		CHECK(decide() != 2);
		world.services[0].policy = KV_POLICY_TTFT;
		busy(2, 801);
		CHECK(decide() != 2);
		CHECK_EQ(st.choice.price, 0);
		busy(2, 799);
		CHECK_EQ(decide(), 2);
	}

	TEST("price: where no queue can be avoided, saving work counts for all who come meanwhile")
	{
		world_reset(KV_POLICY_PRICE, 4, 1000000, 1000);
		hold(2, 8, 0);
		ask(10);
		/* one per second and engine, 10 s of queue at all: p = 10, and 0.8 s are saved */
		world.services[0].used_requests = 4 * 30 * 1024;
		world.services[0].used_at = world.now;
		for (__u32 i = 0; i < 4; i++)
			busy(i, 10000);
		busy(2, 18700);
		CHECK_EQ(decide(), 2);
		CHECK(st.choice.price > 9 * 1024 && st.choice.price <= 10 * 1024);
		busy(2, 18900);
		CHECK(decide() != 2);
		busy(2, 18700);
		busy(1, 0); /* who comes can go there */
		CHECK_EQ(decide(), 1);
		CHECK_EQ(st.choice.price, 0);
	}

	TEST("price: ties go to the cache that has taken in least")
	{
		world_reset(KV_POLICY_PRICE, 4, 1000000, 1000);
		for (__u32 i = 0; i < 4; i++)
			world.backends[i].clock = 1000 - 10 * (i == 1);
		ask(10);
		CHECK_EQ(decide(), 1);
	}

	TEST("unequal engines are compared in time, not in tokens")
	{
		world_reset(KV_POLICY_PRICE, 2, 1000000, 1000);
		world.backends[1].rate = 4000;
		ask(10);
		busy(1, 2900);
		CHECK_EQ(decide(), 1); /* 2900 + 1000 at 4000/s beat 1000 at 1000/s */
		busy(1, 3100);
		CHECK_EQ(decide(), 0);
	}

	TEST("prefill in progress is not queued, but no more than one request of it")
	{
		world_reset(KV_POLICY_PRICE, 1, 1000000, 1000);
		kv_queue_add(&world.backends[0], world.now, 300);
		kv_queue_add(&world.backends[0], world.now, 500);
		world.now += 200000000;
		CHECK_EQ(kv_wait(&world.backends[0], world.now), 600);
		CHECK_EQ(kv_wait(&world.backends[0], world.now + 3600 * SECOND), 300);
		CHECK_EQ(kv_wait(&world.backends[0], world.now - SECOND), 800);
		kv_queue_remove(&world.backends[0], world.now, 300);
		CHECK_EQ(kv_wait(&world.backends[0], world.now), 500);
		world.now += 100000000;
		CHECK_EQ(kv_wait(&world.backends[0], world.now), 400);
		kv_queue_remove(&world.backends[0], world.now, 500);
		CHECK_EQ(kv_wait(&world.backends[0], world.now), 0);
	}
}

static void test_sticky(void)
{
	TEST("sticky: among holders of 80 % the least loaded, whatever it costs")
	{
		world_reset(KV_POLICY_STICKY, 4, 1000000, 1000);
		hold(2, 8, 0);
		hold(1, 8, 0);
		hold(3, 7, 0);
		ask(10);
		busy(2, 9000);
		busy(1, 9000);
		CHECK_EQ(decide(), 1);
		hold(2, 9, 0); /* as loaded, but it has more */
		CHECK_EQ(decide(), 2);
		busy(1, 8999);
		CHECK_EQ(decide(), 1);
		busy(1, 9001);
		CHECK_EQ(decide(), 2);
		CHECK_EQ(st.choice.intended, 2);
	}

	TEST("sticky: released when its queue leads by 14 s, home is remembered")
	{
		busy(1, 20000);
		busy(2, 14000);
		CHECK_EQ(decide(), 2);
		busy(2, 14001);
		CHECK_EQ(decide(), 3); /* 700 of 1,000 tokens are there: the cheapest */
		CHECK_EQ(st.choice.intended, 2);
		busy(0, 1);
		busy(3, 1);
		CHECK_EQ(decide(), 2);
	}
}

static void test_load_only(void)
{
	__u32 seen[8] = {0};

	TEST("least: the shortest queue, then the fewest requests")
	{
		world_reset(KV_POLICY_LEAST, 4, 1000000, 1000);
		hold(2, 10, 0);
		ask(10);
		busy(2, 5);
		busy(0, 4);
		busy(1, 3);
		busy(3, 3);
		world.backends[1].inflight_requests = 2;
		world.backends[3].inflight_requests = 1;
		CHECK_EQ(decide(), 3);
		world.backends[3].inflight_requests = 3;
		CHECK_EQ(decide(), 1);
		CHECK_EQ(st.choice.best, 1000);
	}

	TEST("least: equals take turns, whichever of them are equal")
	{
		world_reset(KV_POLICY_LEAST, 6, 1000000, 1000);
		world.backends[1].inflight_requests = 1;
		busy(4, 50);
		for (int i = 0; i < 40; i++) {
			world.now++;
			ask(i % 2 * 10);
			seen[decide() & 7]++;
			commit();
			kv_dispatch_answered(&dispatch);
			kv_dispatch_finished(&dispatch);
		}
		for (int i = 0; i < 6; i++)
			CHECK_EQ(seen[i], i == 1 || i == 4 ? 0 : 10);
		memset(seen, 0, sizeof(seen));
	}

	TEST("p2c: the less loaded of two, the most loaded never")
	{
		world_reset(KV_POLICY_P2C, 4, 1000000, 1000);
		ask(10);
		for (__u32 i = 0; i < 4; i++)
			busy(i, 300 - 100 * i);
		for (int i = 0; i < 6000; i++)
			seen[decide() & 7]++;
		CHECK_EQ(seen[0], 0);
		/* of 6 pairs 3 hold backend 3, 2 more hold 2 */
		CHECK(seen[3] > 2800 && seen[3] < 3200);
		CHECK(seen[2] > 1800 && seen[2] < 2200);
		CHECK(seen[1] > 850 && seen[1] < 1150);
	}

	TEST("a request of which nothing is known is spread by requests in flight")
	{
		world_reset(KV_POLICY_PRICE, 4, 1000000, 1000);
		ask(0);
		memset(seen, 0, sizeof(seen));
		for (int i = 0; i < 400; i++) {
			seen[decide() & 7]++;
			commit();
		}
		for (int i = 0; i < 4; i++)
			CHECK(seen[i] > 95 && seen[i] < 105);
	}

	TEST("round-robin: one after the other, over those that are up")
	{
		const __u32 turns[] = {0, 2, 3};

		world_reset(KV_POLICY_ROUND_ROBIN, 4, 1000000, 1000);
		world.backends[1].state = KV_BACKEND_DOWN;
		ask(10);
		for (int i = 0; i < 9; i++)
			CHECK_EQ(decide(), turns[i % 3]);
	}
}

static __u32 hashed(__u64 key)
{
	ask(0);
	st.query.session = key;
	return decide();
}

static void test_hash(void)
{
	TEST("hash: a key stays, keys spread, and only what must moves")
	{
		__u32 seen[8] = {0}, home;

		world_reset(KV_POLICY_HASH, 8, 1000000, 1000);
		for (__u64 key = 1; key <= 8000; key++) {
			home = hashed(key);
			CHECK_EQ(hashed(key), home);
			seen[home & 7]++;
		}
		for (int i = 0; i < 8; i++)
			CHECK(seen[i] > 850 && seen[i] < 1150);
		for (__u64 key = 1; key <= 1000; key++) {
			world.backends[5].state = KV_BACKEND_UP;
			home = hashed(key);
			world.backends[5].state = KV_BACKEND_DOWN;
			CHECK(home == 5 ? hashed(key) != 5 : hashed(key) == home);
		}
	}

	TEST("hash: load is bounded by 1.25 of the mean")
	{
		__u64 most = 0, diverted = 0;

		world_reset(KV_POLICY_HASH, 8, 1000000, 1000);
		for (int i = 0; i < 800; i++) {
			hashed(42);
			diverted += st.choice.backend != st.choice.intended;
			commit();
		}
		for (int i = 0; i < 8; i++)
			if (world.backends[i].inflight_requests > most)
				most = world.backends[i].inflight_requests;
		CHECK(most <= 126 && most >= 124);
		CHECK(diverted > 600);
	}

	TEST("hash: without a session by the shallowest rung that counts")
	{
		__u32 home;

		world_reset(KV_POLICY_HASH, 8, 1000000, 1000);
		ask(10);
		home = decide();
		st.query.rungs[0].hash ^= 1; /* a floor lifts it over what all share */
		world.services[0].floor = 200;
		ask(10);
		home = decide();
		for (__u64 i = 0; i < 50; i++) {
			st.query.rungs[0].hash = i;
			CHECK_EQ(decide(), home);
		}
		world.services[0].floor = 0;
		for (__u64 i = 0; i < 50; i++) {
			st.query.rungs[0].hash = i;
			if (decide() != home)
				break;
		}
		CHECK(st.choice.backend != home);
	}
}

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
	test_discount();
	test_price();
	test_sticky();
	test_load_only();
	test_hash();
	test_candidates();
	test_session();
	world_free();
	return check_done();
}
