/* SPDX-License-Identifier: BSD-2-Clause */
/* Telling: what engines say of their caches beside what is learned; told wins. */
#include "check.h"
#include "steer_cases.h"

static struct kv_steer scratch; /* telling has its own, and may come between decide and commit */
static struct kv_telling telling;

static int tell(__u32 backend, __u32 gone, __u32 from, __u32 to)
{
	telling.backend = backend;
	telling.epoch = world.backends[backend].epoch;
	telling.gone = gone;
	telling.n = 0;
	for (__u32 rung = from; rung <= to; rung++)
		telling.hash[telling.n++] = HASH(rung);
	return kv_tell(&scratch, &telling);
}

static __u32 matched(__u32 rungs)
{
	ask(rungs);
	decide();
	return st.choice.matched;
}

static void test_told(void)
{
	TEST("stored: held at once and whatever its age; gone: held no more")
	{
		world_reset(KV_POLICY_PRICE, 2, 1000, 1000);
		CHECK_EQ(tell(1, 0, 1, 4), 0);
		CHECK_EQ(matched(6), 400);
		CHECK_EQ(st.choice.backend, 1);
		CHECK_EQ(world.backends[1].clock, 0); /* ages only what is learned */
		world.backends[1].clock = 100000;
		CHECK_EQ(matched(6), 400);
		CHECK_EQ(tell(1, 1, 3, 4), 0);
		CHECK_EQ(matched(6), 200);
		CHECK_EQ(tell(1, 1, 1, 9), 0); /* of some of them nothing is known */
		CHECK_EQ(world_known(), 0);
		CHECK_EQ(matched(6), 0);
		CHECK_EQ(holder(1, 1), 0);
	}

	TEST("one backend's word says nothing of another's cache")
	{
		world_reset(KV_POLICY_PRICE, 3, 1000, 1000);
		hold(0, 4, 0);
		tell(1, 0, 4, 4);
		tell(2, 0, 4, 4);
		tell(2, 1, 4, 4);
		CHECK(holder(0, 4));
		CHECK(holder(1, 4) & KV_HOLDER_TOLD);
		CHECK_EQ(holder(2, 4), 0);
	}

	TEST("told twice is told once; told over learned is told")
	{
		world_reset(KV_POLICY_PRICE, 1, 1000, 1000);
		hold(0, 4, 0);
		tell(0, 0, 4, 4);
		tell(0, 0, 4, 4);
		CHECK(holder(0, 4) & KV_HOLDER_TOLD);
		CHECK_EQ(word(4, 1), 0);
	}

	TEST("told wins: what is gone is not held, though it was learned")
	{
		world_reset(KV_POLICY_PRICE, 1, 1000, 1000);
		hold(0, 4, 0);
		tell(0, 1, 4, 4);
		CHECK_EQ(matched(4), 0);
	}

	TEST("a request under way has it again in a moment: that stays, and is settled as ever")
	{
		world_reset(KV_POLICY_PRICE, 1, 1000, 1000);
		ask(4);
		decide();
		commit();
		tell(0, 1, 1, 4);
		CHECK_EQ(matched(4), 400);
		tell(0, 0, 1, 3); /* the engine is done with these, and says so */
		kv_dispatch_failed(&dispatch);
		CHECK_EQ(matched(4), 300); /* taken back, but not what was told */
	}

	TEST("in a slower tier it is worth less, unless what is worth more is shallower")
	{
		world_reset(KV_POLICY_PRICE, 1, 1000, 1000);
		world.services[0].events.weight[1] = KV_TIER_WHOLE / 2;
		telling.tier = 1;
		tell(0, 0, 1, 4);
		CHECK_EQ(matched(4), 200);
		CHECK_EQ(st.choice.best, 200);
		telling.tier = 0;
		tell(0, 0, 1, 3);
		CHECK_EQ(matched(4), 300);
		tell(0, 0, 4, 4);
		CHECK_EQ(matched(4), 400);
		telling.tier = 2; /* of no weight */
		tell(0, 0, 1, 4);
		telling.tier = 0;
		CHECK_EQ(matched(4), 0);
	}

	TEST("the engine is not heard any more: what it told counts as learned, and grows old")
	{
		world_reset(KV_POLICY_PRICE, 1, 1000, 1000);
		tell(0, 0, 1, 4);
		world.backends[0].told_from = ++world.backends[0].clock;
		CHECK_EQ(matched(4), 400);
		tell(0, 0, 1, 2); /* heard again */
		world.backends[0].clock += 999;
		CHECK_EQ(matched(4), 200);
		world.backends[0].clock = world.backends[0].told_from;
		ask(4);
		decide();
		commit(); /* does not make it told again */
		kv_dispatch_answered(&dispatch);
		CHECK(!(holder(0, 4) & KV_HOLDER_TOLD));
		CHECK(holder(0, 2) & KV_HOLDER_TOLD);
	}

	TEST("dispatching on top of what is told does not make it forgettable")
	{
		world_reset(KV_POLICY_PRICE, 1, 1000, 1000);
		tell(0, 0, 1, 4);
		ask(4);
		decide();
		commit();
		kv_dispatch_failed(&dispatch);
		CHECK_EQ(matched(4), 400);
		world.backends[0].clock += 5000;
		CHECK_EQ(matched(4), 400);
	}
}

static void test_bounds(void)
{
	TEST("of an older epoch nothing is believed; raising it forgets all that was told")
	{
		world_reset(KV_POLICY_PRICE, 1, 1000, 1000);
		tell(0, 0, 1, 4);
		world.backends[0].epoch++;
		CHECK_EQ(matched(4), 0);
		telling.gone = 0;
		CHECK_EQ(kv_tell(&scratch, &telling), -ENOENT);
		CHECK_EQ(matched(4), 0);
		tell(0, 0, 2, 2); /* the same place, anew */
		CHECK_EQ(matched(4), 200);
		CHECK_EQ(word(2, 1), 0);
	}

	TEST("no such backend; more than there is room for; nothing")
	{
		world_reset(KV_POLICY_PRICE, 1, 1000, 1000);
		telling.backend = KV_NONE;
		CHECK_EQ(kv_tell(&scratch, &telling), -ENOENT);
		telling.backend = 0;
		telling.epoch = world.backends[0].epoch;
		telling.n = 0xffffffff; /* the array's length at most */
		CHECK_EQ(kv_tell(&scratch, &telling), 0);
		telling.n = 0;
		CHECK_EQ(kv_tell(&scratch, &telling), 0);
	}

	TEST("more holders than an entry has places: each new one is entered, told or not")
	{
		world_reset(KV_POLICY_PRICE, KV_HOLDERS + 1, 1000, 1000);
		for (__u32 id = 0; id <= KV_HOLDERS; id++) {
			tell(id, 0, 4, 4);
			CHECK(holder(id, 4));
		}
		CHECK_EQ(world.counters[KV_CNT_holder_evicted], 1);
	}

	TEST("a full table: counted")
	{
		world_reset(KV_POLICY_PRICE, 1, 1000, 1000);
		world.prefix_sets = 1;
		for (__u32 rung = 1; rung <= KV_WAYS + 2; rung++) {
			world.now += SECOND;
			tell(0, 0, rung, rung);
		}
		CHECK_EQ(world.counters[KV_CNT_prefix_inserted], KV_WAYS + 2);
		CHECK_EQ(world.counters[KV_CNT_prefix_evicted], 2);
		CHECK(!known(1) && !known(2));
		CHECK_EQ(world_known(), KV_WAYS);
		/* told once more is not the oldest any longer */
		world.now += SECOND;
		tell(0, 0, 3, 3);
		world.now += SECOND;
		tell(0, 0, 20, 20);
		CHECK(known(3) && !known(4));
	}
}

int main(void)
{
	test_told();
	test_bounds();
	return check_done();
}
