// SPDX-License-Identifier: BSD-2-Clause
/* The trace replayer: what it sends, and what it takes for a complete answer. */
#include <stdio.h>
#include <stdlib.h>

#include "check.h"

#include "../../tools/replay/answer.c"
#include "../../tools/replay/prompt.c"

static char *body_of(struct prompt_shape shape, uint32_t input, uint32_t *ids, uint32_t n,
		     size_t *ret_len)
{
	bool turn_ends[16] = {[0] = true, [2] = true};
	struct trace t = {.turn_ends = turn_ends};
	struct trace_request r = {
		.input_tokens = input, .output_tokens = 100, .n_ids = n, .ids = ids};

	return prompt_body(&shape, &t, &r, ret_len);
}

static size_t common(const char *a, const char *b)
{
	size_t n = 0;

	while (a[n] && a[n] == b[n])
		n++;
	return n;
}

static void test_prompts(void)
{
	struct prompt_shape string = {.model = "m", .scale = 1, .answer_scale = 0.1};
	struct prompt_shape chat = {.model = "m", .chat = true, .scale = 0.5, .answer_scale = 1};
	const char *before = "{\"model\":\"m\",\"prompt\":\"";
	size_t len, other_len;
	char *a, *b;

	TEST("equal ids give equal text, others do not")
	{
		a = body_of(string, 1536, (uint32_t[]){0, 1, 2}, 3, &len);
		b = body_of(string, 1300, (uint32_t[]){0, 1, 3}, 3, &other_len);
		CHECK(a && b);
		CHECK(!strncmp(a, before, strlen(before)));
		CHECK(common(a, b) >= strlen(before) + 2 * 512 * 4);
		CHECK(common(a, b) < strlen(before) + 2 * 512 * 4 + 16);
		CHECK_EQ(len - other_len, (1536 - 1300) * 4);
		CHECK(strstr(a, "\"max_tokens\":10,"));
		free(a);
		/* A partial block is a cut of the whole one. */
		a = body_of(string, 1536, (uint32_t[]){0, 1, 3}, 3, &len);
		CHECK(common(a, b) >= strlen(before) + 1300 * 4);
		free(a);
		free(b);
	}

	TEST("messages end where the trace parts")
	{
		yyjson_doc *doc;
		yyjson_val *messages;

		a = body_of(chat, 512 * 3 + 100, (uint32_t[]){0, 1, 2, 3}, 4, &len);
		doc = yyjson_read(a, len, 0);
		messages = yyjson_obj_get(yyjson_doc_get_root(doc), "messages");
		CHECK_EQ(yyjson_arr_size(messages), 3);
		for (size_t i = 0; i < 3; i++) {
			yyjson_val *m = yyjson_arr_get(messages, i);

			CHECK_EQ(yyjson_get_len(yyjson_obj_get(m, "content")),
				 ((size_t[]){1024, 2048, 200})[i]);
			CHECK(yyjson_equals_str(
				yyjson_obj_get(m, "role"),
				((const char *[]){"system", "user", "assistant"})[i]));
		}
		yyjson_doc_free(doc);
		free(a);
	}
}

#define TOKEN "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n"
#define USAGE                                                                                      \
	"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":2,"            \
	"\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n"
#define DONE "data: [DONE]\n\n"

/* The fault found when the stream arrives in pieces of that size. */
static const char *fault_of(const char *stream, size_t piece, bool merged)
{
	struct evbuffer *in = evbuffer_new();
	size_t len = strlen(stream);
	struct answer a;
	const char *fault;

	answer_init(&a);
	for (size_t at = 0; at < len; at += piece) {
		evbuffer_add(in, stream + at, at + piece < len ? piece : len - at);
		answer_feed(&a, in);
	}
	fault = answer_fault(&a, 2, merged);
	if (!fault)
		CHECK(a.prompt_tokens == 9 && a.cached_tokens == 4);
	answer_free(&a);
	evbuffer_free(in);
	return fault ? fault : "";
}

static void test_answers(void)
{
	TEST("a complete answer, in any pieces")
	{
		for (size_t piece = 1; piece < 200; piece += 7)
			CHECK_STR(fault_of(TOKEN TOKEN USAGE DONE, piece, false), "");
	}

	TEST("an incomplete answer is told apart")
	{
		CHECK_STR(fault_of(TOKEN TOKEN USAGE, 50, false), "stream cut short");
		CHECK_STR(fault_of(TOKEN TOKEN DONE, 50, false), "no usage");
		CHECK_STR(fault_of(TOKEN USAGE DONE, 50, false), "events lost");
		CHECK_STR(fault_of(TOKEN USAGE DONE, 50, true), "");
		CHECK_STR(fault_of(USAGE DONE, 50, true), "events lost");
		CHECK_STR(fault_of(TOKEN "data: {broken\n\n" TOKEN USAGE DONE, 50, false),
			  "malformed stream");
		CHECK_STR(fault_of(TOKEN TOKEN USAGE DONE TOKEN, 50, false), "malformed stream");
	}
}

int main(void)
{
	test_prompts();
	test_answers();
	return check_done();
}
