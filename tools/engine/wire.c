// SPDX-License-Identifier: BSD-2-Clause
/* The answers' text, the same for the same prompt, and its JSON by interface. */
#include <string.h>
#include <xxhash.h>

#include "completion.h"

#define CREATED 1754000000 /* constant: equal requests get equal bytes */

typedef void (*emit_fn)(struct conn *, struct buf *);

/* Token i of choice k: a short word; now and then one that JSON must escape or UTF-8. */
static void word(const struct answer *a, uint32_t k, uint64_t i, struct buf *b)
{
	static const char *const consonants = "bdfghklmnprstvwz", *const vowels = "aeiou";
	uint64_t h = XXH64(&i, sizeof(i), a->seed + k);
	char w[5] = {' ', consonants[h & 15], vowels[(h >> 4) % 5], consonants[h >> 8 & 15],
		     vowels[(h >> 12) % 5]};

	if ((h >> 32) % 64 == 0)
		buf_str(b, "\\n\\\"");
	if ((h >> 32) % 64 == 1)
		buf_str(b, " \xc3\xa9");
	buf_add(b, w, sizeof(w));
}

static void text(const struct answer *a, uint32_t k, uint64_t n, struct buf *b)
{
	for (uint64_t i = 0; i < n; i++)
		word(a, k, i, b);
}

static const char *const prefix[] = {"chatcmpl-", "cmpl-", "msg_", "resp_", ""};

static void id(const struct answer *a, struct buf *b)
{
	buf_printf(b, "\"id\":\"%s%016llx\"", prefix[a->api], (unsigned long long)a->seed);
}

static void usage(const struct answer *a, struct buf *b)
{
	unsigned long long in = a->prompt_tokens, out = a->max_tokens * a->n_prompts,
			   cached = a->cached;

	switch (a->api) {
	case API_MESSAGES:
		buf_printf(b,
			   "\"usage\":{\"input_tokens\":%llu,\"cache_creation_input_tokens\":0,"
			   "\"cache_read_input_tokens\":%llu,\"output_tokens\":%llu}",
			   in - cached, cached, out);
		break;
	case API_RESPONSES:
		buf_printf(b,
			   "\"usage\":{\"input_tokens\":%llu,\"input_tokens_details\":{"
			   "\"cached_tokens\":%llu},\"output_tokens\":%llu,"
			   "\"output_tokens_details\":{\"reasoning_tokens\":0},"
			   "\"total_tokens\":%llu}",
			   in, cached, out, in + out);
		break;
	case API_GENERATE:
		buf_printf(b,
			   "\"meta_info\":{\"id\":\"%016llx\",\"finish_reason\":{\"type\":"
			   "\"length\",\"length\":%llu},\"prompt_tokens\":%llu,"
			   "\"completion_tokens\":%llu,\"cached_tokens\":%llu}",
			   (unsigned long long)a->seed, out, in, out, cached);
		break;
	default:
		buf_printf(b,
			   "\"usage\":{\"prompt_tokens\":%llu,\"total_tokens\":%llu,"
			   "\"completion_tokens\":%llu,\"prompt_tokens_details\":{"
			   "\"cached_tokens\":%llu}}",
			   in, in + out, out, cached);
	}
}

static void response_object(const struct answer *a, struct buf *b, bool whole)
{
	buf_str(b, "{");
	id(a, b);
	buf_printf(b,
		   ",\"object\":\"response\",\"created_at\":%d,\"status\":\"%s\",\"model\":\"%s\","
		   "\"parallel_tool_calls\":true,\"tool_choice\":\"auto\",\"tools\":[],"
		   "\"output\":[",
		   CREATED, whole ? "completed" : "in_progress", a->model);
	if (whole) {
		buf_printf(b,
			   "{\"type\":\"message\",\"id\":\"msg_%016llx\",\"status\":\"completed\","
			   "\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\","
			   "\"annotations\":[],\"text\":\"",
			   (unsigned long long)a->seed);
		text(a, 0, a->max_tokens, b);
		buf_str(b, "\"}]}],");
		usage(a, b);
	} else {
		buf_str(b, "],\"usage\":null");
	}
	buf_str(b, "}");
}

static void choices(const struct answer *a, struct buf *b)
{
	for (uint32_t k = 0; k < a->n_prompts; k++) {
		buf_printf(b, "%s{\"index\":%u,", k ? "," : "", k);
		buf_str(b, a->api == API_CHAT ? "\"message\":{\"role\":\"assistant\",\"content\":\""
					      : "\"text\":\"");
		text(a, k, a->max_tokens, b);
		buf_str(b, a->api == API_CHAT ? "\"}" : "\"");
		buf_str(b, ",\"logprobs\":null,\"finish_reason\":\"length\"}");
	}
}

void wire_whole(const struct answer *a, struct buf *b)
{
	if (a->api == API_RESPONSES) {
		response_object(a, b, true);
		return;
	}
	buf_str(b, "{");
	if (a->api == API_GENERATE) {
		buf_str(b, "\"text\":\"");
		text(a, 0, a->max_tokens, b);
		buf_str(b, "\",");
	} else if (a->api == API_MESSAGES) {
		id(a, b);
		buf_printf(b,
			   ",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"%s\","
			   "\"content\":[{\"type\":\"text\",\"text\":\"",
			   a->model);
		text(a, 0, a->max_tokens, b);
		buf_str(b, "\"}],\"stop_reason\":\"max_tokens\",\"stop_sequence\":null,");
	} else {
		id(a, b);
		buf_printf(b, ",\"object\":\"%s\",\"created\":%d,\"model\":\"%s\",\"choices\":[",
			   a->api == API_CHAT ? "chat.completion" : "text_completion", CREATED,
			   a->model);
		choices(a, b);
		buf_str(b, "],");
	}
	usage(a, b);
	buf_str(b, "}");
}

static void chunk_head(const struct answer *a, struct buf *b)
{
	buf_str(b, "data: {");
	id(a, b);
	buf_printf(b, ",\"object\":\"%s\",\"created\":%d,\"model\":\"%s\",\"choices\":[",
		   a->api == API_CHAT ? "chat.completion.chunk" : "text_completion", CREATED,
		   a->model);
}

static void named_event(struct buf *b, const char *name)
{
	buf_printf(b, "event: %s\ndata: {\"type\":\"%s\"", name, name);
}

static void flush(const struct answer *a, struct buf *b, emit_fn emit)
{
	emit(a->conn, b);
	buf_drop(b, b->len);
}

void wire_begin(const struct answer *a, emit_fn emit)
{
	struct buf b = {0};

	if (a->api == API_CHAT) {
		chunk_head(a, &b);
		buf_str(&b, "{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
			    "\"logprobs\":null,\"finish_reason\":null}]}\n\n");
		flush(a, &b, emit);
	} else if (a->api == API_MESSAGES) {
		named_event(&b, "message_start");
		buf_str(&b, ",\"message\":{");
		id(a, &b);
		buf_printf(&b,
			   ",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"%s\","
			   "\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,",
			   a->model);
		usage(a, &b);
		buf_str(&b, "}}\n\n");
		flush(a, &b, emit);
		named_event(&b, "content_block_start");
		buf_str(&b, ",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}"
			    "\n\n");
		flush(a, &b, emit);
	} else if (a->api == API_RESPONSES) {
		named_event(&b, "response.created");
		buf_str(&b, ",\"sequence_number\":0,\"response\":");
		response_object(a, &b, false);
		buf_str(&b, "}\n\n");
		flush(a, &b, emit);
	}
	buf_free(&b);
}

void wire_token(const struct answer *a, uint64_t i, emit_fn emit)
{
	bool last = i + 1 == a->max_tokens;
	struct buf b = {0};

	for (uint32_t k = 0; k < a->n_prompts; k++) {
		switch (a->api) {
		case API_MESSAGES:
			named_event(&b, "content_block_delta");
			buf_str(&b, ",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"");
			word(a, k, i, &b);
			buf_str(&b, "\"}}\n\n");
			break;
		case API_RESPONSES:
			named_event(&b, "response.output_text.delta");
			buf_printf(&b,
				   ",\"sequence_number\":%llu,\"item_id\":\"msg_%016llx\","
				   "\"output_index\":0,\"content_index\":0,\"logprobs\":[],"
				   "\"delta\":\"",
				   (unsigned long long)i + 1, (unsigned long long)a->seed);
			word(a, k, i, &b);
			buf_str(&b, "\"}\n\n");
			break;
		case API_GENERATE:
			buf_str(&b, "data: {\"text\":\"");
			text(a, k, i + 1, &b);
			buf_str(&b, "\",");
			usage(a, &b);
			buf_str(&b, "}\n\n");
			break;
		default:
			chunk_head(a, &b);
			buf_printf(&b, "{\"index\":%u,%s\"", k,
				   a->api == API_CHAT ? "\"delta\":{\"content\":" : "\"text\":");
			word(a, k, i, &b);
			buf_printf(&b, "\"%s,\"logprobs\":null,\"finish_reason\":%s}]}\n\n",
				   a->api == API_CHAT ? "}" : "", last ? "\"length\"" : "null");
		}
		flush(a, &b, emit);
	}
	buf_free(&b);
}

void wire_end(const struct answer *a, emit_fn emit)
{
	struct buf b = {0};

	if (a->api == API_MESSAGES) {
		named_event(&b, "content_block_stop");
		buf_str(&b, ",\"index\":0}\n\n");
		flush(a, &b, emit);
		named_event(&b, "message_delta");
		buf_str(&b, ",\"delta\":{\"stop_reason\":\"max_tokens\",\"stop_sequence\":null},");
		usage(a, &b);
		buf_str(&b, "}\n\n");
		flush(a, &b, emit);
		named_event(&b, "message_stop");
		buf_str(&b, "}\n\n");
		flush(a, &b, emit);
	} else if (a->api == API_RESPONSES) {
		named_event(&b, "response.completed");
		buf_printf(&b, ",\"sequence_number\":%llu,\"response\":",
			   (unsigned long long)a->max_tokens + 1);
		response_object(a, &b, true);
		buf_str(&b, "}\n\n");
		flush(a, &b, emit);
	} else {
		if (a->usage && a->api != API_GENERATE) {
			chunk_head(a, &b);
			buf_str(&b, "],");
			usage(a, &b);
			buf_str(&b, "}\n\n");
			flush(a, &b, emit);
		}
		buf_str(&b, "data: [DONE]\n\n");
		flush(a, &b, emit);
	}
	buf_free(&b);
}
