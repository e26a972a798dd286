// SPDX-License-Identifier: BSD-2-Clause
/* An engine's prefill rate, learned from what streams have taken: the sums that the kernel keeps,
 * and what is made of them. */
#include <math.h>

#include "check.h"
#include "common/config.h"
#include "common/rate.h"
#define WORLD_SLOTS 1024
#include "steer_cases.h"

static struct rate rates[KV_MAX_BACKENDS];
static struct kv_backend *const backends = world.backends;
static struct kv_service *const service = &world.services[0];

static void begin(__u32 n)
{
	world_reset(KV_POLICY_PRICE, n, 1 << 20, KV_DEFAULT_RATE);
	memset(rates, 0, sizeof(rates));
	rate_look(rates, backends, service, world.now);
}

/* A second, in which an engine has computed tokens for so long. */
static void second(__u32 id, double tokens, double s)
{
	backends[id].prefill_tokens += tokens;
	backends[id].prefill_ns += s * 1e9;
	world.now += SECOND;
	rate_look(rates, backends, service, world.now);
}

static bool near(double a, double b, double part)
{
	return fabs(a - b) <= part * b;
}

static void test_value(void)
{
	TEST("the default until something is seen; a few long prompts are enough")
	{
		begin(2);
		second(0, 0, 0);
		CHECK_EQ(backends[0].rate, KV_DEFAULT_RATE);
		CHECK(!strcmp(rate_from(&backends[0]), "default"));
		for (int i = 0; i < 5; i++)
			second(0, 8000, 2);
		CHECK(near(backends[0].rate, 4000, .05));
		CHECK(!strcmp(rate_from(&backends[0]), "learned"));
		/* of which nothing is known: as the others are */
		CHECK(near(backends[1].rate, 4000, .05));
	}

	TEST("many short ones do not make it slow, where there are long ones")
	{
		begin(1);
		for (int i = 0; i < 100; i++)
			second(0, i % 10 ? 100 : 8000, (i % 10 ? 100 : 8000) / 20000. + .03);
		CHECK(near(backends[0].rate, 20000, .12));
	}

	TEST("a stall, or a prompt that was cached after all, moves it a little only")
	{
		begin(1);
		for (int i = 0; i < 60; i++)
			second(0, 10000, 1);
		second(0, 10000, 60);
		CHECK(near(backends[0].rate, 10000, .2));
		for (int i = 0; i < 30; i++)
			second(0, 10000, 1);
		second(0, 10000, .001);
		CHECK(near(backends[0].rate, 10000, .05));
		second(0, 5000, 0);
		CHECK(near(backends[0].rate, 10000, .05));
	}

	TEST("one that has become slower is followed, and never to nothing")
	{
		begin(1);
		for (int i = 0; i < 60; i++)
			second(0, 16000, 1);
		for (int i = 0; i < 20; i++)
			second(0, 4000, 1);
		CHECK(backends[0].rate < 9000);
		for (int i = 0; i < 30; i++)
			second(0, 4000, 1);
		CHECK(near(backends[0].rate, 4000, .15));
		for (int i = 0; i < 500; i++)
			second(0, 1, 100);
		CHECK(backends[0].rate >= 1);
	}

	TEST("one that was slow and gets nothing is tried again: it is forgotten in the end")
	{
		begin(3);
		for (int i = 0; i < 30; i++) {
			second(0, 1000, 1);
			second(1, 16000, 1);
			second(2, 16000, 1);
		}
		CHECK(backends[0].rate < 4000);
		for (int i = 0; i < 3600; i++)
			second(1, 16000, 1);
		CHECK(near(backends[0].rate, 16000, .1));
	}

	TEST("equal engines are equal, whatever chance shows; unequal ones are not")
	{
		begin(4);
		for (int i = 0; i < 30; i++) {
			second(0, 8000, 1);
			second(1, 8800, 1);
			second(2, 7600, 1);
			second(3, 2000, 1);
		}
		CHECK_EQ(backends[0].rate, backends[1].rate);
		CHECK_EQ(backends[0].rate, backends[2].rate);
		CHECK(near(backends[0].rate, 8100, .1));
		CHECK(near(backends[3].rate, 2000, .15));
	}

	TEST("a rate that is set stays; the next agent goes on from the one that was learned")
	{
		begin(1);
		backends[0].rate_set = backends[0].rate = 7;
		for (int i = 0; i < 10; i++)
			second(0, 8000, 2);
		CHECK_EQ(backends[0].rate, 7);
		CHECK(!strcmp(rate_from(&backends[0]), "configuration"));
		backends[0].rate_set = 0;
		second(0, 8000, 2);
		CHECK(near(backends[0].rate, 4000, .05));
		memset(rates, 0, sizeof(rates));
		second(0, 0, 0);
		CHECK(near(backends[0].rate, 4000, .15));
	}
}

/* ---- the kernel's sums ---------------------------------------------------------------- */

#define MS 1000000ull

static struct kv_dispatch sent[8];

static void dispatch_to(int i, __u32 tokens, __u64 at_ms)
{
	world.now = at_ms * MS;
	ask(0);
	st.query.total = tokens;
	decide();
	kv_steer_commit(&st, &sent[i]);
}

static void answered(int i, __u64 at_ms, bool streamed)
{
	world.now = at_ms * MS;
	if (streamed)
		kv_dispatch_timed(&sent[i]);
	kv_dispatch_answered(&sent[i]);
	kv_dispatch_finished(&sent[i]);
}

static void test_sums(void)
{
	TEST("times of a queue lie side by side, in whatever order and batches it is computed")
	{
		begin(1);
		dispatch_to(0, 1000, 1000);
		dispatch_to(1, 3000, 1100);
		dispatch_to(2, 500, 1200);
		answered(2, 2000, true); /* all three at once … */
		answered(0, 2000, true);
		answered(1, 2000, true);
		CHECK_EQ(backends[0].prefill_tokens, 4500);
		/* … but for the time before the first that is answered was there */
		CHECK_EQ(backends[0].prefill_ns, 800 * MS);
		begin(1);
		dispatch_to(0, 1000, 1000);
		dispatch_to(1, 3000, 1100);
		answered(0, 2000, true);
		answered(1, 5000, true);
		dispatch_to(2, 500, 9000); /* idle before */
		answered(2, 9500, true);
		CHECK_EQ(backends[0].prefill_tokens, 4500);
		CHECK_EQ(backends[0].prefill_ns, 4500 * MS);
	}

	TEST("what fails, comes whole, or is settled before, says nothing")
	{
		begin(1);
		dispatch_to(0, 1000, 1000);
		kv_dispatch_failed(&sent[0]);
		answered(0, 2000, true);
		dispatch_to(0, 1000, 3000);
		answered(0, 9000, false);
		answered(0, 9100, true);
		CHECK_EQ(backends[0].prefill_tokens, 0);
		CHECK_EQ(backends[0].prefill_ns, 0);
		CHECK_EQ(backends[0].inflight_tokens, 0);
	}
}

int main(void)
{
	test_value();
	test_sums();
	return check_done();
}
