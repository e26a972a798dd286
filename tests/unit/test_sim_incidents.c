// SPDX-License-Identifier: BSD-2-Clause
/* The simulator: what happens in mid-run to engines, caches and the agent. */
#include "sim_runs.h"

static void test_incidents(void)
{
	struct sim_options options = conversations();

	options.told = true;
	TEST("one of three computes four times slower: learned is as good as known")
	{
		struct sim_options slow = {
			.backends = 3, .blocks = 900, .block_tokens = 16, .rate = 12000};
		struct sim_incident incident = {SIM_SLOW, .engine = 1, .at_s = 40, .factor = 4};
		struct sim_result known, learned, fast;

		fast = simulate("price", &slow, lines, CHATS * TURNS);
		CHECK_EQ(sim_incident_add(&slow.incidents, &incident), 0);
		known = simulate("price", &slow, lines, CHATS * TURNS);
		slow.learn_rates = true;
		learned = simulate("price", &slow, lines, CHATS * TURNS);
		CHECK(known.ttft_mean > 1.1 * fast.ttft_mean);
		CHECK(learned.ttft_p99 <= 1.3 * known.ttft_p99);
		CHECK(learned.ttft_mean <= 1.1 * known.ttft_mean);
	}

	TEST("an engine that was started again: nobody is steered by what it held")
	{
		struct sim_options again = options;
		struct sim_incident incident = {SIM_RESTART, .engine = 2, .at_s = 20};
		struct sim_result before, r;

		for (int told = 0; told < 2; told++) {
			again = options;
			again.blocks = 900;
			again.told = told;
			before = simulate("price", &again, lines, CHATS * TURNS);
			CHECK_EQ(sim_incident_add(&again.incidents, &incident), 0);
			CHECK_EQ(again.incidents.n, 2);
			r = simulate("price", &again, lines, CHATS * TURNS);
			CHECK_EQ(r.requests, CHATS * TURNS);
			CHECK_EQ(r.dead, 0);
			CHECK(r.hit_rate < before.hit_rate);
			CHECK(r.hit_rate > 0.8 * before.hit_rate);
		}
	}

	TEST("caches off: nothing is found, on again: as it was; what came before may be left out")
	{
		struct sim_options off = options;
		struct sim_incident incident = {SIM_CACHE_OFF, .engine = SIM_EVERY, .until_s = 30};
		struct sim_result r, calm = simulate("price", &off, lines, CHATS * TURNS);

		CHECK_EQ(sim_incident_add(&off.incidents, &incident), 0);
		CHECK_EQ(off.incidents.n, 2);
		r = simulate("price", &off, lines, CHATS * TURNS);
		CHECK(r.hit_rate > 0 && r.hit_rate < 0.9 * calm.hit_rate);
		off.warmup_s = 30;
		r = simulate("price", &off, lines, CHATS * TURNS);
		CHECK(r.requests > 0 && r.requests < CHATS * TURNS);
		CHECK(r.hit_rate > 0.5 * calm.hit_rate);
		off.warmup_s = 0;
		off.incidents.n = 1;
		r = simulate("price", &off, lines, CHATS * TURNS);
		CHECK_EQ(r.hit_rate, 0);
	}

	TEST("what an engine had in hand when it went away is sent to another one, three times at "
	     "most")
	{
		static const uint64_t a[] = {1, 2, 3}, b[] = {11, 12};
		static const struct trace_line some[] = {
			{.at_s = 0, .input_tokens = 300, .n_ids = 3, .ids = a},
			{.at_s = 0, .input_tokens = 200, .n_ids = 2, .ids = b},
			{.at_s = 100, .input_tokens = 300, .n_ids = 3, .ids = a},
		};
		struct sim_incident incident = {SIM_RESTART, .engine = 0, .at_s = 0.1};
		struct sim_options o = two;
		struct sim_result r;

		/* the first one waits for what the other engine has, and then is computed there */
		CHECK_EQ(sim_incident_add(&o.incidents, &incident), 0);
		r = simulate("price", &o, some, 3);
		CHECK_EQ(r.requests, 3);
		CHECK_EQ(r.retried, 1);
		CHECK_EQ(r.failed, 0);
		CHECK(near(r.ttft_mean, (.5 + .2 + 0) / 3));
		CHECK(near(r.hit_rate, 3 / 8.));
		CHECK(near(r.seconds, 100));
		CHECK(near(r.busiest_over_mean, .5 * 2 / .6));
		/* the other one goes too: nobody is left */
		incident = (struct sim_incident){SIM_RESTART, .engine = 1, .at_s = 0.3};
		CHECK_EQ(sim_incident_add(&o.incidents, &incident), 0);
		r = simulate("price", &o, some, 3);
		CHECK_EQ(r.requests, 3);
		CHECK_EQ(r.retried, 2);
		CHECK_EQ(r.failed, 1);
		CHECK(near(r.ttft_mean, (.2 + .3) / 2));
		CHECK(r.hit_rate == 0);
		/* peers do not hear that an engine is away, but of its queue */
		CHECK_EQ(simulate("dynamo", &o, some, 3).requests, 3);
		/* there is a fourth engine, but it has had three; what came then is served */
		o.backends = 4;
		o.incidents.n = 0;
		for (int i = 0; i < 3; i++) {
			incident = (struct sim_incident){SIM_RESTART, .engine = (int[]){0, 2, 1}[i],
							 .at_s = .01 * (i + 1)};
			CHECK_EQ(sim_incident_add(&o.incidents, &incident), 0);
		}
		r = simulate("round-robin", &o, (struct trace_line[]){some[0], some[2]}, 2);
		CHECK_EQ(r.requests, 2);
		CHECK_EQ(r.retried, 2);
		CHECK_EQ(r.failed, 1);
		CHECK(near(r.ttft_mean, .3));
	}

	TEST("another agent: the tables are as they were, and so are rates")
	{
		struct sim_options same = options;
		struct sim_incident incident = {SIM_AGENT_RESTART, .at_s = 60};
		struct sim_result before, r;

		same.learn_rates = true;
		before = simulate("price", &same, lines, CHATS * TURNS);
		CHECK_EQ(sim_incident_add(&same.incidents, &incident), 0);
		r = simulate("price", &same, lines, CHATS * TURNS);
		CHECK(r.hit_rate > 0.98 * before.hit_rate);
		CHECK(r.ttft_p99 < 1.1 * before.ttft_p99);
		CHECK_EQ(r.dead, 0);
	}
}

int main(void)
{
	test_incidents();
	return check_done();
}
