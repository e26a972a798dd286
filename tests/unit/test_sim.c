// SPDX-License-Identifier: BSD-2-Clause
/* The simulator's parts: traces and what is wrong with them, caches, statistics, whole runs whose
 * outcome can be told beforehand. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "common/cleanup.h"
#include "sim/engine.h"
#include "sim/plot.h"
#include "sim/sim.h"
#include "sim/stats.h"
#include "sim/workload.h"

/* ---- traces --------------------------------------------------------------------------- */

/* A file of this text that goes by one name, "t". */
static int open_text(const char *text, struct trace_reader **ret, char *err)
{
	FILE *f = fopen("t", "w");

	if (!f)
		return -errno;
	fputs(text, f);
	fclose(f);
	return trace_open("t", 4, ret, err);
}

#define GOOD "{\"timestamp\":7,\"input_length\":8,\"output_length\":0,\"hash_ids\":[1,2]}\n"
#define LENGTHS "\"timestamp\":7,\"input_length\":8,\"output_length\":0,"
#define CSV "TIMESTAMP,ContextTokens,GeneratedTokens\n"
#define ONE_OBJECT                                                                                 \
	"expected one object a line with timestamp, input_length, output_length, hash_ids"

static const struct {
	const char *text, *message;
} broken[] = {
	{"x\n", "t:1: \"x\": expected a JSON object with timestamp, input_length, output_length, "
		"hash_ids, or the header TIMESTAMP,ContextTokens,GeneratedTokens"},
	{GOOD "\n{\"a\"\n", "t:3: no JSON (byte 5: unexpected end of data): " ONE_OBJECT},
	{GOOD "[1]\n", "t:2: expected an object with timestamp, input_length, output_length, "
		       "hash_ids"},
	{GOOD "{}\n", "t:2: \"timestamp\" is missing: expected milliseconds, a number from 0 on"},
	{"{\"timestamp\":-1}\n", "t:1: \"timestamp\": expected milliseconds, a number from 0 on"},
	{"{\"timestamp\":7}\n", "t:1: \"input_length\" is missing: expected tokens"},
	{"{\"timestamp\":7,\"input_length\":0}\n",
	 "t:1: \"input_length\": expected tokens, a whole number from 1 to 1073741824"},
	{"{\"timestamp\":7,\"input_length\":1,\"output_length\":0.5}\n",
	 "t:1: \"output_length\": expected tokens, a whole number from 0 to 1073741824"},
	{"{" LENGTHS "\"x\":[1,2]}\n", "t:1: \"hash_ids\" is missing: expected an array of whole "
				       "numbers, one per block"},
	{"{" LENGTHS "\"hash_ids\":1}\n", "t:1: \"hash_ids\" is no array: expected an array of "
					  "whole numbers, one per block"},
	{"{" LENGTHS "\"hash_ids\":[1]}\n",
	 "t:1: 1 hash_ids for 8 tokens: expected 2, as blocks have 4 tokens (--block)"},
	{"{" LENGTHS "\"hash_ids\":[1,-2]}\n", "t:1: hash_ids[1]: expected a whole number"},
	{"{" LENGTHS "\"hash_ids\":[1,2],\"boundaries\":[4,3]}\n",
	 "t:1: boundaries[1]: expected rising depths in tokens, up to 8"},
	{"{" LENGTHS "\"hash_ids\":[1,2],\"boundaries\":3}\n",
	 "t:1: \"boundaries\" is no array: expected depths in tokens"},
	{GOOD "{\"timestamp\":6,\"input_length\":4,\"output_length\":0,\"hash_ids\":[1]}\n",
	 "t:2: 0.006 s, after 0.007 s in the request before: expected requests in order of time"},
	{CSV "2023-11-16 18:15:46.5,8,0\n2023-11-16 18:15:46,8\n",
	 "t:3: \"2023-11-16 18:15:46,8\": expected YEAR-MONTH-DAY HOUR:MINUTE:SECOND,CONTEXT,"
	 "GENERATED, with 1 to 1073741824 context tokens"},
	{CSV "2023-11-16 18:15:46.5,8,0\n2023-11-16 18:15:46.4,8,0\n",
	 "t:3: 1700158546.400 s, after 1700158546.500 s in the request before: expected requests "
	 "in order of time"},
};

static void test_broken(void)
{
	TEST("lines that are no requests are told by number, with what was expected")
	{
		for (size_t i = 0; i < sizeof(broken) / sizeof(*broken); i++) {
			_cleanup_(trace_cleanup) struct trace_reader *r = NULL;
			char err[TRACE_ERROR_LEN] = "";
			struct trace_line line;
			int rc = open_text(broken[i].text, &r, err);

			CHECK_EQ(rc, 0);
			while (!rc && (rc = trace_next(r, &line, err)) == 1)
				rc = 0;
			CHECK_EQ(rc, -EINVAL);
			CHECK_STR(err, broken[i].message);
		}
	}

	TEST("damaged and missing files")
	{
		_cleanup_(trace_cleanup) struct trace_reader *r = NULL;
		char err[TRACE_ERROR_LEN];

		CHECK_EQ(trace_open("none", 4, &r, err), -ENOENT);
		CHECK_STR(err, "cannot open none: No such file or directory");
	}
}

static void test_good(void)
{
	TEST("requests of a trace, and its end")
	{
		_cleanup_(trace_cleanup) struct trace_reader *r = NULL;
		char err[TRACE_ERROR_LEN];
		struct trace_line line;

		CHECK_EQ(open_text("\n" GOOD "{\"timestamp\":7.5,\"input_length\":5,"
				   "\"output_length\":9,\"hash_ids\":[18446744073709551615,0],"
				   "\"boundaries\":[2,4]}\r\n",
				   &r, err),
			 0);
		CHECK_EQ(trace_next(r, &line, err), 1);
		CHECK(fabs(line.at_s - 0.007) < 1e-12);
		CHECK_EQ(line.n_ids, 2);
		CHECK_EQ(line.n_boundaries, 0);
		CHECK_EQ(trace_next(r, &line, err), 1);
		CHECK_EQ(line.input_tokens, 5);
		CHECK_EQ(line.output_tokens, 9);
		CHECK_EQ(line.ids[0], UINT64_MAX);
		CHECK_EQ(line.n_boundaries, 2);
		CHECK_EQ(line.boundaries[1], 4);
		CHECK_EQ(trace_next(r, &line, err), 0);
	}

	TEST("of CSV the lengths; no block twice")
	{
		_cleanup_(trace_cleanup) struct trace_reader *r = NULL;
		char err[TRACE_ERROR_LEN];
		struct trace_line line;
		double first;

		CHECK_EQ(open_text(CSV "2023-11-16 18:15:46.6805900,9,44\n"
				       "2023-11-17 00:00:00.25+00:00,1,1\n",
				   &r, err),
			 0);
		CHECK_EQ(trace_next(r, &line, err), 1);
		CHECK_EQ(line.n_ids, 3);
		CHECK_EQ(line.ids[2], 3);
		first = line.at_s;
		CHECK_EQ(trace_next(r, &line, err), 1);
		CHECK(fabs(line.at_s - first - 20653.56941) < 1e-4);
		CHECK_EQ(line.ids[0], 4);
	}
}

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

/* ---- statistics ----------------------------------------------------------------------- */

static void test_stats(void)
{
	TEST("quantiles are exact to a thousandth")
	{
		struct sim_times t;

		CHECK_EQ(sim_times_init(&t), 0);
		CHECK(sim_times_quantile(&t, 0.5) == 0);
		for (int i = 1; i <= 1000; i++)
			sim_times_add(&t, i * 0.001);
		sim_times_add(&t, 0);
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
		CHECK(near(r.over, 2 / 24.));
		one.told = true;
		r = simulate("price", &one, twice, 2);
		CHECK(near(r.hit_rate, 10 / 24.));
		CHECK(r.over == 0 && r.under == 0);
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

/* ---- made traffic --------------------------------------------------------------------- */

static void test_workloads(void)
{
	TEST("what is made is in order, of the right lengths, and shares what it says")
	{
		for (const struct workload *w = sim_workloads; w->name; w++) {
			struct workload_source *s = sim_workload_new(w, 100);
			struct sim_distinct firsts = {0};
			struct trace_line line;
			double last = 0;
			uint32_t n = 0;

			CHECK(s && sim_workload_find(w->name) == w);
			while (s && sim_workload_next(s, &line, NULL) == 1) {
				CHECK(line.at_s >= last);
				last = line.at_s;
				CHECK_EQ(line.n_ids, (line.input_tokens + 99) / 100);
				CHECK_EQ(line.n_boundaries, 1);
				CHECK(line.boundaries[0] >= w->prefix);
				CHECK(line.boundaries[0] < line.input_tokens);
				sim_distinct_add(&firsts, sim_block_hash(line.ids[0]));
				n++;
			}
			CHECK(n >= 100);
			if (w->at_once)
				CHECK_EQ(n, w->at_once);
			CHECK(firsts.n <= w->groups);
			CHECK(firsts.n >= w->groups * 9 / 10); /* Zipf's last are rare */
			sim_distinct_free(&firsts);
			sim_workload_free(s);
		}
		CHECK(!sim_workload_find("none"));
	}

	TEST("balanced: in every round each prefix as often as any other")
	{
		struct workload_source *s = sim_workload_new(sim_workload_find("groups"), 64);
		struct sim_distinct first = {0};
		struct trace_line line;
		uint64_t id = 0;
		int times = 0;

		for (int i = 0; i < 64 * 16 && sim_workload_next(s, &line, NULL) == 1; i++) {
			id = i ? id : line.ids[0];
			times += line.ids[0] == id;
			/* the prefix is 32 blocks, what follows is new */
			CHECK_EQ(line.n_ids, 34);
			CHECK_EQ(sim_distinct_add(&first, sim_block_hash(line.ids[33])), 0);
			CHECK_EQ(first.n, i + 1);
		}
		CHECK_EQ(first.n, 64 * 16);
		CHECK_EQ(times, 16);
		sim_distinct_free(&first);
		sim_workload_free(s);
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
	char dir[] = "/tmp/test_sim.XXXXXX";

	if (!mkdtemp(dir) || chdir(dir))
		return 1;
	test_broken();
	test_good();
	unlink("t");
	if (chdir("/") || rmdir(dir))
		return 1;
	test_cache();
	test_stats();
	test_runs();
	test_state();
	test_workloads();
	test_plot();
	return check_done();
}
