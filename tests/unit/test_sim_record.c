// SPDX-License-Identifier: BSD-2-Clause
/* Recordings: from ladders to block ids, and from a file written to the same lines read. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "common/cleanup.h"
#include "kvsteer/fixed.h"
#include "kvsteer/ladder.h"
#include "sim/trace_ladders.h"
#include "sim/trace_write.h"

#define BLOCK 64

static void free_ladders(struct trace_ladders **l)
{
	trace_ladders_free(*l);
}
#define _cleanup_ladders_ _cleanup_(free_ladders)

/* A prompt whose first `shared` blocks are those of prompt `with`, itself if none; its ladder is as
 * a client or the agent makes it, with a message boundary at the end of what is shared. */
static struct kv_query prompt(uint32_t name, uint32_t tokens, uint32_t with, uint32_t shared)
{
	struct kv_query q = {.total = tokens, .exclude = KV_NONE};
	uint32_t depths[KV_MAX_RUNGS];

	q.n_rungs = kv_ladder(tokens / BLOCK, &shared, 1, depths);
	for (uint32_t i = 0; i < q.n_rungs; i++)
		q.rungs[i] = (struct kv_rung){
			.hash = kv_mix((uint64_t)(depths[i] <= shared ? with : name) << 32 |
				       depths[i]),
			.depth = depths[i] * BLOCK,
		};
	return q;
}

/* The number of blocks that two lists have in common from the beginning. */
static uint32_t common(const uint64_t *a, uint32_t n_a, const uint64_t *b, uint32_t n_b)
{
	uint32_t n = 0;

	while (n < n_a && n < n_b && a[n] == b[n])
		n++;
	return n;
}

static void test_ladders(void)
{
	TEST("prompts have the blocks in common that their ladders have, and no other")
	{
		_cleanup_ladders_ struct trace_ladders *l = trace_ladders_new(BLOCK, 1, 7);
		uint64_t ids[5][32];
		uint32_t n[5];
		const struct kv_query q[] = {
			prompt(1, 20 * BLOCK + 5, 1, 0),  prompt(2, 30 * BLOCK, 1, 13),
			prompt(3, 28 * BLOCK, 2, 24),	  prompt(4, 20 * BLOCK, 4, 0),
			prompt(1, 20 * BLOCK + 63, 1, 0),
		};

		for (int i = 0; i < 5; i++) {
			struct trace_line line;

			CHECK_EQ(trace_ladders_add(l, &q[i], &line), 1);
			CHECK_EQ(line.input_tokens, q[i].total);
			CHECK_EQ(line.n_ids, q[i].total / BLOCK);
			n[i] = line.n_ids;
			memcpy(ids[i], line.ids, n[i] * sizeof(uint64_t));
		}
		/* 1 has no rung at 13: what both have is 8 */
		CHECK_EQ(common(ids[0], n[0], ids[1], n[1]), 8);
		CHECK_EQ(common(ids[1], n[1], ids[2], n[2]), 24);
		CHECK_EQ(common(ids[0], n[0], ids[2], n[2]), 8);
		CHECK_EQ(common(ids[0], n[0], ids[3], n[3]), 0);
		CHECK_EQ(common(ids[0], n[0], ids[4], n[4]), 20);
		/* and none twice in one prompt */
		for (uint32_t i = 1; i < n[2]; i++)
			for (uint32_t j = 0; j < i; j++)
				CHECK(ids[2][i] != ids[2][j]);
	}

	TEST("ids are numbers in the order of appearance: nothing of a hash is in them")
	{
		_cleanup_ladders_ struct trace_ladders *a = trace_ladders_new(BLOCK, 1, 7);
		_cleanup_ladders_ struct trace_ladders *b = trace_ladders_new(BLOCK, 1, 8);
		struct kv_query first = prompt(1, 10 * BLOCK, 1, 0);
		struct kv_query other = prompt(2, 10 * BLOCK, 2, 0);
		struct trace_line line;

		CHECK_EQ(trace_ladders_add(a, &first, &line), 1);
		for (uint32_t i = 0; i < line.n_ids; i++)
			CHECK_EQ(line.ids[i], i);
		CHECK_EQ(trace_ladders_add(b, &other, &line), 1);
		for (uint32_t i = 0; i < line.n_ids; i++)
			CHECK_EQ(line.ids[i], i);
	}

	TEST("sessions are numbers in the order of appearance, too")
	{
		_cleanup_ladders_ struct trace_ladders *l = trace_ladders_new(BLOCK, 1, 7);
		const uint64_t keys[] = {77777, 0, 88888, 77777}, numbers[] = {1, 0, 2, 1};
		struct trace_line line;

		for (int i = 0; i < 4; i++) {
			/* its hash may be that of somebody's rung */
			struct kv_query q = prompt(1 + i, 2 * BLOCK, 1 + i, 0);

			q.session = keys[i];
			if (i == 1)
				q.rungs[0].hash = 88888;
			CHECK_EQ(trace_ladders_add(l, &q, &line), 1);
			CHECK_EQ(line.session, numbers[i]);
			CHECK_EQ(line.ids[0], 2 * i);
		}
		/* a table that grows keeps them */
		for (uint64_t i = 0; i < 20000; i++) {
			struct kv_query q = {.total = 10, .session = i + 1000000};

			CHECK_EQ(trace_ladders_add(l, &q, &line), 1);
			CHECK_EQ(line.session, i + 3);
		}
		CHECK_EQ(trace_ladders_add(l, &(struct kv_query){.total = 10, .session = 77777},
					   &line),
			 1);
		CHECK_EQ(line.session, 1);
	}

	TEST("short, unread, absent and endless prompts")
	{
		_cleanup_ladders_ struct trace_ladders *l = trace_ladders_new(BLOCK, 1, 7);
		struct kv_query q = {.total = 10};
		struct trace_line line;

		CHECK_EQ(trace_ladders_add(l, &q, &line), 1);
		CHECK_EQ(line.n_ids, 1);
		q = (struct kv_query){.body_len = 4 * 3 * BLOCK - 1};
		CHECK_EQ(trace_ladders_add(l, &q, &line), 1);
		CHECK_EQ(line.input_tokens, 3 * BLOCK);
		CHECK_EQ(line.n_ids, 3);
		CHECK_EQ(line.ids[0], 1); /* not shared with the one before */
		q = (struct kv_query){.session = 5};
		CHECK_EQ(trace_ladders_add(l, &q, &line), -ENODATA);
		q = (struct kv_query){.total = UINT32_MAX};
		CHECK_EQ(trace_ladders_add(l, &q, &line), -E2BIG);
		q = prompt(9, 3 * BLOCK, 9, 0);
		q.total = TRACE_IDS_MAX * BLOCK;
		CHECK_EQ(trace_ladders_add(l, &q, &line), 1);
		CHECK_EQ(line.n_ids, TRACE_IDS_MAX);
		q.total += BLOCK;
		CHECK_EQ(trace_ladders_add(l, &q, &line), -E2BIG);
	}

	TEST("a table that grows forgets nothing")
	{
		_cleanup_ladders_ struct trace_ladders *l = trace_ladders_new(BLOCK, 1, 7);
		struct trace_line line;
		unsigned int wrong = 0;

		for (int round = 0; round < 2; round++)
			for (uint32_t i = 0; i < 20000; i++) {
				struct kv_query q = prompt(i, 4 * BLOCK, i, 0);

				wrong += trace_ladders_add(l, &q, &line) != 1 ||
					 line.ids[0] != 4 * i || line.ids[3] != 4 * i + 3;
			}
		CHECK_EQ(wrong, 0);
	}
}

#define CHATS 400
#define TURNS 5

static void test_sample(void)
{
	TEST("a sample takes conversations whole, though all have one system prompt")
	{
		_cleanup_ladders_ struct trace_ladders *l = trace_ladders_new(BLOCK, 4, 7);
		unsigned int kept[CHATS] = {0}, whole = 0, parted = 0;

		for (uint32_t turn = 1; turn <= TURNS; turn++)
			for (uint32_t chat = 0; chat < CHATS; chat++) {
				/* the head of 4 blocks is everybody's, the rest its own */
				uint32_t own = 1000 + chat, blocks = 8 * turn;
				struct kv_query q = prompt(own, blocks * BLOCK, own, blocks - 8);
				struct trace_line line;

				for (uint32_t i = 0; i < q.n_rungs; i++)
					if (q.rungs[i].depth <= 4 * BLOCK)
						q.rungs[i].hash = kv_mix(q.rungs[i].depth);
				kept[chat] += trace_ladders_add(l, &q, &line) == 1;
			}
		for (uint32_t chat = 0; chat < CHATS; chat++) {
			whole += kept[chat] == TURNS;
			parted += kept[chat] && kept[chat] != TURNS;
		}
		CHECK_EQ(parted, 0);
		CHECK(whole > CHATS / 6 && whole < CHATS / 3);
	}

	TEST("and sessions whole, where there are no prompts")
	{
		_cleanup_ladders_ struct trace_ladders *l = trace_ladders_new(BLOCK, 4, 7);
		unsigned int kept[CHATS] = {0}, whole = 0;

		for (int turn = 0; turn < TURNS; turn++)
			for (uint32_t chat = 0; chat < CHATS; chat++) {
				struct kv_query q = {.session = chat + 1, .body_len = 100};
				struct trace_line line;

				kept[chat] += trace_ladders_add(l, &q, &line) == 1;
			}
		for (uint32_t chat = 0; chat < CHATS; chat++) {
			CHECK(!kept[chat] || kept[chat] == TURNS);
			whole += kept[chat] == TURNS;
		}
		CHECK(whole > CHATS / 6 && whole < CHATS / 3);
	}
}

/* ---- files ---------------------------------------------------------------------------- */

static const uint64_t some_ids[] = {0, 1, 18446744073709551615ull};
static const uint32_t some_boundaries[] = {16, 48};
static const struct trace_line lines[] = {
	{.at_s = 0.0125,
	 .input_tokens = 50,
	 .session = 3,
	 .n_ids = 3,
	 .ids = some_ids,
	 .n_boundaries = 2,
	 .boundaries = some_boundaries},
	{.at_s = 86400.001, .input_tokens = 9, .n_ids = 1, .ids = some_ids},
};
static const struct trace_head head = {
	.block_tokens = 16, .backends = 3, .cache_tokens = 4096, .rate = 1234.5};

static int write_lines(const char *file, bool force, char *err)
{
	struct trace_writer *w;
	int rc = trace_create(file, force, &head, "chat", &w, err);

	if (rc)
		return rc;
	for (int i = 0; i < 2; i++)
		rc = rc ?: trace_put(w, &lines[i]) ?: trace_flush(w);
	return trace_finish(w) ?: rc;
}

static void check_lines(const char *file)
{
	_cleanup_(trace_cleanup) struct trace_reader *r = NULL;
	char err[TRACE_ERROR_LEN] = "";
	struct trace_line line;

	CHECK_EQ(trace_open(file, 0, &r, err), 0);
	CHECK_EQ(trace_block(r), 16);
	CHECK_EQ(trace_head(r)->backends, 3);
	CHECK_EQ(trace_head(r)->cache_tokens, 4096);
	CHECK(trace_head(r)->rate == 1234.5);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(trace_next(r, &line, err), 1);
		CHECK_STR(err, "");
		CHECK(fabs(line.at_s - lines[i].at_s) < 1e-6);
		CHECK_EQ(line.input_tokens, lines[i].input_tokens);
		CHECK_EQ(line.output_tokens, 0);
		CHECK_EQ(line.session, lines[i].session);
		CHECK_EQ(line.n_ids, lines[i].n_ids);
		CHECK_EQ(line.n_boundaries, lines[i].n_boundaries);
		if (line.n_ids == lines[i].n_ids)
			CHECK_MEM(line.ids, lines[i].ids, line.n_ids * sizeof(uint64_t));
		if (line.n_boundaries == lines[i].n_boundaries)
			CHECK_MEM(line.boundaries, some_boundaries,
				  line.n_boundaries * sizeof(uint32_t));
	}
	CHECK_EQ(trace_next(r, &line, err), 0);
}

static void test_files(void)
{
	char err[TRACE_ERROR_LEN];
	struct stat st;

	TEST("what is written is what is read, plain and compressed")
	{
		char magic[2] = "";
		_cleanup_fclose_ FILE *f = NULL;

		CHECK_EQ(write_lines("r.jsonl", false, err), 0);
		CHECK_EQ(write_lines("r.jsonl.gz", false, err), 0);
		check_lines("r.jsonl");
		check_lines("r.jsonl.gz");
		f = fopen("r.jsonl.gz", "r");
		CHECK(f && fread(magic, 2, 1, f) == 1);
		CHECK_MEM(magic, "\x1f\x8b", 2);
		CHECK_EQ(stat("r.jsonl", &st), 0);
		CHECK_EQ(st.st_mode & 0777, 0600);
	}

	TEST("nothing is written over unless that is asked for")
	{
		CHECK_EQ(write_lines("r.jsonl", false, err), -EEXIST);
		CHECK_STR(err, "r.jsonl is there already: --force writes over it");
		check_lines("r.jsonl");
		CHECK_EQ(write_lines("r.jsonl", true, err), 0);
		check_lines("r.jsonl");
		CHECK_EQ(write_lines("none/r", false, err), -ENOENT);
		CHECK_STR(err, "cannot write none/r: No such file or directory");
	}

	TEST("a disk that is full is told")
	{
		CHECK_EQ(write_lines("/dev/full", true, err), -ENOSPC);
	}
}

static const struct {
	const char *text;
	uint32_t block;
	const char *message;
} broken[] = {
	{"{\"kvsteer_trace\":2,\"block_tokens\":16}\n", 0,
	 "t:1: a recording of another form than this program's: use the kvsteer that recorded it"},
	{"{\"kvsteer_trace\":1}\n", 0,
	 "t:1: \"block_tokens\": expected a whole number from 1 to 1048576"},
	{"{\"kvsteer_trace\":1,\"block_tokens\":16}\n", 32,
	 "t:1: recorded in blocks of 16 tokens: expected no other --block"},
	{"{\"kvsteer_trace\":1,\"block_tokens\":16}\n"
	 "{\"timestamp\":1,\"input_length\":40,\"hash_ids\":[1,2,3]}\n",
	 0, "t:2: 3 hash_ids for 40 tokens: expected 2, as blocks have 16 tokens (--block)"},
	/* no recording: its output is known, or it is no trace */
	{"{\"timestamp\":1,\"input_length\":40,\"hash_ids\":[1]}\n", 0,
	 "t:1: \"output_length\" is missing: expected tokens"},
};

static void test_broken(void)
{
	TEST("heads that cannot be read, and lines that are no recording's")
	{
		for (size_t i = 0; i < sizeof(broken) / sizeof(*broken); i++) {
			_cleanup_(trace_cleanup) struct trace_reader *r = NULL;
			char err[TRACE_ERROR_LEN] = "";
			struct trace_line line;
			FILE *f = fopen("t", "w");

			fputs(broken[i].text, f);
			fclose(f);
			CHECK_EQ(trace_open("t", broken[i].block, &r, err), 0);
			CHECK_EQ(trace_next(r, &line, err), -EINVAL);
			CHECK_STR(err, broken[i].message);
		}
	}
}

int main(void)
{
	char dir[] = "/tmp/kv-test-record-XXXXXX";

	if (!mkdtemp(dir) || chdir(dir))
		return 1;
	test_ladders();
	test_sample();
	test_files();
	test_broken();
	unlink("t");
	unlink("r.jsonl");
	unlink("r.jsonl.gz");
	rmdir(dir);
	return check_done();
}
