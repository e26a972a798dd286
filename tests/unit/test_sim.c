// SPDX-License-Identifier: BSD-2-Clause
/* The simulator's parts: caches, statistics, runs whose outcome can be told beforehand, plots. */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "sim/engine.h"
#include "sim/plot.h"
#include "sim/sim.h"
#include "sim/stats.h"

/* ---- caches --------------------------------------------------------------------------- */

static uint64_t stored, gone, gone_last;

static void note(void *ctx, uint64_t id, bool is_stored)
{
	(void)ctx;
	if (is_stored) {
		stored++;
	} else {
		gone++;
		gone_last = id;
	}
}

static void test_cache(void)
{
	TEST("a cache drops tails first, and the oldest first")
	{
		struct sim_cache c;

		stored = gone = 0;
		CHECK_EQ(sim_cache_init(&c, 4), 0);
		c.changed = note;
		sim_cache_serve(&c, (uint64_t[]){1, 2, 3}, 3);
		sim_cache_serve(&c, (uint64_t[]){1, 5}, 2);
		CHECK_EQ(stored, 4);
		CHECK_EQ(gone, 0);
		sim_cache_serve(&c, (uint64_t[]){7}, 1);
		CHECK_EQ(gone_last, 3);
		CHECK_EQ(sim_cache_match(&c, (uint64_t[]){1, 2, 3}, 3), 2);
		CHECK_EQ(sim_cache_match(&c, (uint64_t[]){1, 5}, 2), 2);
		/* longer than the cache: its head fits */
		sim_cache_serve(&c, (uint64_t[]){11, 12, 13, 14, 15}, 5);
		CHECK_EQ(sim_cache_match(&c, (uint64_t[]){11, 12, 13, 14, 15}, 5), 4);
		CHECK_EQ(c.n, 4);
		CHECK_EQ(stored - gone, 4);
		sim_cache_free(&c);
	}
}

/* The same block by block, most recent first. */
#define SMALL 40
#define LONGEST 12

struct lru {
	uint64_t ids[SMALL + LONGEST];
	uint32_t n;
};

static uint32_t lru_find(const struct lru *l, uint64_t id)
{
	uint32_t at = 0;

	while (at < l->n && l->ids[at] != id)
		at++;
	return at;
}

static uint32_t lru_serve(struct lru *l, const uint64_t *ids, uint32_t n)
{
	uint32_t held = 0, at;

	while (held < n && lru_find(l, ids[held]) < l->n)
		held++;
	for (uint32_t i = n; i--;) {
		at = lru_find(l, ids[i]);
		l->n += at == l->n;
		memmove(l->ids + 1, l->ids, at * sizeof(*l->ids));
		l->ids[0] = ids[i];
	}
	return held;
}

static void test_stretches(void)
{
	TEST("a cache of stretches is an LRU of blocks")
	{
		uint64_t ids[LONGEST], random = 1, hits = 0, held;
		struct lru l = {.n = 0};
		struct sim_cache c;
		uint32_t n;

		stored = gone = 0;
		CHECK_EQ(sim_cache_init(&c, SMALL), 0);
		c.changed = note;
		for (int i = 0; i < 20000; i++) {
			random = kv_mix(random + i);
			n = 1 + random % LONGEST;
			/* an id's children are its own: prompts part at any depth */
			ids[0] = 1 + (random >> 8 & 1);
			for (uint32_t d = 1; d < n; d++)
				ids[d] = 2 * ids[d - 1] + 1 + !(random >> (8 + 2 * d) & 3);
			hits += held = lru_serve(&l, ids, n);
			CHECK_EQ(sim_cache_match(&c, ids, n), held);
			CHECK_EQ(sim_cache_serve(&c, ids, n), held);
			if (l.n > SMALL)
				CHECK_EQ(gone_last, l.ids[SMALL]);
			l.n = l.n < SMALL ? l.n : SMALL;
			CHECK_EQ(c.n, l.n);
			CHECK_EQ(stored - gone, l.n);
		}
		CHECK(hits > 20000 && c.evicted > 20000);
		sim_cache_free(&c);
	}
}

/* ---- statistics ----------------------------------------------------------------------- */

static void test_stats(void)
{
	TEST("quantiles are exact to a thousandth")
	{
		struct sim_times t;

		CHECK_EQ(sim_times_init(&t), 0);
		CHECK(sim_times_quantile(&t, 0.5) == 0);
		for (int i = 1; i <= 1000; i++)
			sim_times_add(&t, i * 0.001, 1);
		sim_times_add(&t, 0, 1);
		CHECK(fabs(sim_times_quantile(&t, 0.5) - 0.5) < 0.001 * 0.5);
		CHECK(fabs(sim_times_quantile(&t, 0.9) - 0.9) < 0.001 * 0.9);
		CHECK(fabs(sim_times_quantile(&t, 1) - 1) < 0.001);
		CHECK(sim_times_quantile(&t, 0) == 0);
		CHECK(fabs(t.sum - 500.5) < 1e-6);
		sim_times_free(&t);
	}

	TEST("distinct ids, also when they are too many to keep")
	{
		struct sim_distinct d = {0};
		const unsigned int many = SIM_DISTINCT_MAX / 8;

		for (unsigned int i = 0; i < many; i++)
			for (int twice = 0; twice < 2; twice++)
				CHECK_EQ(sim_distinct_add(&d, sim_block_hash(i)), 0);
		CHECK(sim_distinct_count(&d) == many);
		d.halvings = 3; /* as after many more: the same ids count, each for eight */
		for (unsigned int i = many; i < 2 * many; i++)
			CHECK_EQ(sim_distinct_add(&d, sim_block_hash(i)), 0);
		CHECK(d.n < many + many / 6);
		sim_distinct_free(&d);
	}
}

/* ---- runs ----------------------------------------------------------------------------- */

struct script {
	const struct trace_line *lines;
	unsigned int n, at;
};

static int next_of_script(void *ctx, struct trace_line *ret, char *err)
{
	struct script *s = ctx;

	(void)err;
	if (s->at == s->n)
		return 0;
	*ret = s->lines[s->at++];
	return 1;
}

static struct sim_result simulate(const char *policy, const struct sim_options *options,
				  const struct trace_line *lines, unsigned int n)
{
	struct script script = {lines, n, 0};
	struct sim_source source = {next_of_script, &script};
	struct sim_run *run = sim_run_new(sim_policy_find(policy), 1, options);
	struct sim_result result = {0};
	char err[TRACE_ERROR_LEN];

	CHECK(run != NULL);
	if (run)
		CHECK_EQ(sim_pass(&source, options, &run, &result, 1, err), 0);
	sim_run_free(run);
	return result;
}

static bool near(double a, double b)
{
	return fabs(a - b) <= 0.001 * fabs(b) + 1e-9;
}

static const struct sim_options two = {
	.backends = 2, .blocks = 10, .block_tokens = 100, .rate = 1000};

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
		/* as soon elsewhere as behind the first: both compute it, the others wait */
		r = simulate("ttft", &two, same, 4);
		CHECK(near(r.hit_rate, 4 / 8.));
		CHECK_EQ(r.diverted, 1);
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

/* A few conversations, each longer with every turn, over caches that hold about half of them. */
#define CHATS 40
#define TURNS 60

static void test_state(void)
{
	static struct trace_line lines[CHATS * TURNS];
	static uint64_t ids[CHATS][TURNS];
	struct sim_options options = {
		.backends = 3, .blocks = 300, .block_tokens = 16, .rate = 1000};
	__u64 random = 1;

	for (int i = 0; i < CHATS * TURNS; i++) {
		int turn = i / CHATS, chat = i % CHATS;

		random = kv_mix(random + i);
		ids[chat][turn] = chat * TURNS + turn;
		lines[i] = (struct trace_line){.at_s = i * 0.05 + (random % 1000) * 1e-5,
					       .input_tokens = 16 * (turn + 1),
					       .n_ids = turn + 1,
					       .ids = ids[chat]};
	}
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

/* ---- plots ---------------------------------------------------------------------------- */

static void test_plot(void)
{
	struct sim_result results[] = {
		{.policy = &sim_policies[0], .speed = 1, .hit_rate = .2, .ttft_p90 = 1},
		{.policy = &sim_policies[1], .speed = 1, .hit_rate = 0, .ttft_p90 = 0},
		{.policy = &sim_policies[0], .speed = 4, .hit_rate = 1, .ttft_p90 = 1e6},
	};
	char *text = NULL;
	size_t len;

	TEST("plots have their names and numbers, and are well formed whatever the title")
	{
		for (unsigned int n = 2; n <= 3; n++) {
			FILE *f = open_memstream(&text, &len);

			CHECK_EQ(sim_plot(f, "<a>&\033", results, n), 0);
			fclose(f);
			CHECK(!strncmp(text, "<svg ", 5) && !strcmp(text + len - 7, "</svg>\n"));
			CHECK(strstr(text, ">&lt;a&gt;&amp;?</text>") != NULL);
			CHECK(strstr(text, ">sticky</text>") != NULL);
			CHECK(!strstr(text, "nan") && !strstr(text, "inf"));
			free(text);
		}
	}
}

int main(void)
{
	test_cache();
	test_stretches();
	test_stats();
	test_runs();
	test_state();
	test_plot();
	return check_done();
}
