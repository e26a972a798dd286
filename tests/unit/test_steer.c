/* SPDX-License-Identifier: BSD-2-Clause */
/* Deciding, by each policy. Who can be chosen: test_steer_candidates.c; what is learned:
 * test_learn.c. */
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

int main(void)
{
	test_price();
	test_sticky();
	test_load_only();
	test_hash();
	world_free();
	return check_done();
}
