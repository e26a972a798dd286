/* SPDX-License-Identifier: BSD-2-Clause */
/* Learning: the clock, liveness, holders. What comes of a dispatch: test_settle.c. */
#include "check.h"
#include "steer_cases.h"

static __u64 clock_of(__u32 backend)
{
	return world.backends[backend].clock;
}

static void test_clock(void)
{
	TEST("generation clock: an example by hand")
	{
		world_reset(KV_POLICY_PRICE, 1, 1000, 1000);
		ask(4);
		decide();
		commit();
		CHECK_EQ(clock_of(0), 400); /* all new */
		decide();
		CHECK_EQ(st.choice.matched, 400);
		commit();
		CHECK_EQ(clock_of(0), 400); /* all known in this generation */
		ask(6);
		decide();
		CHECK_EQ(st.choice.matched, 400);
		commit();
		CHECK_EQ(clock_of(0), 600); /* two new */
		world.backends[0].clock = 1100;
		CHECK_EQ(kv_holder_clock(holder(0, 6)), 1); /* 599 tokens in front of its last */
		ask(6);
		decide();
		/* alive is what 500 of 1,000 that have entered since have left … */
		CHECK_EQ(st.choice.matched, 500);
		commit();
		CHECK_EQ(clock_of(0), 1700); /* … but first touched in this generation */
		for (__u32 rung = 1; rung <= 6; rung++)
			CHECK_EQ(kv_holder_clock(holder(0, rung)), 1701 - 100 * rung);
	}

	TEST("liveness: capacity, epoch, and entries that were told")
	{
		world_reset(KV_POLICY_PRICE, 1, 1000, 1000);
		hold(0, 4, 0);
		ask(4);
		world.backends[0].clock = 999;
		decide();
		CHECK_EQ(st.choice.matched, 400);
		world.backends[0].clock = 1000;
		decide();
		CHECK_EQ(st.choice.matched, 0);
		set_word(4, 0, word(4, 0) | KV_HOLDER_TOLD);
		decide();
		CHECK_EQ(st.choice.matched, 400);
		world.backends[0].epoch++;
		decide();
		CHECK_EQ(st.choice.matched, 0);
		world.backends[0].epoch += 4095; /* only 12 bits of it are kept */
		decide();
		CHECK_EQ(st.choice.matched, 400);
	}

	TEST("the clock's 40 bits wrap; entries newer than our reading of it are alive")
	{
		const __u64 top = 1ull << 40;

		world_reset(KV_POLICY_PRICE, 1, 1000, 1000);
		world.backends[0].clock = top - 100;
		hold(0, 4, 0);
		world.backends[0].clock = top + 899;
		ask(4);
		decide();
		CHECK_EQ(st.choice.matched, 400);
		world.backends[0].clock = top + 900;
		decide();
		CHECK_EQ(st.choice.matched, 0);
		world.backends[0].clock = top - 500;
		decide();
		CHECK_EQ(st.choice.matched, 400);
		/* the generation before the wrap is an earlier one */
		world.backends[0].clock = top + 300;
		decide();
		commit();
		CHECK_EQ(clock_of(0), top + 700);
		decide();
		commit();
		CHECK_EQ(clock_of(0), top + 700);
		/* an entry from beyond the clock's beginning says nothing */
		for (__u32 rung = 1; rung <= 4; rung++)
			set_word(rung, 0, kv_holder_make(0, 1, top / 2, 0));
		world.backends[0].clock = 100;
		decide();
		commit();
		CHECK_EQ(clock_of(0), 500);
	}

	TEST("without rungs the prompt enters whole, a session's by what it has grown")
	{
		world_reset(KV_POLICY_PRICE, 1, 100000, 1000);
		ask(0);
		st.query.total = 70;
		decide();
		commit();
		CHECK_EQ(clock_of(0), 70);
		st.query.session = 5;
		st.query.total = 1000;
		decide();
		commit();
		CHECK_EQ(clock_of(0), 1070);
		st.query.total = 1200;
		decide();
		commit();
		CHECK_EQ(clock_of(0), 1270);
		CHECK_EQ(kv_world_session(5)->total, 1200);
		world.backends[0].clock = 100001; /* another generation */
		decide();
		CHECK_EQ(st.choice.own, 0);
		commit();
		CHECK_EQ(clock_of(0), 101201);
	}
}

static void test_holders(void)
{
	TEST("places: free, then dead, then the one furthest through its cache")
	{
		world_reset(KV_POLICY_PRICE, 12, 1000, 1000);
		for (__u32 i = 0; i < 8; i++) {
			world.backends[i].clock = 500;
			hold(i, 1, 0);
		}
		ask(1);
		/* backend 8 is new here; 3 has taken in most since */
		for (__u32 i = 0; i < 12; i++)
			world.backends[i].state = KV_BACKEND_UP;
		world.backends[2].clock += 700;
		world.backends[3].clock += 900;
		world.backends[4].clock += 1800;
		world.backends[4].capacity = 4000;
		for (__u32 k = 8; k < 11; k++) {
			decide();
			st.choice.backend = k;
			commit();
			CHECK(holder(k, 1) != 0);
			CHECK_EQ(world.counters[KV_CNT_holder_evicted], k - 7);
		}
		CHECK_EQ(holder(3, 1), 0);
		CHECK_EQ(holder(2, 1), 0);
		CHECK_EQ(holder(4, 1), 0);
		world.backends[6].epoch++;
		decide();
		st.choice.backend = 11;
		commit();
		CHECK_EQ(holder(6, 1), 0);
		CHECK_EQ(world.counters[KV_CNT_holder_evicted], 3);
		/* its own place, when it has one */
		st.choice.backend = 0;
		commit();
		CHECK_EQ(world.counters[KV_CNT_holder_evicted], 3);
	}

	TEST("full tables: counted, and the request is served")
	{
		world_reset(KV_POLICY_PRICE, 2, 100000, 1000);
		world.prefix_sets = 1;
		world.max_sessions = 0;
		hold(0, 9, 0);
		world.now += SECOND;
		ask(KV_WAYS + 1);
		st.query.n_rungs = KV_WAYS;
		st.query.session = 9;
		decide();
		commit();
		CHECK_EQ(world.counters[KV_CNT_prefix_inserted], KV_WAYS);
		CHECK_EQ(world.counters[KV_CNT_prefix_evicted], 1);
		CHECK_EQ(world.counters[KV_CNT_session_full], 1);
		CHECK(!known(9));
		decide();
		CHECK_EQ(st.choice.best, 100 * KV_WAYS);
		/* another CPU at work there: not stored, and served */
		world.prefixes[0].busy = 1;
		st.query.rungs[0].hash = HASH(20);
		st.query.n_rungs = 1;
		decide();
		commit();
		CHECK_EQ(world.counters[KV_CNT_prefix_busy], 1);
		CHECK_EQ(world.counters[KV_CNT_prefix_inserted], KV_WAYS);
	}

	TEST("a session's home outlives a diverted request under sticky, and moves under price")
	{
		world_reset(KV_POLICY_STICKY, 2, 100000, 1000);
		in_session(1, 7, 900, 0);
		busy(1, 20000);
		ask(0);
		st.query.session = 7;
		st.query.total = 1000;
		CHECK_EQ(decide(), 0);
		commit();
		CHECK_EQ(kv_holder_backend(kv_world_session(7)->holder), 1);
		CHECK_EQ(kv_world_session(7)->total, 900);
		world.services[0].policy = KV_POLICY_PRICE;
		CHECK_EQ(decide(), 0);
		commit();
		CHECK_EQ(kv_holder_backend(kv_world_session(7)->holder), 0);
		CHECK_EQ(kv_world_session(7)->total, 1000);
	}

	TEST("a diverted request's prefix is learned where it is served")
	{
		world_reset(KV_POLICY_STICKY, 2, 100000, 1000);
		hold(1, 10, 0);
		busy(1, 20000);
		ask(10);
		CHECK_EQ(decide(), 0);
		CHECK_EQ(st.choice.intended, 1);
		commit();
		CHECK(holder(0, 10) && holder(1, 10));
		CHECK_EQ(world.counters[KV_CNT_diverted], 1);
	}
}

int main(void)
{
	test_clock();
	test_holders();
	world_free();
	return check_done();
}
