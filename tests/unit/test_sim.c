// SPDX-License-Identifier: BSD-2-Clause
/* The simulator: runs whose outcome can be told beforehand. Its parts: test_sim_parts.c. */
#include "sim_runs.h"

static void test_runs(void)
{
	static const uint64_t chat[] = {1, 2, 3, 4}, other[] = {9, 10};
	static const struct trace_line lines[] = {
		{.at_s = 50, .input_tokens = 200, .n_ids = 2, .ids = chat},
		{.at_s = 50, .input_tokens = 200, .n_ids = 2, .ids = other},
		{.at_s = 60, .input_tokens = 350, .n_ids = 4, .ids = chat},
		{.at_s = 60, .input_tokens = 200, .n_ids = 2, .ids = other},
	};
	struct sim_options told = two;

	told.told = true;
	TEST("a conversation returns to its cache; waiting and work make the first token late")
	{
		struct sim_result r = simulate("price", &two, lines, 4);

		CHECK_EQ(r.requests, 4);
		CHECK(near(r.hit_rate, 4 / 10.));
		CHECK(near(r.hit_ceiling, 4 / 10.));
		CHECK(near(r.ttft_mean, (.2 + .2 + .15 + 0) / 4));
		CHECK(near(r.ttft_p50, .2));
		CHECK(near(r.seconds, 10.15));
		CHECK(near(r.busiest_over_mean, .35 * 2 / .55));
		CHECK(r.over == 0 && r.under == 0);
		CHECK_EQ(r.diverted, 0);
		r = simulate("price", &told, lines, 4);
		CHECK(near(r.hit_rate, 4 / 10.));
		CHECK_STR(r.state, "events");
	}

	TEST("one after the other: half of them away from their cache")
	{
		static const struct trace_line same[] = {
			{.at_s = 0, .input_tokens = 200, .n_ids = 2, .ids = chat},
			{.at_s = 0, .input_tokens = 200, .n_ids = 2, .ids = chat},
			{.at_s = 0, .input_tokens = 200, .n_ids = 2, .ids = chat},
			{.at_s = 0, .input_tokens = 200, .n_ids = 2, .ids = chat},
		};
		struct sim_result r = simulate("round-robin", &two, same, 4);

		CHECK(near(r.hit_rate, 4 / 8.));
		CHECK_EQ(r.diverted, 1);
		CHECK_EQ(r.moves, 1);
		/* as soon behind the first as elsewhere: nobody else computes it */
		r = simulate("ttft", &two, same, 4);
		CHECK(near(r.hit_rate, 6 / 8.));
		CHECK_EQ(r.diverted, 0);
		CHECK(near(r.ttft_p99, .2));
	}

	TEST("every policy serves everything, and believes what it can know")
	{
		for (const struct sim_policy *p = sim_policies; p->name; p++) {
			struct sim_result r = simulate(p->name, &told, lines, 4);

			CHECK_EQ(r.requests, 4);
			CHECK(r.over == 0 && r.under == 0);
			CHECK(r.hit_rate <= r.hit_ceiling);
			CHECK(sim_policy_find(p->name) == p);
		}
		CHECK(!sim_policy_find("random"));
	}
}

static void test_state(void)
{
	struct sim_options options = conversations();

	TEST("told, it believes in no block that is gone; learned, in few")
	{
		struct sim_result r = simulate("price", &options, lines, CHATS * TURNS);

		CHECK(r.hit_rate > 0.05 && r.hit_rate < r.hit_ceiling);
		CHECK(r.over < 0.05);
		options.told = true;
		r = simulate("price", &options, lines, CHATS * TURNS);
		CHECK(r.over == 0);
		CHECK(r.under < 0.02);
		CHECK(r.hit_rate > 0.05 && r.hit_rate < r.hit_ceiling);
	}

	TEST("told, a prompt longer than the cache is no reason to believe in its end")
	{
		static const uint64_t longer[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
		struct sim_options one = two;
		struct trace_line twice[2];
		struct sim_result r;

		one.backends = 1;
		for (int i = 0; i < 2; i++)
			twice[i] = (struct trace_line){
				.at_s = i, .input_tokens = 1200, .n_ids = 12, .ids = longer};
		r = simulate("price", &one, twice, 2);
		CHECK(near(r.hit_rate, 10 / 24.));
		CHECK(r.over == 0);
		one.told = true;
		r = simulate("price", &one, twice, 2);
		CHECK(near(r.hit_rate, 10 / 24.));
		CHECK(r.over == 0 && r.under == 0);
	}

	TEST("short chats, of which nothing is known but their sessions, return to their engine")
	{
		static struct trace_line chats[CHATS * TURNS];
		struct sim_options known = options, unknown;
		struct sim_result with, without;

		known.told = false;
		known.blocks = 3000;
		for (int i = 0; i < CHATS * TURNS; i++) {
			chats[i] = lines[i];
			chats[i].hidden = true;
			chats[i].session = i % CHATS + 1;
		}
		unknown = known;
		unknown.no_sessions = true;
		with = simulate("price", &known, chats, CHATS * TURNS);
		without = simulate("price", &unknown, chats, CHATS * TURNS);
		CHECK(near(with.hit_rate, with.hit_ceiling));
		CHECK(without.hit_rate < 0.95 * with.hit_rate);
		CHECK(without.ttft_mean > 2 * with.ttft_mean);
	}

	TEST("queues seen late are a peer's trouble, not ours")
	{
		struct sim_options late = options;
		struct sim_result a, b;

		late.metrics_delay = 5;
		a = simulate("price", &options, lines, CHATS * TURNS);
		b = simulate("price", &late, lines, CHATS * TURNS);
		CHECK(a.ttft_mean == b.ttft_mean && a.hit_rate == b.hit_rate);
		a = simulate("dynamo", &options, lines, CHATS * TURNS);
		b = simulate("dynamo", &late, lines, CHATS * TURNS);
		CHECK(b.ttft_mean > a.ttft_mean);
	}
}

int main(void)
{
	test_runs();
	test_state();
	return check_done();
}
