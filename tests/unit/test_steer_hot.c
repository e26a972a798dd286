// SPDX-License-Identifier: BSD-2-Clause
/* A hot prefix: as many engines hold it as its load needs, no more, and none for ever. */
#include "check.h"
#define WORLD_SLOTS 8192
#include "steer_cases.h"

#define ENGINES 4
#define MANY 10 /* at once */

static struct kv_dispatch sent[MANY];
static __u32 fresh; /* prompts so far */

/* Asks for a prompt of 20 rungs: those from first on are nobody else's. */
static void ask_new(__u32 first)
{
	ask(20);
	fresh++;
	for (__u32 k = first; k < 20; k++)
		st.query.rungs[k].hash = kv_mix(fresh) + k;
}

/* So many at once, whose first ten rungs are new, too, or not; served half a second later. */
static void send_new(__u32 n, __u32 first)
{
	for (__u32 i = 0; i < n; i++) {
		ask_new(first);
		decide();
		kv_steer_commit(&st, &sent[i]);
	}
	world.now += SECOND / 2;
	for (__u32 i = 0; i < n; i++)
		kv_dispatch_finished(&sent[i]);
}

static void hot(__u32 n)
{
	send_new(n, 10);
}

static void others(void)
{
	send_new(ENGINES, 0);
}

/* Until each cache has been filled anew: n at a time, beside others. */
static void turnover(__u32 n)
{
	__u64 from[ENGINES];
	bool all = false;

	for (__u32 i = 0; i < ENGINES; i++)
		from[i] = world.backends[i].clock;
	for (int round = 0; !all && round < 1000; round++) {
		hot(n);
		others();
		all = true;
		for (__u32 i = 0; i < ENGINES; i++)
			all &= world.backends[i].clock - from[i] >= world.backends[i].capacity;
	}
	CHECK(all);
}

static __u32 holders(void)
{
	__u32 n = 0;

	for (__u32 i = 0; i < ENGINES; i++)
		n += holder(i, 10) && kv_holder_live(holder(i, 10), &world.backends[i]);
	return n;
}

static void test_load(void)
{
	__u64 home[ENGINES];
	__u32 served = 0;

	TEST("ten at a time: many hold it, so that none has a long queue")
	{
		turnover(MANY);
		CHECK(holders() >= 3);
		for (__u32 i = 0; i < ENGINES; i++)
			CHECK(world.backends[i].requests > fresh / 8);
	}

	TEST("a tenth of it, one at a time: one turnover of the caches later one holds it, and "
	     "serves all")
	{
		turnover(1);
		CHECK_EQ(holders(), 1);
		for (__u32 i = 0; i < ENGINES; i++)
			home[i] =
				holder(i, 10) && kv_holder_live(holder(i, 10), &world.backends[i]);
		for (int round = 0; round < 20; round++) {
			ask_new(10);
			served += home[decide() & (ENGINES - 1)];
			hot(1);
			others();
		}
		CHECK_EQ(served, 20);
	}

	TEST("ten at a time again: many hold it again")
	{
		for (int round = 0; round < 10; round++) {
			hot(MANY);
			others();
		}
		CHECK(holders() >= 3);
	}

	TEST("not asked for any more: none holds it one turnover later")
	{
		turnover(0);
		CHECK_EQ(holders(), 0);
	}
}

/* One after the other, they bring more that is new than all others do. */
static void test_share(void)
{
	__u64 taken[ENGINES], most = 0, all = 0;

	TEST("holders that are idle share what one cache would have to take in much more of")
	{
		for (int round = 0; round < 20; round++) {
			hot(MANY);
			others();
		}
		for (__u32 i = 0; i < ENGINES; i++)
			taken[i] = world.backends[i].clock;
		for (int round = 0; round < 100; round++) {
			for (int i = 0; i < 6; i++)
				hot(1);
			others();
		}
		for (__u32 i = 0; i < ENGINES; i++) {
			taken[i] = world.backends[i].clock - taken[i];
			all += taken[i];
			if (taken[i] > most)
				most = taken[i];
		}
		CHECK(ENGINES * most <= 1.6 * all); /* by one alone: 2.3 */
	}
}

int main(void)
{
	world_reset(KV_POLICY_PRICE, ENGINES, 40000, 10000);
	test_load();
	test_share();
	world_free();
	return check_done();
}
