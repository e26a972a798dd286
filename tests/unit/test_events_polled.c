// SPDX-License-Identifier: BSD-2-Clause
/* TensorRT-LLM's events: answers cut into events, read, and followed. Run in the source tree's
 * root. */
#include <errno.h>
#include <time.h>
#include <unistd.h>
#include <yyjson.h>

#include "check.h"
#include "common/clock.h"
#include "events/cut.h"
#include "events/follow.h"
#include "events_build.h"

/* ---- cutting ------------------------------------------------------------------------- */

static char cuts[1024];

static void cut_out(void *ctx, char *text, size_t len)
{
	(void)ctx;
	snprintf(cuts + strlen(cuts), sizeof(cuts) - strlen(cuts), "<%.*s>", (int)len, text);
	free(text);
}

/* What comes out of it, in pieces of n bytes; ! behind it: bad, ? : not whole. */
static const char *cut(const char *text, size_t n, size_t limit)
{
	size_t len = strlen(text);
	struct kv_cut c;
	int err = 0;

	*cuts = 0;
	kv_cut_init(&c, limit, cut_out, NULL);
	for (size_t at = 0; at < len && !err; at += n)
		err = kv_cut_feed(&c, text + at, len - at < n ? len - at : n);
	strcat(cuts, err ? "!" : kv_cut_whole(&c) ? "" : "?");
	if (c.left_out)
		sprintf(cuts + strlen(cuts), "-%u", (unsigned int)c.left_out);
	kv_cut_exit(&c);
	return cuts;
}

static void cutting(void)
{
	static const struct {
		const char *text, *out;
	} cases[] = {
		{"[]", ""},
		{" [ ] \n", ""},
		{"", "?"},
		{"[{}]", "<{}>"},
		{"[{\"a\":[1,{}]} , {\"b\":\"]}\\\"{\"}]", "<{\"a\":[1,{}]}><{\"b\":\"]}\\\"{\"}>"},
		{"[{\"a\":1},{\"b\":", "<{\"a\":1}>?"},
		{"[{\"\\\\\":1}]", "<{\"\\\\\":1}>"},
		{"[{},]", "<{}>!"},
		{"[{}{}]", "<{}>!"},
		{"[{}] x", "<{}>!"},
		{"[1]", "!"},
		{"{}", "!"},
		{"[[]]", "!"},
		{"<html>", "!"},
		{"[{\"x\":\"0123456789012345678901234567890123456789\"},{}]", "<{}>-1"},
	};

	TEST("an answer is cut into its events, however it comes")
	{
		for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
			for (size_t n = 1; n <= 64; n = n * 3)
				CHECK_STR(cut(cases[i].text, n, 40), cases[i].out);
	}
}

/* ---- reading ------------------------------------------------------------------------- */

static struct kv_decode *decode;
static struct kv_polled about;

static int read_in(const char *text, size_t step)
{
	int ret;

	kv_decode_begin_polled(decode, text, strlen(text), &about);
	do
		ret = kv_decode_step(decode, step);
	while (!ret);
	return ret;
}

/* "[S<tier>:size=.. parent ..]" of what one event says. */
static const char *said(const char *text)
{
	static char out[1024];
	const struct kv_batch *batch;
	char *p = out;
	int ret = read_in(text, 1);

	if (ret < 0)
		return ret == -EBADMSG ? "bad" : "error";
	batch = kv_decode_batch(decode);
	*p = 0;
	if (batch->anew)
		p += sprintf(p, "anew ");
	for (size_t i = 0; i < batch->n_events; i++) {
		const struct kv_cache_event *e = &batch->events[i];

		if (e->spec == KV_SPEC_OTHER) {
			p += sprintf(p, "other ");
			continue;
		}
		p += sprintf(p, "%c%u", e->kind == KV_EVENT_STORED ? 'S' : 'R', e->tier);
		if (e->whole)
			p += sprintf(p, "!");
		if (e->has_parent)
			p += sprintf(p, " <%llu", (unsigned long long)e->parent);
		for (uint32_t k = 0; k < e->n_hashes; k++)
			p += sprintf(p, " %llu", (unsigned long long)batch->hashes[e->hash_at + k]);
		if (e->block_size)
			p += sprintf(p, " /%u", e->block_size);
		for (uint32_t k = 0; k < e->n_tokens; k++)
			p += sprintf(p, "%c%u", k ? ',' : ' ', batch->tokens[e->token_at + k]);
		if (e->n_extras)
			p += sprintf(p, " +%u", e->n_extras);
		p += sprintf(p, ";");
	}
	if (batch->malformed_events)
		p += sprintf(p, "malformed");
	if (batch->unknown_events)
		p += sprintf(p, "unknown");
	return out;
}

#define EVENT(data) "{\"event_id\":7,\"data\":{" data "},\"window_size\":4096}"
#define TOKEN(n) "{\"type\":\"unique_token\",\"token_id\":" #n ",\"token_extra_id\":0}"
#define BLOCK(hash, level, tokens)                                                                 \
	"{\"type\":\"stored_block\",\"block_hash\":" #hash ",\"tokens\":[" tokens                  \
	"],\"cache_level\":" #level ",\"priority\":35,\"mm_keys\":[]}"
#define STORED(parent, blocks)                                                                     \
	EVENT("\"type\":\"stored\",\"parent_hash\":" #parent ",\"blocks\":[" blocks "]")
#define TWO(a, b) TOKEN(a) "," TOKEN(b)

static void reading(void)
{
	about = (struct kv_polled){0};
	TEST("stored, removed, updated, created")
	{
		CHECK_STR(said(EVENT("\"type\":\"created\",\"num_blocks_per_cache_level\":[9,0]")),
			  "");
		CHECK_STR(said(STORED(null, BLOCK(11, 0, TWO(1, 2)) "," BLOCK(12, 0, TWO(3, 4)))),
			  "S0 11 12 /2 1,2,3,4;");
		CHECK_EQ(about.block, 2);
		CHECK_STR(said(STORED(12, BLOCK(13, 0, TWO(5, 6)))), "S0 <12 13 /2 5,6;");
		CHECK_STR(said(EVENT("\"type\":\"removed\",\"block_hashes\":[11,12]")),
			  "R0! 11 12;");
		CHECK_STR(said(EVENT("\"type\":\"updated\",\"block_hash\":13,\"cache_level\":{"
				     "\"type\":\"event_diff\",\"new_value\":1,\"old_value\":0},"
				     "\"priority\":null")),
			  "S1 13;R0 13;");
		CHECK_STR(said(EVENT("\"type\":\"updated\",\"block_hash\":13,\"cache_level\":null,"
				     "\"priority\":{\"new_value\":1,\"old_value\":0}")),
			  "");
		CHECK_STR(said(EVENT("\"type\":\"moved\"")), "unknown");
	}

	TEST("a partial block is left out; so is a lone one, until it is known what is full")
	{
		CHECK_STR(said(STORED(13, BLOCK(14, 0, TWO(7, 8)) "," BLOCK(15, 0, TOKEN(9)))),
			  "S0 <13 14 /2 7,8;");
		CHECK_STR(said(STORED(14, BLOCK(15, 0, TOKEN(9)))), "");
		about = (struct kv_polled){0};
		CHECK_STR(said(STORED(null, BLOCK(11, 0, TWO(1, 2)))), "");
		CHECK_EQ(about.block, 0);
		CHECK_STR(
			said(STORED(
				null,
				BLOCK(11, 0,
				      TWO(1, 2) "," TWO(3, 4) "," TWO(5, 6) "," TWO(7, 8) "," TWO(9, 10) "," TWO(11, 12) "," TWO(13, 14) "," TWO(
					      15,
					      16) "," TWO(17,
							  18) "," TWO(19,
								      20) "," TWO(21,
										  22) "," TWO(23,
											      24) "," TWO(25,
													  26) "," TWO(27,
														      28) "," TWO(29,
																  30) "," TWO(31,
																	      32)))),
			"S0 11 /32 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,"
			"24,25,26,27,28,29,30,31,32;");
		CHECK_EQ(about.block, 32);
		about = (struct kv_polled){.block = 1, .window = 4096, .any = true};
		CHECK_STR(said(STORED(null, BLOCK(1, 0, TWO(1, 2)) "," BLOCK(2, 0, TWO(3, 4)))),
			  "anew S0 1 2 /2 1,2,3,4;");
		CHECK_STR(said(STORED(null, BLOCK(1, 0, TOKEN(1)) "," BLOCK(2, 0, TOKEN(3)))),
			  "malformed");
		CHECK_STR(said(STORED(null, BLOCK(1, 0, TWO(1, 2)) "," BLOCK(
						    2, 0, TOKEN(3)) "," BLOCK(2, 0, TWO(3, 4)))),
			  "malformed");
	}

	TEST("tiers part a run; the largest window counts; ranks and numbers")
	{
		uint64_t number;
		uint32_t rank;

		CHECK_STR(said(STORED(null, BLOCK(1, 0, TWO(1, 2)) "," BLOCK(
						    2, 1, TWO(3, 4)) "," BLOCK(3, 1, TWO(5, 6)))),
			  "S0 1 /2 1,2;S1 <1 2 3 /2 3,4,5,6;");
		CHECK_STR(said("{\"event_id\":1,\"data\":{\"type\":\"removed\",\"block_hashes\":"
			       "[1]},\"window_size\":512}"),
			  "other ");
		CHECK_STR(said("{\"event_id\":1,\"data\":{\"type\":\"removed\",\"block_hashes\":"
			       "[1]},\"window_size\":8192}"),
			  "anew R0! 1;");
		CHECK(!kv_polled_head("{\"event_id\":18446744073709551615}", 33, &number, &rank));
		CHECK(number == UINT64_MAX && !rank);
		CHECK(!kv_polled_head("{\"attention_dp_rank\":3,\"event_id\":5}", 36, &number,
				      &rank));
		CHECK(number == 5 && rank == 3);
		CHECK_EQ(kv_polled_head("{\"event_id\":-1}", 15, &number, &rank), -EBADMSG);
		CHECK_EQ(kv_polled_head("{\"event_id\":1.5}", 16, &number, &rank), -EBADMSG);
		CHECK_EQ(kv_polled_head("{}", 2, &number, &rank), -EBADMSG);
		CHECK_EQ(kv_polled_head("{\"event_id\":1,", 14, &number, &rank), -EBADMSG);
	}

	TEST("pictures enter the key; digests as hashes; plain numbers as tokens")
	{
		about = (struct kv_polled){.block = 2, .window = 4096};
		CHECK_STR(said(STORED(
				  null,
				  "{\"block_hash\":1,\"tokens\":[{\"token_id\":5,"
				  "\"token_extra_id\":77},{\"token_id\":6,\"token_extra_id\":78}]},"
				  "{\"block_hash\":2,\"tokens\":[1,2],\"mm_keys\":[{\"type\":"
				  "\"mm_key\",\"hash\":\"ab\",\"start_offset\":0}]}")),
			  "S0 1 2 /2 5,6,1,2 +2;");
		CHECK_EQ(read_in(EVENT("\"type\":\"removed\",\"block_hashes\":[\"ab\",\"ab\",-1]"),
				 1000),
			 1);
		CHECK_EQ(kv_decode_batch(decode)->hashes[0], kv_decode_batch(decode)->hashes[1]);
		CHECK_EQ(kv_decode_batch(decode)->hashes[2], UINT64_MAX);
	}

	TEST("wrong types are counted, no JSON is refused")
	{
		CHECK_STR(said(STORED(null, "7")), "malformed");
		CHECK_STR(said(STORED(true, BLOCK(1, 0, TWO(1, 2)))), "malformed");
		CHECK_STR(said(STORED(null, BLOCK(1, 0, "-1,2") "," BLOCK(1, 0, "1,2"))),
			  "malformed");
		CHECK_STR(said(STORED(null, BLOCK(1, 0, "4294967296,2") "," BLOCK(1, 0, "1,2"))),
			  "malformed");
		CHECK_STR(said(EVENT("\"type\":\"removed\",\"block_hashes\":7")), "malformed");
		CHECK_STR(said(EVENT("\"type\":\"removed\",\"block_hashes\":[1,{}]")), "malformed");
		CHECK_STR(said(EVENT("\"type\":7")), "bad");
		CHECK_STR(said("{}"), "bad");
		CHECK_STR(said("{\"data\":"), "bad");
	}
}

/* ---- the captured shape, into an index ----------------------------------------------- */

static void apply(const char *text, int id)
{
	struct kv_index_apply a;

	CHECK_EQ(read_in(text, 7), 1);
	kv_index_begin(&a, id, kv_decode_batch(decode));
	while (!kv_index_step(w.ix, &a, 1))
		;
}

static void vectors(void)
{
	yyjson_doc *doc = yyjson_read_file("tests/vectors/events/trtllm-http.json", 0, NULL, NULL);
	yyjson_val *event;
	size_t i, max;
	int id;

	TEST("the documented answer, event by event, and what the index makes of it")
	{
		static const unsigned int held[] = {0, 0, 0, 0};
		uint64_t number;
		uint32_t rank;

		CHECK_EQ(yyjson_arr_size(yyjson_doc_get_root(doc)), 4);
		open_index();
		id = add(1, 0, 0);
		about = (struct kv_polled){0};
		yyjson_arr_foreach (yyjson_doc_get_root(doc), i, max, event) {
			char *text = yyjson_val_write(event, 0, NULL);

			CHECK(!kv_polled_head(text, strlen(text), &number, &rank));
			CHECK(number == i && !rank);
			apply(text, id);
			/* its one block has 4 tokens: a partial one, for all that is known */
			CHECK_EQ(kv_index_held(w.ix, id), held[i]);
			free(text);
		}
		/* where it is known that 4 are a block: stored, on the CPU, gone */
		about = (struct kv_polled){.block = 4, .window = 131072};
		yyjson_arr_foreach (yyjson_doc_get_root(doc), i, max, event) {
			static const uint32_t weights[] = {0, 255, 128, 0};
			char *text = yyjson_val_write(event, 0, NULL);

			apply(text, id);
			CHECK_EQ(w.n_told ? w.told[0].weight : 0, weights[i]);
			CHECK_EQ(kv_index_held(w.ix, id), weights[i] != 0);
			free(text);
		}
	}
	yyjson_doc_free(doc);
	TEST("removed: all of it, in whatever tier and however often stored")
	{
		open_index();
		about = (struct kv_polled){0};
		id = add(1, 0, 0);
		for (int k = 0; k < 3; k++)
			apply(STORED(null, BLOCK(1, 0, "1,2,3") "," BLOCK(2, 1, "3,4,5")), id);
		CHECK_EQ(kv_index_held(w.ix, id), 2);
		CHECK_EQ(w.n_told, 2);
		apply(EVENT("\"type\":\"removed\",\"block_hashes\":[2,1,3]"), id);
		CHECK_EQ(kv_index_held(w.ix, id), 0);
		CHECK_EQ(w.n_told, 0);
	}
	kv_index_free(w.ix);
	w.ix = NULL;
}

/* ---- followed ------------------------------------------------------------------------ */

static struct {
	uint32_t told[4], cleared, unsure, problems[KV_PROBLEMS];
	bool complete;
} seen;

#define NOW(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define ONE_MORE(x) __atomic_fetch_add(&(x), 1, __ATOMIC_RELAXED)

static void told(void *ctx, uint64_t key, uint32_t depth, uint32_t backend, uint32_t weight)
{
	(void)ctx, (void)key, (void)depth, (void)weight;
	ONE_MORE(seen.told[backend]);
}

static void gone(void *ctx, uint64_t key, uint32_t backend)
{
	(void)ctx, (void)key, (void)backend;
}

static void cleared(void *ctx, uint32_t backend, uint32_t rank, bool wholesale)
{
	(void)ctx, (void)backend, (void)rank, (void)wholesale;
	ONE_MORE(seen.cleared);
}

static void unsure(void *ctx, uint32_t backend, uint32_t rank, bool wholesale)
{
	(void)ctx, (void)backend, (void)rank, (void)wholesale;
	ONE_MORE(seen.unsure);
}

static void complete(void *ctx, uint32_t backend, uint32_t rank, bool is)
{
	(void)ctx, (void)backend, (void)rank;
	__atomic_store_n(&seen.complete, is, __ATOMIC_RELAXED);
}

static void problem(void *ctx, const char *source, enum kv_problem what, const char *text)
{
	(void)ctx, (void)source, (void)text;
	ONE_MORE(seen.problems[what]);
}

static const struct kv_index_sink sink = {told, gone, cleared, unsure, complete};

#define WAIT(cond)                                                                                 \
	do {                                                                                       \
		uint64_t wait_end = kv_now_ns() + 5000000000ull;                                   \
		while (!(cond) && kv_now_ns() < wait_end)                                          \
			usleep(1000);                                                              \
		CHECK(cond);                                                                       \
	} while (0)

/* One block behind nothing; number names the event and its tokens. */
static void bring(struct kv_follow *f, const char *endpoint, unsigned int number, unsigned int rank)
{
	char text[512];

	snprintf(
		text, sizeof(text),
		"{\"event_id\":%u,\"data\":{\"type\":\"stored\",\"parent_hash\":null,\"blocks\":["
		"{\"block_hash\":%u,\"tokens\":[%u,2,9]},{\"block_hash\":%u,\"tokens\":[3,%u,9]}]},"
		"\"window_size\":1,\"attention_dp_rank\":%u}",
		number, 2 * number + 1, number, 2 * number + 2, number, rank);
	CHECK_EQ(kv_follow_polled(f, endpoint, strdup(text), strlen(text)), 0);
}

static void following(void)
{
	struct kv_follow_limits limits = KV_FOLLOW_LIMITS;
	struct kv_follow_source s = {.name = "a/0", .endpoint = "http://a", .polled = true};
	struct kv_follow_stats stats;
	struct kv_follow *f;

	limits.problem_ns = 0;
	f = kv_follow_new(&limits, &sink, problem, NULL);
	s.engine.model = "m";
	TEST("brought before its source is there: nothing is lost; ranks apart")
	{
		CHECK_EQ(kv_follow_add(f, &s), 0);
		s.name = "a/1";
		s.engine.rank = 1;
		CHECK_EQ(kv_follow_add(f, &s), 0);
		bring(f, s.endpoint, 0, 0);
		bring(f, s.endpoint, 1, 0);
		bring(f, s.endpoint, 0, 1);
		WAIT(NOW(seen.told[0]) >= 4);
		CHECK_EQ(NOW(seen.told[0]), 4); /* 0 of both ranks is one prompt: told once */
		WAIT(!kv_follow_stats(f, "a/1", &stats) && stats.held == 2 && !stats.connected);
		CHECK(!NOW(seen.unsure) && NOW(seen.complete));
		WAIT(!kv_follow_behind(f, s.endpoint));
		CHECK_EQ(kv_follow_answers(f, s.endpoint, true), 0);
		WAIT(!kv_follow_stats(f, "a/0", &stats) && stats.connected);
		CHECK_EQ(stats.connects, 1);
		CHECK_EQ(kv_follow_answers(f, s.endpoint, false), 0);
		WAIT(!kv_follow_stats(f, "a/0", &stats) && !stats.connected);
	}

	TEST("a number that is missing: unsure; one that goes back: another life")
	{
		bring(f, s.endpoint, 3, 0);
		WAIT(NOW(seen.unsure) == 1);
		WAIT(NOW(seen.problems[KV_PROBLEM_GAP]) == 1);
		WAIT(!kv_follow_stats(f, "a/0", &stats) && stats.held == 2 && !stats.complete);
		CHECK_EQ(stats.sequence.gaps, 1);
		bring(f, s.endpoint, 0, 0);
		WAIT(NOW(seen.cleared) == 1);
		WAIT(!kv_follow_stats(f, "a/0", &stats) && stats.held == 2 && stats.complete);
		CHECK_EQ(stats.sequence.restarts, 1);
	}

	TEST("what is no event, or of a rank that there is not: said, and on")
	{
		CHECK_EQ(kv_follow_polled(f, s.endpoint, strdup("{\"a\":}"), 6), 0);
		bring(f, s.endpoint, 1, 7);
		CHECK_EQ(kv_follow_polled(f, s.endpoint, strdup("{\"event_id\":1}"), 14), 0);
		WAIT(NOW(seen.problems[KV_PROBLEM_FRAMES]) == 1);
		WAIT(NOW(seen.problems[KV_PROBLEM_STRANGER]) == 1);
		WAIT(NOW(seen.problems[KV_PROBLEM_PAYLOAD]) == 1);
		bring(f, s.endpoint, 2, 0);
		WAIT(!kv_follow_stats(f, "a/0", &stats) && stats.messages == 6);
		CHECK_EQ(kv_follow_polled(f, "http://nobody", strdup("{}"), 2), 0);
		WAIT(!kv_follow_behind(f, "http://nobody"));
	}

	TEST("they leave, with what is waiting for them")
	{
		for (unsigned int i = 3; i < 300; i++)
			bring(f, s.endpoint, i, 0);
		CHECK_EQ(kv_follow_remove(f, "a/0"), 0);
		CHECK_EQ(kv_follow_remove(f, "a/1"), 0);
		WAIT(kv_follow_stats(f, "a/0", &stats) == -ENOENT);
		WAIT(!kv_follow_behind(f, s.endpoint));
	}
	kv_follow_free(f);
}

int main(void)
{
	decode = kv_decode_new();
	cutting();
	reading();
	vectors();
	following();
	kv_decode_free(decode);
	return check_done();
}
