// SPDX-License-Identifier: BSD-2-Clause
/*
 * Steering's goals on made traffic, as `make bench-steering` has them. Those on real traces are in
 * test_sim_trace.c, shortened; incidents in test_sim_incidents.c, late metrics in test_sim.c, and
 * both in 45_simulate.bats.
 */
#include "check.h"
#include "sim/sim.h"
#include "sim/workload.h"

struct part {
	struct workload_source *made;
	double until_s;
};

static int next_of_part(void *ctx, struct trace_line *ret, char *err)
{
	struct part *p = ctx;
	int rc = sim_workload_next(p->made, ret, err);

	return rc > 0 && ret->at_s < p->until_s ? rc : 0;
}

static struct sim_result simulate(const char *workload, double until_s, const char *policy,
				  double speed, const struct sim_options *options)
{
	struct part part = {sim_workload_new(sim_workload_find(workload), options->block_tokens),
			    until_s};
	struct sim_source source = {next_of_part, &part};
	struct sim_run *run = sim_run_new(sim_policy_find(policy), speed, options);
	struct sim_result result = {};
	char err[TRACE_ERROR_LEN];

	CHECK(run && part.made);
	if (run && part.made)
		CHECK_EQ(sim_pass(&source, options, &run, &result, 1, err), 0);
	printf("# %s, %s: %llu requests, hits %.4f (%.4f), mean %.3f P90 %.3f P99 %.3f s, busiest "
	       "%.3f, gone %.4f, unknown %.4f\n",
	       workload, policy, (unsigned long long)result.requests, result.hit_rate,
	       result.hit_ceiling, result.ttft_mean, result.ttft_p90, result.ttft_p99,
	       result.busiest_over_mean, result.over, result.under);
	sim_run_free(run);
	sim_workload_free(part.made);
	return result;
}

static struct sim_options fleet(uint32_t blocks, uint32_t block_tokens)
{
	return (struct sim_options){
		.backends = 8, .blocks = blocks, .block_tokens = block_tokens, .rate = 16000};
}

static void test_ladder(void)
{
	struct sim_options full = fleet(4800, 64), half = fleet(2400, 64);
	struct sim_result r;

	TEST("ladder, full cache: all but what is new")
	{
		r = simulate("ladder", 480, "price", 1, &full);
		CHECK(r.hit_rate >= 0.98);
	}
	TEST("ladder, half cache, learned")
	{
		r = simulate("ladder", 480, "price", 1, &half);
		CHECK(r.hit_rate >= 0.80 && r.ttft_p90 <= 0.46);
		CHECK(r.over <= 0.01 && r.under <= 0.02);
	}
	TEST("ladder, half cache, told")
	{
		half.told = true;
		r = simulate("ladder", 480, "price", 1, &half);
		CHECK(r.hit_rate >= 0.83 && r.ttft_p90 <= 0.44);
		CHECK(r.over <= 0.01 && r.under <= 0.02);
	}
}

static void test_groups(void)
{
	const struct sim_options fifth = fleet(500, 64);
	struct sim_result price, turns;

	TEST("groups, as often each: three quarters hit, where in turn a fifth does")
	{
		price = simulate("groups", 1e9, "price", 1, &fifth);
		turns = simulate("groups", 1e9, "round-robin", 1, &fifth);
		CHECK(price.hit_rate >= 0.75 && turns.hit_rate < 0.25);
		CHECK(price.over <= 0.01);
	}
	TEST("groups, by Zipf: and nobody has much more to do")
	{
		price = simulate("groups-zipf", 1e9, "price", 1, &fifth);
		CHECK(price.hit_rate >= 0.75 && price.busiest_over_mean <= 1.2);
		CHECK(price.over <= 0.01);
	}
	TEST("groups, twice as many at a time: where no queue can be avoided, work is saved")
	{
		price = simulate("groups", 1e9, "price", 2, &fifth);
		turns = simulate("groups", 1e9, "ttft", 2, &fifth);
		CHECK(price.hit_rate >= 0.87 && price.ttft_mean < 0.8 * turns.ttft_mean);
	}
}

static void test_prefixes(void)
{
	const struct sim_options usual = fleet(2000, 512);
	struct sim_result price, turns;

	TEST("prefixes: nearly all that can be hit, and misses are not later than in turn")
	{
		price = simulate("prefixes", 150, "price", 2, &usual);
		turns = simulate("prefixes", 150, "round-robin", 2, &usual);
		CHECK(price.hit_rate >= 0.94 * price.hit_ceiling);
		CHECK(price.ttft_p99 <= turns.ttft_p99);
	}
}

static void test_nosharing(void)
{
	const struct sim_options usual = fleet(64000, 16);
	struct sim_result price, least;

	TEST("no sharing: as least, and in the same time")
	{
		price = simulate("nosharing", 60, "price", 5, &usual);
		least = simulate("nosharing", 60, "least", 5, &usual);
		CHECK(price.ttft_p99 > 2 * price.ttft_p50); /* there are queues */
		CHECK(price.ttft_mean <= 1.01 * least.ttft_mean);
		CHECK(price.ttft_p90 <= 1.01 * least.ttft_p90);
		CHECK(price.ttft_p99 <= 1.01 * least.ttft_p99);
		CHECK(price.seconds <= 1.01 * least.seconds);
	}
}

static void test_burst(void)
{
	struct sim_options four = fleet(2000, 512);
	struct sim_result r;

	four.backends = 4;
	TEST("burst: at once on all, and each computes the prefix once")
	{
		r = simulate("burst", 1e9, "price", 1, &four);
		CHECK_EQ(r.requests, 100);
		CHECK(r.busiest_over_mean <= 2);
		/* 8 blocks of 40 are the prefix; the first computes it anyway */
		CHECK((r.hit_ceiling - r.hit_rate) * 100 * 40 / 7 < 3.5);
	}
}

int main(void)
{
	test_ladder();
	test_groups();
	test_prefixes();
	test_nosharing();
	test_burst();
	return check_done();
}
