// SPDX-License-Identifier: BSD-2-Clause
#include <math.h>
#include <stdlib.h>
#include <yyjson.h>
#include "prompt.h"

#define BYTES_PER_TOKEN 4 /* English text under today's tokenizers, about */

static uint32_t scaled(uint32_t tokens, double scale)
{
	return fmax(1, round(tokens * scale));
}

uint32_t prompt_answer_tokens(const struct prompt_shape *shape, const struct trace_request *r)
{
	return scaled(r->output_tokens, shape->answer_scale);
}

/* splitmix64: well mixed from any seed, also from neighbouring ids. */
static uint64_t mix(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* Words of 3 to 8 letters, a function of id alone; a partial block is a cut of the whole one. */
static void block_text(uint32_t id, char *out, size_t len)
{
	uint64_t state = id;
	size_t at = 0;

	while (at < len) {
		uint64_t bits = mix(&state);
		unsigned int letters = 3 + bits % 6;

		for (bits >>= 8; letters-- && at < len; bits >>= 5)
			out[at++] = "etaoinshrdlucmfwypvbgkjqxzaeioun"[bits & 31];
		if (at < len)
			out[at++] = ' ';
	}
}

/* Text of the whole prompt; ret_ends[i] is where block i ends. */
static char *prompt_text(const struct prompt_shape *shape, const struct trace_request *r,
			 size_t *ret_ends)
{
	size_t block = (size_t)scaled(TRACE_BLOCK_TOKENS, shape->scale) * BYTES_PER_TOKEN, at = 0;
	char *text = malloc(block * r->n_ids + 1);
	int64_t left = r->input_tokens;

	for (uint32_t i = 0; text && i < r->n_ids; i++, left -= TRACE_BLOCK_TOKENS) {
		size_t len = block;

		if (left < TRACE_BLOCK_TOKENS)
			len = scaled(left > 1 ? left : 1, shape->scale) * BYTES_PER_TOKEN;
		block_text(r->ids[i], text + at, len);
		at += len;
		ret_ends[i] = at;
	}
	if (text)
		text[at] = 0;
	return text;
}

/* A message ends where requests of the trace part: the shared head of all is the system
 * message, then users and the assistant take turns. */
static yyjson_mut_val *messages(yyjson_mut_doc *doc, const struct trace *t,
				const struct trace_request *r, const char *text, const size_t *ends)
{
	yyjson_mut_val *list = yyjson_mut_arr(doc);
	size_t start = 0, turn = 0;

	for (uint32_t i = 0; i < r->n_ids; i++) {
		const char *role = !turn ? "system" : turn % 2 ? "user" : "assistant";
		yyjson_mut_val *message;

		if (i + 1 < r->n_ids && !t->turn_ends[r->ids[i]])
			continue;
		message = yyjson_mut_arr_add_obj(doc, list);
		yyjson_mut_obj_add_str(doc, message, "role", role);
		yyjson_mut_obj_add_strn(doc, message, "content", text + start, ends[i] - start);
		start = ends[i];
		turn++;
	}
	return list;
}

char *prompt_body(const struct prompt_shape *shape, const struct trace *t,
		  const struct trace_request *r, size_t *ret_len)
{
	size_t *ends = calloc(r->n_ids, sizeof(*ends));
	char *text = ends ? prompt_text(shape, r, ends) : NULL;
	yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *root = yyjson_mut_obj(doc), *options;
	char *body = NULL;

	if (text && root) {
		yyjson_mut_doc_set_root(doc, root);
		yyjson_mut_obj_add_str(doc, root, "model", shape->model);
		if (shape->chat)
			yyjson_mut_obj_add_val(doc, root, "messages",
					       messages(doc, t, r, text, ends));
		else
			yyjson_mut_obj_add_str(doc, root, "prompt", text);
		yyjson_mut_obj_add_uint(doc, root, "max_tokens", prompt_answer_tokens(shape, r));
		/* vLLM and SGLang: go on to max_tokens, so that the answer's length is known. */
		yyjson_mut_obj_add_bool(doc, root, "ignore_eos", true);
		yyjson_mut_obj_add_bool(doc, root, "stream", true);
		options = yyjson_mut_obj_add_obj(doc, root, "stream_options");
		yyjson_mut_obj_add_bool(doc, options, "include_usage", true);
		body = yyjson_mut_write(doc, 0, ret_len);
	}
	yyjson_mut_doc_free(doc);
	free(text);
	free(ends);
	return body;
}
