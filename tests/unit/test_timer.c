// SPDX-License-Identifier: BSD-2-Clause
#include <event2/event.h>

#include "check.h"
#include "common/clock.h"
#include "common/timer.h"

static int called;

static void call(void *arg)
{
	called += *(int *)arg;
}

/* What has been called when ms are over. */
static int after(struct event_base *base, int ms)
{
	struct timeval end = {ms / 1000, ms % 1000 * 1000};

	called = 0;
	event_base_loopexit(base, &end);
	event_base_dispatch(base);
	return called;
}

int main(void)
{
	struct event_base *base = event_base_new();
	struct kv_timer t = {}, other = {};
	int one = 1, ten = 10;

	kv_timer_close(&t); /* never opened */
	CHECK_EQ(kv_timer_open(&t, base, call, &one), 0);
	CHECK_EQ(kv_timer_open(&other, base, call, &ten), 0);
	TEST("not set")
	CHECK_EQ(after(base, 20), 0);
	TEST("once")
	{
		kv_timer_set(&t, 10, 0);
		kv_timer_set(&other, 500, 0);
		CHECK_EQ(after(base, 60), 1);
		CHECK_EQ(after(base, 20), 0);
	}
	TEST("at once")
	{
		kv_timer_set(&t, 0, 0);
		CHECK_EQ(after(base, 20), 1);
	}
	TEST("again and again")
	{
		kv_timer_set(&t, 5, 5);
		CHECK(after(base, 100) >= 3);
	}
	TEST("set anew, the setting before is gone")
	{
		kv_timer_set(&t, 1, 1);
		while (kv_now_ns() % 4000000 < 2000000)
			; /* it is due */
		kv_timer_set(&t, 1000, 0);
		CHECK_EQ(after(base, 20), 0);
	}
	TEST("closed")
	{
		kv_timer_set(&t, 1, 1);
		kv_timer_close(&t);
		kv_timer_close(&t);
		CHECK_EQ(after(base, 20), 0);
	}
	kv_timer_close(&other);
	event_base_free(base);
	return check_done();
}
