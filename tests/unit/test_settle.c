/* SPDX-License-Identifier: BSD-2-Clause */
/* Settling: tentative entries, what failed taken back, exact charges. */
#include "check.h"
#include "steer_cases.h"

static void test_tentative(void)
{
	static struct kv_dispatch one, two;

	TEST("tentative until answered; siblings go together meanwhile")
	{
		world_reset(KV_POLICY_PRICE, 4, 100000, 1000);
		world.services[0].used_tokens = 4 * 1000 * 15; /* p > 0: no tie with an idle one */
		world.services[0].used_at = world.now;
		ask(5);
		st.query.session = 3;
		CHECK_EQ(decide(), 0);
		kv_steer_commit(&st, &one);
		CHECK(holder(0, 5) & KV_HOLDER_TENTATIVE);
		CHECK(kv_world_session(3)->holder & KV_HOLDER_TENTATIVE);
		CHECK_EQ(decide(), 0);
		CHECK_EQ(st.choice.matched, 500);
		kv_dispatch_answered(&one);
		CHECK_EQ(one.unconfirmed, 0);
		for (__u32 rung = 1; rung <= 5; rung++)
			CHECK(holder(0, rung) && !(holder(0, rung) & KV_HOLDER_TENTATIVE));
		CHECK(!(kv_world_session(3)->holder & KV_HOLDER_TENTATIVE));
		kv_dispatch_failed(
			&one); /* after an answer: nothing to take back but the request */
		CHECK(holder(0, 5) != 0);
		CHECK_EQ(world.backends[0].inflight_requests, 0);
	}

	TEST("failed: what it taught is taken back, what was there before stays")
	{
		world_reset(KV_POLICY_PRICE, 4, 100000, 1000);
		ask(3);
		decide();
		kv_steer_commit(&st, &one);
		kv_dispatch_finished(&one);
		ask(5);
		st.query.session = 3;
		decide();
		kv_steer_commit(&st, &two);
		CHECK_EQ(two.backend, 0);
		kv_dispatch_failed(&two);
		CHECK(holder(0, 3) && !holder(0, 4) && !holder(0, 5));
		CHECK_EQ(kv_world_session(3)->holder, 0);
		CHECK_EQ(world.counters[KV_CNT_unlearned], 3);
		hold(1, 5, KV_HOLDER_TENTATIVE); /* another backend's request */
		kv_steer_commit(&st, &two);
		kv_dispatch_failed(&two);
		CHECK(!holder(0, 5) && holder(1, 5) & KV_HOLDER_TENTATIVE);
		kv_steer_commit(&st, &two);
		kv_dispatch_finished(&two);
		CHECK(holder(0, 5) && holder(1, 5) & KV_HOLDER_TENTATIVE);
		CHECK_EQ(world.backends[0].inflight_tokens, 0);
		CHECK_EQ(world.backends[0].inflight_requests, 0);
	}

	TEST("a commit without a choice charges nothing and settles to nothing")
	{
		world_reset(KV_POLICY_PRICE, 1, 100000, 1000);
		world.backends[0].state = KV_BACKEND_DOWN;
		ask(3);
		decide();
		kv_steer_commit(&st, &one);
		CHECK_EQ(one.backend, KV_NONE);
		CHECK_EQ(one.charged_tokens + one.charged_request + one.unconfirmed, 0);
		kv_dispatch_finished(&one);
		kv_dispatch_failed(&one);
		CHECK_EQ(world.counters[KV_CNT_decisions], 0);
	}

	TEST("charges and sums")
	{
		world_reset(KV_POLICY_PRICE, 1, 100000, 1000);
		ask(5);
		decide();
		kv_steer_commit(&st, &one);
		st.query.total = 520;
		decide();
		kv_steer_commit(&st, &two);
		CHECK_EQ(two.charged_tokens, 20);
		CHECK_EQ(two.query.total, 520);
		CHECK_EQ(two.at_ns, world.now);
		CHECK_EQ(world.backends[0].inflight_tokens, 520);
		CHECK_EQ(world.backends[0].inflight_requests, 2);
		CHECK_EQ(world.backends[0].requests, 2);
		CHECK_EQ(world.backends[0].prompt_tokens, 1020);
		CHECK_EQ(world.backends[0].matched_tokens, 500);
		CHECK_EQ(world.services[0].used_tokens, 520);
		CHECK_EQ(world.services[0].used_requests, 2 * 1024);
		CHECK_EQ(world.counters[KV_CNT_decisions], 2);
		CHECK_EQ(world.counters[KV_CNT_matches], 1);
		kv_dispatch_answered(&one);
		kv_dispatch_answered(&one);
		CHECK_EQ(world.backends[0].inflight_tokens, 20);
		CHECK_EQ(world.backends[0].inflight_requests, 2);
		kv_dispatch_finished(&one);
		kv_dispatch_finished(&one);
		CHECK_EQ(world.backends[0].inflight_requests, 1);
		CHECK_EQ(world.backends[0].predicted_tokens, 0); /* of one nothing was believed */
		kv_dispatch_finished(&two);			 /* never answered: both at once */
		kv_dispatch_finished(&two);
		CHECK_EQ(world.backends[0].predicted_tokens, 500);
		CHECK_EQ(world.backends[0].inflight_tokens, 0);
		CHECK_EQ(world.backends[0].inflight_requests, 0);
	}
}

static void test_discount(void)
{
	struct kv_dispatch one, two;

	TEST("nothing counts: all of it is charged, learned as ever, and predicted when it is "
	     "answered")
	{
		world_reset(KV_POLICY_PRICE, 1, 100000, 1000);
		ask(5);
		decide();
		kv_steer_commit(&st, &one);
		kv_dispatch_finished(&one);
		world.backends[0].discount = KV_DISCOUNT_ALL;
		ask(6);
		decide();
		kv_steer_commit(&st, &two);
		CHECK_EQ(two.charged_tokens, 600);
		CHECK_EQ(two.believed, 500);
		CHECK_EQ(world.backends[0].matched_tokens, 0);
		CHECK_EQ(world.backends[0].clock, 600); /* 500 of it had entered before */
		CHECK_EQ(world.services[0].used_tokens, 1100);
		CHECK_EQ(world.backends[0].predicted_tokens, 0);
		kv_dispatch_answered(&two);
		kv_dispatch_finished(&two);
		CHECK_EQ(world.backends[0].predicted_tokens, 500);
		CHECK_EQ(world.backends[0].inflight_tokens, 0);
		CHECK(holder(0, 6));
	}

	TEST("nothing counts: what failed or was refused has predicted nothing")
	{
		decide();
		kv_steer_commit(&st, &one);
		CHECK_EQ(one.believed, 600);
		kv_dispatch_failed(&one);
		decide();
		kv_steer_commit(&st, &two);
		kv_dispatch_refused(&two);
		kv_dispatch_finished(&two);
		CHECK_EQ(world.backends[0].predicted_tokens, 500);
	}

	TEST("nothing counts: a session's prompt enters the cache by what it has grown")
	{
		world_reset(KV_POLICY_PRICE, 1, 100000, 1000);
		in_session(0, 7, 900, 0);
		world.backends[0].discount = KV_DISCOUNT_ALL;
		ask(0);
		st.query.session = 7;
		st.query.total = 1000;
		decide();
		kv_steer_commit(&st, &one);
		CHECK_EQ(one.charged_tokens, 1000);
		CHECK_EQ(world.backends[0].clock, 100);
	}
}

int main(void)
{
	test_tentative();
	test_discount();
	world_free();
	return check_done();
}
