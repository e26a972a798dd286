// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>
#include "answer.h"

int answer_init(struct answer *a)
{
	*a = (struct answer){.pending = evbuffer_new()};
	return a->pending ? 0 : -ENOMEM;
}

void answer_free(struct answer *a)
{
	if (a->pending)
		evbuffer_free(a->pending);
	a->pending = NULL;
}

static uint32_t number(yyjson_val *object, const char *key)
{
	return yyjson_get_uint(yyjson_obj_get(object, key));
}

static void read_event(struct answer *a, const char *json, size_t len)
{
	yyjson_doc *doc = yyjson_read(json, len, 0);
	yyjson_val *root = yyjson_doc_get_root(doc);
	yyjson_val *choice = yyjson_arr_get_first(yyjson_obj_get(root, "choices"));
	yyjson_val *usage = yyjson_obj_get(root, "usage");
	yyjson_val *text = yyjson_obj_get(yyjson_obj_get(choice, "delta"), "content");

	if (!root)
		a->malformed = true;
	if (!text)
		text = yyjson_obj_get(choice, "text");
	if (yyjson_get_len(text))
		a->content_events++;
	if (yyjson_is_obj(usage)) {
		a->usage_seen = true;
		a->prompt_tokens = number(usage, "prompt_tokens");
		a->completion_tokens = number(usage, "completion_tokens");
		a->cached_tokens =
			number(yyjson_obj_get(usage, "prompt_tokens_details"), "cached_tokens");
	}
	yyjson_doc_free(doc);
}

void answer_feed(struct answer *a, struct evbuffer *in)
{
	size_t len;
	char *line;

	evbuffer_add_buffer(a->pending, in);
	while ((line = evbuffer_readln(a->pending, &len, EVBUFFER_EOL_CRLF))) {
		if (a->done && len)
			a->malformed = true; /* nothing follows [DONE] */
		else if (!strcmp(line, "data: [DONE]"))
			a->done = true;
		else if (!strncmp(line, "data: ", 6))
			read_event(a, line + 6, len - 6);
		else if (len && line[0] != ':' && strncmp(line, "event:", 6))
			a->malformed = true;
		free(line);
	}
}

const char *answer_fault(const struct answer *a, uint32_t want_tokens, bool merged)
{
	if (a->malformed)
		return "malformed stream";
	if (!a->done)
		return "stream cut short";
	if (!a->usage_seen)
		return "no usage";
	if (a->completion_tokens != want_tokens)
		return "wrong answer length";
	if (merged ? !a->content_events : a->content_events != a->completion_tokens)
		return "events lost";
	return NULL;
}
