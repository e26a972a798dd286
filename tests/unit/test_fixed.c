/* SPDX-License-Identifier: BSD-2-Clause */
#include <math.h>

#include "check.h"
#include "steer_world.h"

#define SECOND 1000000000ull
#define TAU KV_UTIL_TAU_NS

int main(void)
{
	TEST("exponential decay against libm")
	{
		for (double x = 1e-6; x < 20; x *= 1.01) {
			__u64 dt = x * TAU;
			double want = exp(-(double)dt / TAU), got = kv_exp_decay(dt, TAU);

			got /= KV_ONE;
			CHECK(fabs(got - want) <= 1e-4 * want + 1e-9);
			/* what fades in a short time, too: it is what a step takes off */
			if (x > 5e-4)
				CHECK(fabs((1 - got) - (1 - want)) <= 0.005 * (1 - want));
		}
		CHECK_EQ(kv_exp_decay(0, TAU), KV_ONE);
		CHECK_EQ(kv_exp_decay(30 * TAU, TAU), 0);
		CHECK_EQ(kv_exp_decay(~0ull, TAU), 0);
	}

	TEST("scaling is exact for any value")
	{
		CHECK_EQ(kv_scale(~0ull, KV_ONE), ~0ull);
		CHECK_EQ(kv_scale(~0ull, 0), 0);
		CHECK_EQ(kv_scale(3, KV_ONE / 2), 2); /* to nearest */
		CHECK_EQ(kv_scale(1ull << 60, KV_ONE / 4), 1ull << 58);
	}

	TEST("utilisation: a steady stream settles at its share, and fades")
	{
		struct kv_service *svc;
		__u64 start;

		/* 1,000 requests/s of 40 tokens on 8 × 16,000 tokens/s: u = 0.3125 */
		world_reset(KV_POLICY_PRICE, 8, 1000, 16000);
		svc = &world.services[0];
		start = world.now;
		for (int i = 0; i < 300000; i++) {
			world.now = start + i * (SECOND / 1000);
			kv_used_add(svc, world.now, 40);
		}
		CHECK(fabs(kv_used(svc, world.now) / (8 * 16000 * 30.0) - 0.3125) < 0.005 * 0.3125);
		CHECK(fabs(kv_used(svc, world.now + TAU) / (8 * 16000 * 30.0) - 0.3125 / M_E) <
		      0.005 * 0.3125);
		CHECK_EQ(kv_used(svc, world.now + 100 * TAU), 0);
		/* a clock that is behind another CPU's changes nothing */
		CHECK_EQ(kv_used(svc, 0), svc->used_tokens);
	}

	TEST("price of own work")
	{
		const __u64 second = 1000 * 1024, per_s = 30 * 1024;

		CHECK_EQ(kv_price(0, 1000, 0, 0), 0);
		CHECK_EQ(kv_price(15000, 1000, 0, 0), 1024);  /* u = 1/2 */
		CHECK_EQ(kv_price(27000, 1000, 0, 0), 9216);  /* u = 0.9 */
		CHECK_EQ(kv_price(28230, 1000, 0, 0), 16331); /* just below the most */
		CHECK_EQ(kv_price(28236, 1000, 0, 0), 16384);
		CHECK_EQ(kv_price(1ull << 50, 1000, 0, 0), 16384);
		CHECK_EQ(kv_price(0, 0, 0, 0), 16384);
		/* two come to each engine per second, until a queue of 3 s is worked off */
		CHECK_EQ(kv_price(0, 1000, 2 * per_s, 0), 0);
		CHECK(llabs((long long)kv_price(0, 1000, 2 * per_s, 3 * second) - 6 * 1024) <= 1);
		CHECK(llabs((long long)kv_price(15000, 1000, 2 * per_s, 3 * second) - 13 * 1024) <=
		      1);
		/* never more than those of 30 s */
		CHECK_EQ(kv_price(15000, 1000, 2 * per_s, 15 * second), 61 * 1024);
		CHECK_EQ(kv_price(1ull << 50, 1000, 2 * per_s, 1ull << 60), 76 * 1024);
		CHECK_EQ(kv_price(1ull << 50, 1000, ~0ull, ~0ull), KV_PRICE_TOP);
	}
	TEST("requests are counted in that window, too")
	{
		struct kv_service *svc = &world.services[0];
		__u64 start = world.now += 1000 * TAU;

		for (int i = 0; i < 300000; i++) {
			world.now = start + i * (SECOND / 1000);
			kv_used_add(svc, world.now, 40);
		}
		CHECK(fabs(kv_came(svc, world.now) / (1000 * 30.0 * 1024) - 1) < 0.005);
		CHECK(fabs(kv_used(svc, world.now) / (40000 * 30.0) - 1) < 0.005);
		CHECK_EQ(kv_came(svc, world.now + 100 * TAU), 0);
	}
	world_free();
	return check_done();
}
