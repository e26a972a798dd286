// SPDX-License-Identifier: BSD-2-Clause
/* Engines that were started again: how it is seen, and what it takes away. */
#include "follow_lives.h"

static void restarts(void)
{
	struct view_backend view = {};

	begin(2);
	lives[1].started = 0;
	add(0);
	add(1);
	until(0, true);
	until(1, true);
	loop_for(base, 60);
	CHECK_EQ(told[0].caches + told[1].caches, 0);
	CHECK_EQ(told[0].capacity, 1600);
	CHECK_EQ(told[0].sizes, 1);
	/* between two looks at it */
	lives[0].started = 2000;
	lives[0].blocks = 200;
	loop_until(base, &told[0].sizes, 2, 2000);
	CHECK_EQ(told[0].caches, 1);
	CHECK_EQ(told[0].capacity, 3200);
	CHECK(told[0].takes);
	follow_sequence_back(follow, 0);
	CHECK_EQ(told[0].caches, 1);
	follow_view(follow, 0, &view);
	CHECK_EQ(view.restarts, 1);
	/* one that does not say when it started */
	loop_close(&lives[1].server);
	until(1, false);
	CHECK_EQ(told[1].caches, 0);
	loop_open(&lives[1].server, base);
	until(1, true);
	loop_until(base, &told[1].caches, 1, 2000);
	CHECK_EQ(told[1].caches, 1);
	CHECK_EQ(told[0].caches, 1);
	/* refused by the listener alone: its process says that it is the same */
	loop_close(&lives[0].server);
	until(0, false);
	loop_open(&lives[0].server, base);
	until(0, true);
	loop_for(base, 60);
	CHECK_EQ(told[0].caches, 1);
	follow_view(follow, 0, &view);
	CHECK_EQ(view.restarts, 1);
	CHECK_EQ(view.state, HEALTH_UP);
	end(2);
}

/* What a restart takes away, of an engine that was warm and is never seen to be away. */
static void starts_anew(void)
{
	__u64 limit = kv_now_ns() + 30000000000ull;
	struct view_backend view = {};

	begin(1);
	CHECK_EQ(follow_add(follow, 0, 0, "e0", &lives[0].server.addr, true, true), 0);
	loop_until(base, &told[0].sizes, 1, 2000);
	told[0].backend.predicted_tokens = 100000;
	told[0].backend.prompt_tokens = lives[0].queries = 200000;
	do {
		loop_for(base, 5);
		follow_view(follow, 0, &view);
	} while (view.verdict.cause != PROOF_CACHING_OFF && kv_now_ns() < limit);
	CHECK_EQ(view.verdict.cause, PROOF_CACHING_OFF);
	CHECK_EQ(view.weight, HEALTH_FULL);
	lives[0].started = 2000;
	loop_until(base, &told[0].caches, 1, 2000);
	follow_view(follow, 0, &view);
	CHECK_EQ(view.verdict.cause, PROOF_TOO_LITTLE);
	CHECK(!told[0].worth.down);
	CHECK(view.weight < HEALTH_FULL / 4);
	CHECK_EQ(view.state, HEALTH_UP);
	end(1);
}

/* Told by who follows them, and has raised the epoch. Other signs of the same count no more. */
static void restarts_by_events(void)
{
	struct view_backend view = {};

	begin(1);
	CHECK_EQ(follow_add(follow, 0, 0, "e0", &lives[0].server.addr, true, true), 0);
	loop_until(base, &told[0].sizes, 1, 2000);
	follow_sequence_back(follow, 0);
	follow_view(follow, 0, &view);
	CHECK_EQ(view.restarts, 1);
	CHECK(view.weight < HEALTH_FULL / 4);
	lives[0].started = 2000;
	loop_for(base, 100);
	follow_view(follow, 0, &view);
	CHECK_EQ(view.restarts, 1);
	CHECK_EQ(told[0].caches, 0);
	end(1);
}

/* Without its metrics there is nobody else to tell. */
static void restarts_by_probes(void)
{
	scrapes = false;
	begin(1);
	scrapes = true;
	add(0);
	until(0, true);
	loop_close(&lives[0].server);
	until(0, false);
	CHECK_EQ(told[0].caches, 0);
	loop_open(&lives[0].server, base);
	until(0, true);
	CHECK_EQ(told[0].caches, 1);
	end(1);
}

int main(void)
{
	lives_begin();
	TEST("restarts")
	restarts();
	TEST("what a restart takes away")
	starts_anew();
	TEST("restarts, by events")
	restarts_by_events();
	TEST("restarts, by probes alone")
	restarts_by_probes();
	return lives_done();
}
