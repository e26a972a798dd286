// SPDX-License-Identifier: BSD-2-Clause
/* All of it together, over loopback: engines that start, hang, die, come back; requests and
 * options. */
#include <errno.h>

#include "follow_lives.h"

static void some_dead(void)
{
	unsigned int had;

	begin(ENGINES);
	lives[1].server.silent = true;
	lives[3].health = 503;
	loop_close(&lives[2].server);
	for (int i = 0; i < ENGINES; i++)
		add(i);
	CHECK(!told[0].takes);
	until(0, true);
	had = told[0].states;
	loop_for(base, 250);
	/* its weight rises all the time, and is not told all the time */
	CHECK(told[0].states - had < 4);
	CHECK(told[0].takes && !told[1].takes && !told[2].takes && !told[3].takes);
	/* one that hangs costs the others nothing */
	had = lives[0].server.requests;
	CHECK(loop_until(base, &lives[0].server.requests, had + 5, 1000));
	lives[1].server.silent = false;
	lives[3].health = 200;
	loop_open(&lives[2].server, base);
	for (int i = 0; i < ENGINES; i++)
		until(i, true);
	/* all die, all come back */
	for (int i = 0; i < ENGINES; i++)
		loop_close(&lives[i].server);
	for (int i = 0; i < ENGINES; i++)
		until(i, false);
	for (int i = 0; i < ENGINES; i++)
		loop_open(&lives[i].server, base);
	for (int i = 0; i < ENGINES; i++)
		until(i, true);
	end(ENGINES);
}

/* Refused once, while others of its connections stood: the next one that is opened is enough. */
static void opened(void)
{
	begin(2);
	add(0);
	add(1);
	until(0, true);
	until(1, true);
	follow_outcome(follow, 0, OUTCOME_REFUSED);
	CHECK(!told[0].takes && told[1].takes);
	follow_opened(follow, 1);
	CHECK(!told[0].takes);
	CHECK_EQ(told[1].caches, 0);
	follow_opened(follow, 0);
	CHECK(told[0].takes);
	/* why it takes none is told, too */
	for (int i = 0; i < 5; i++)
		follow_outcome(follow, 0, OUTCOME_FAILURE);
	CHECK_EQ(told[0].state, HEALTH_EJECTED);
	follow_outcome(follow, 0, OUTCOME_REFUSED);
	CHECK_EQ(told[0].state, HEALTH_DOWN);
	end(2);
}

/* What was answered before it went down is no sign that it is back. */
static void counted(void)
{
	begin(2);
	add(0);
	add(1);
	until(0, true);
	until(1, true);
	lives[0].health = 503;
	told[0].successes = 3;
	until(0, false);
	CHECK_EQ(told[0].successes, 0);
	loop_for(base, 100);
	CHECK_EQ(told[0].state, HEALTH_DOWN);
	/* what is answered now is */
	told[0].successes = 1;
	until(0, true);
	end(2);
}

static void requests(void)
{
	struct view_service view = {};

	begin(2);
	add(0);
	add(1);
	until(0, true);
	until(1, true);
	for (int i = 0; i < 5; i++)
		follow_outcome(follow, 0, OUTCOME_FAILURE);
	CHECK(!told[0].takes && told[1].takes);
	CHECK_EQ(told[0].state, HEALTH_EJECTED);
	for (int i = 0; i < 9; i++)
		follow_outcome(follow, 1, OUTCOME_FAILURE);
	CHECK(told[1].takes);
	follow_view_service(follow, 0, &view);
	CHECK_EQ(view.backends, 2);
	CHECK_EQ(view.taking, 1);
	CHECK(view.spared > 0);
	/* the last one goes: the ejected one is better than nobody */
	follow_drain(follow, 1, true);
	CHECK(told[0].takes && !told[1].takes);
	follow_drain(follow, 1, false);
	CHECK(told[1].takes);
	CHECK_EQ(serving("m"), 3);
	follow_remove(follow, 1);
	CHECK_EQ(serving("m"), 1);
	follow_outcome(follow, 1, OUTCOME_FAILURE);
	CHECK(told[0].takes);
	/* back-pressure */
	CHECK(!follow_is_busy(follow, 0));
	follow_busy(follow, 0, "1", 1);
	CHECK(follow_is_busy(follow, 0) && !follow_is_busy(follow, 1));
	CHECK_EQ(follow_add(follow, 0, 0, "x", &lives[0].server.addr, false, false), -EEXIST);
	/* known from before: takes requests at once, until it is found to be away */
	follow_remove(follow, 0);
	loop_close(&lives[0].server);
	CHECK_EQ(follow_add(follow, 0, 0, "again", &lives[0].server.addr, true, true), 0);
	CHECK(told[0].takes);
	CHECK_EQ(told[0].weight, HEALTH_FULL);
	until(0, false);
	CHECK_EQ(follow_add(follow, 999, 0, "x", &lives[0].server.addr, false, false), -EINVAL);
	CHECK_EQ(follow_add(follow, 1, 99, "x", &lives[0].server.addr, false, false), -EINVAL);
	end(2);
}

/* Other options: what is known stays. */
static void changes(void)
{
	__u64 limit = kv_now_ns() + 30000000000ull;
	struct follow_options o = FOLLOW_DEFAULTS;
	struct view_backend view = {};
	unsigned int had;

	begin(2);
	add(0);
	add(1);
	until(0, true);
	until(1, true);
	loop_until(base, &told[0].sizes, 1, 2000);
	for (int i = 0; i < 5; i++)
		follow_outcome(follow, 0, OUTCOME_FAILURE);
	CHECK(!told[0].takes && told[1].takes);
	/* how it is judged from now on */
	o.health_ms = o.metrics_ms = o.models_ms = 20;
	o.health_timeout_ms = o.metrics_timeout_ms = 500;
	o.stale_ms = 2000;
	o.health.eject_least = 2;
	had = told[0].sizes;
	CHECK_EQ(follow_change(follow, &o), 0);
	CHECK(!told[0].takes && told[1].takes);
	follow_view(follow, 0, &view);
	CHECK_EQ(view.state, HEALTH_EJECTED);
	CHECK_EQ(report_age(view.report, kv_now_ns(), view.stale_ns), REPORT_FRESH);
	/* what it is asked, and how often */
	o.metrics_ms = 10;
	o.health_path = "/live";
	CHECK_EQ(follow_change(follow, &o), 0);
	follow_view(follow, 0, &view);
	CHECK_EQ(view.state, HEALTH_EJECTED);
	lives[1].health = 503;
	until(1, false);
	CHECK_EQ(told[0].sizes, had);
	had = lives[0].server.requests;
	CHECK(loop_until(base, &lives[0].server.requests, had + 5, 2000));
	/* nothing at all: nobody is down for what nobody asks */
	o.health_ms = o.metrics_ms = o.models_ms = 0;
	lives[0].model = "n";
	while (!differ && kv_now_ns() < limit)
		loop_for(base, 5);
	CHECK(differ);
	CHECK_EQ(follow_change(follow, &o), 0);
	CHECK(told[1].takes && !differ);
	CHECK_EQ(serving("x"), 3);
	CHECK_EQ(told[0].foreign, 0);
	loop_for(base, 20); /* what was under way */
	had = lives[0].server.requests;
	loop_for(base, 60);
	CHECK_EQ(lives[0].server.requests, had);
	end(2);
}

int main(void)
{
	lives_begin();
	TEST("some dead at the start, all die, all come back")
	some_dead();
	TEST("refused once")
	opened();
	TEST("what was answered before it went down")
	counted();
	TEST("requests tell, too")
	requests();
	TEST("other options")
	changes();
	return lives_done();
}
