// SPDX-License-Identifier: BSD-2-Clause
/* Where the simulator's requests come from: traces and what is wrong with them, made traffic. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "common/cleanup.h"
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
	{"{" LENGTHS "\"session\":-1,\"hash_ids\":[1,2]}\n",
	 "t:1: \"session\": expected a whole number from 1 on"},
	{"{" LENGTHS "\"session\":0,\"hash_ids\":[1,2]}\n",
	 "t:1: \"session\": expected a whole number from 1 on"},
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
				n++;
				if (w->turns)
					continue;
				CHECK_EQ(line.n_ids, (line.input_tokens + 99) / 100);
				CHECK_EQ(line.n_boundaries, 1);
				CHECK(line.boundaries[0] >= w->prefix);
				CHECK(line.boundaries[0] < line.input_tokens);
				sim_distinct_add(&firsts, sim_block_hash(line.ids[0]));
			}
			CHECK(n >= 100);
			if (w->at_once)
				CHECK_EQ(n, w->at_once);
			CHECK(firsts.n <= w->groups);
			/* Zipf's last are rare */
			CHECK(w->turns || firsts.n >= w->groups * 9 / 10);
			sim_distinct_free(&firsts);
			sim_workload_free(s);
		}
		CHECK(!sim_workload_find("none"));
	}

	TEST("a chat's turns go on where it was, in its session, and are below a block of the "
	     "gateway")
	{
		const struct workload *w = sim_workload_find("chats");
		struct workload_source *s = sim_workload_new(w, 16);
		struct {
			uint64_t session, first;
			uint32_t tokens, turns;
		} chats[4] = {0};
		struct trace_line line;
		uint32_t known = 0, i;

		while (s && sim_workload_next(s, &line, NULL) == 1) {
			CHECK(line.session && line.hidden && !line.n_boundaries);
			CHECK_EQ(line.n_ids, line.input_tokens / 16);
			for (i = 0; i < known && chats[i].session != line.session; i++)
				;
			if (i == known && (known == 4 || line.input_tokens > w->tail))
				continue;
			if (i == known) {
				chats[known].session = line.session;
				chats[known++].first = line.ids[0];
			}
			CHECK_EQ(line.ids[0], chats[i].first);
			CHECK_EQ(line.input_tokens, chats[i].tokens + w->tail);
			chats[i].tokens = line.input_tokens;
			chats[i].turns++;
		}
		for (i = 0; i < 4; i++)
			CHECK_EQ(chats[i].turns, w->turns);
		sim_workload_free(s);
	}

	TEST("balanced: in every round each prefix as often as any other")
	{
		struct workload_source *s = sim_workload_new(sim_workload_find("groups"), 64);
		struct sim_distinct shared = {0}, fresh = {0};
		struct trace_line line;
		uint64_t id = 0;
		int times = 0;

		for (int i = 0; i < 64 * 16 && sim_workload_next(s, &line, NULL) == 1; i++) {
			id = i ? id : line.ids[0];
			times += line.ids[0] == id;
			/* the prefix is 32 blocks, what follows is new */
			CHECK_EQ(line.n_ids, 34);
			CHECK_EQ(sim_distinct_add(&shared, sim_block_hash(line.ids[31])), 0);
			for (int j = 32; j < 34; j++)
				CHECK_EQ(sim_distinct_add(&fresh, sim_block_hash(line.ids[j])), 0);
			CHECK_EQ(fresh.n, 2 * (i + 1));
		}
		CHECK_EQ(fresh.n, 2 * 64 * 16);
		CHECK_EQ(shared.n, 64);
		CHECK_EQ(times, 16);
		sim_distinct_free(&shared);
		sim_distinct_free(&fresh);
		sim_workload_free(s);
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
	test_workloads();
	return check_done();
}
