// SPDX-License-Identifier: BSD-2-Clause
/* What engines say of themselves: models, load, counters that prove predictions or do not. */
#include "engines/foreign.h"
#include "follow_lives.h"

/* Of what the counters say more was predicted, and so much of that found, until it is told. */
static void predict(uint64_t predicted, unsigned int percent, bool down)
{
	__u64 limit = kv_now_ns() + 30000000000ull;
	unsigned int scrapes = told[0].backends;

	while (told[0].worth.down != down && kv_now_ns() < limit) {
		told[0].backend.predicted_tokens += predicted;
		told[0].backend.prompt_tokens += 2 * predicted;
		lives[0].queries += 2 * predicted;
		lives[0].hits += predicted * percent / 100;
		/* one look at a time: an engine's page may be older than our sums */
		loop_until(base, &told[0].backends, scrapes += 2, 2000);
	}
	CHECK_EQ(told[0].worth.down, down);
}

/* What an engine's counters say of our predictions decides whether these are to count. */
static void worth_by_counters(void)
{
	struct worth_sums before = {70000, 700};

	begin(1);
	CHECK_EQ(follow_add(follow, 0, 0, "e0", &lives[0].server.addr, true, true), 0);
	loop_until(base, &told[0].sizes, 1, 2000);
	predict(9000, 0, true);
	CHECK(told[0].worth.verdict.predicted >= 65536);
	CHECK_EQ(told[0].worth.verdict.found, 0);
	CHECK_EQ(told[0].worth.discount, 100);
	predict(9000, 90, false);
	CHECK(told[0].worth.discount < 50);
	predict(9000, 0, true);
	/* another process is trusted */
	lives[0].started = 2000;
	loop_until(base, &told[0].caches, 1, 2000);
	CHECK(!told[0].worth.down);
	CHECK_EQ(told[0].worth.verdict.predicted, 0);
	/* what an agent before has found out stays until there is evidence to the contrary */
	told[0].worths = 0;
	told[0].worth.down = true;
	follow_go_on(follow, 0, &before);
	loop_for(base, 60);
	CHECK_EQ(told[0].worths, 0);
	predict(9000, 90, false);
	CHECK(told[0].worth.discount < 50);
	end(1);
}

static void models_and_load(void)
{
	struct view_backend view = {};
	__u64 limit = kv_now_ns() + 30000000000ull;

	begin(2);
	lives[1].model = "n";
	lives[0].running = 7;
	told[0].backend.inflight_requests = 3;
	add(0);
	add(1);
	CHECK_EQ(serving("n"), 3);
	/* "x": one that has been away for a moment has yet to be asked again */
	while ((serving("n") != 2 || serving("m") != 1 || serving("x")) && kv_now_ns() < limit)
		loop_for(base, 5);
	CHECK_EQ(serving("n"), 2);
	CHECK_EQ(serving("m"), 1);
	CHECK_EQ(serving("x"), 0);
	lives[0].model = "x";
	while (serving("x") != 1 && kv_now_ns() < limit)
		loop_for(base, 5);
	CHECK_EQ(serving("x"), 1);
	CHECK_EQ(follow_serving(follow, 5, "x", 1).words[0], 0);
	/* predicted and found, by the counters of both sides */
	loop_for(base, 40);
	told[0].backend.predicted_tokens = 100000;
	told[0].backend.prompt_tokens = 200000;
	lives[0].queries = 200000;
	lives[0].hits = 10000;
	told[0].backend.capacity = 262144;
	loop_for(base, 60);
	follow_view(follow, 0, &view);
	CHECK_EQ(view.verdict.cause, PROOF_CAPACITY);
	CHECK_EQ(report_age(view.report, kv_now_ns(), view.stale_ns), REPORT_FRESH);
	end(2);
}

/* Restarts engine 1 with that model. */
static void restart_with(const char *model)
{
	loop_close(&lives[1].server);
	until(1, false);
	lives[1].model = model;
	lives[1].started++;
	loop_open(&lives[1].server, base);
	until(1, true);
}

/* Whoever comes back is asked at once, and not believed to be what it was until then. */
static void models_of_restarted(void)
{
	__u64 limit = kv_now_ns() + 30000000000ull;
	unsigned int before;

	models_ms = 600000;
	begin(2);
	models_ms = 20;
	add(0);
	add(1);
	until(0, true);
	until(1, true);
	while (differ && kv_now_ns() < limit)
		loop_for(base, 5);
	before = differs;
	restart_with("n");
	CHECK_EQ(differs, before + 1);
	CHECK_EQ(serving("m"), 1);
	while (serving("x") && kv_now_ns() < limit) /* until then it may be there */
		loop_for(base, 5);
	CHECK(differ);
	CHECK_EQ(serving("n"), 2);
	CHECK_EQ(serving("x"), 0);
	restart_with("m");
	while (differ && kv_now_ns() < limit)
		loop_for(base, 5);
	CHECK(!differ);
	CHECK_EQ(serving("m"), 3);
	/* one that says nothing of its models is not waited for */
	restart_with(NULL);
	while (differ && kv_now_ns() < limit)
		loop_for(base, 5);
	CHECK(!differ);
	end(2);
}

static void foreign_load(void)
{
	struct engine_load load = {.has = LOAD_RUNNING | LOAD_WAITING, .running = 10, .waiting = 4};
	struct engine_load silent = {.has = LOAD_RUNNING, .running = 99};
	struct foreign f = {};
	__u64 now = 1000000000;

	foreign_reported(&f, &load, 4, now);
	CHECK(f.requests == 0);
	for (int i = 0; i < 100; i++)
		foreign_reported(&f, &load, 4, now += 1000000000);
	CHECK(f.requests > 9.9 && f.requests <= 10);
	/* what it does not say, or has not said for long, changes nothing */
	foreign_reported(&f, &silent, 0, now += 1000000000);
	CHECK(f.requests > 9.9 && f.requests <= 10);
	/* never below our own count; and slowly */
	foreign_reported(&f, &load, 40, now += 1000000000);
	CHECK(f.requests > 8 && f.requests < 9);
	for (int i = 0; i < 100; i++)
		foreign_reported(&f, &load, 40, now += 1000000000);
	CHECK(f.requests >= 0 && f.requests < 0.1);
}

int main(void)
{
	lives_begin();
	TEST("predictions that do not come true, by the counters")
	worth_by_counters();
	TEST("models, load and proof")
	models_and_load();
	TEST("models of one that was started again")
	models_of_restarted();
	TEST("requests of others")
	foreign_load();
	return lives_done();
}
