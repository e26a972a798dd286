// SPDX-License-Identifier: BSD-2-Clause
/* The prompt of a body: as a chat template would, one text over all parts. */
#include <stdlib.h>
#include <string.h>

#include "completion.h"

uint32_t prompt_tokens(const struct prompt *p)
{
	return (p->tokens.len + 3) / 4;
}

void prompts_free(struct prompts *p)
{
	for (uint32_t i = 0; i < p->n; i++)
		buf_free(&p->prompt[i].tokens);
	p->n = 0;
}

static void add_json(struct buf *b, yyjson_val *v)
{
	size_t n;
	char *text = yyjson_val_write(v, 0, &n);

	if (text)
		buf_add(b, text, n);
	free(text);
}

/* A string, or parts: their text, or what else they are as JSON. */
static void add_content(struct buf *b, yyjson_val *content)
{
	yyjson_val *part;
	size_t i, max;

	if (yyjson_is_str(content)) {
		buf_add(b, yyjson_get_str(content), yyjson_get_len(content));
		return;
	}
	yyjson_arr_foreach (content, i, max, part) {
		yyjson_val *text = yyjson_obj_get(part, "text");

		if (yyjson_is_str(text))
			buf_add(b, yyjson_get_str(text), yyjson_get_len(text));
		else
			add_json(b, part);
	}
}

static void add_message(struct buf *b, const char *role, yyjson_val *content)
{
	buf_printf(b, "<|%s|>", role);
	add_content(b, content);
	buf_str(b, "<|end|>\n");
}

static void add_messages(struct buf *b, yyjson_val *messages)
{
	yyjson_val *m;
	size_t i, max;

	yyjson_arr_foreach (messages, i, max, m) {
		const char *role = yyjson_get_str(yyjson_obj_get(m, "role"));
		yyjson_val *calls = yyjson_obj_get(m, "tool_calls");

		add_message(b, role ? role : "user", yyjson_obj_get(m, "content"));
		if (calls)
			add_json(b, calls);
	}
}

static int add_ids(struct prompts *ret, yyjson_val *ids)
{
	struct prompt *p = &ret->prompt[ret->n];
	yyjson_val *id;
	size_t i, max;

	if (ret->n == PROMPTS_MAX)
		return -1;
	ret->n++;
	p->ids = true;
	yyjson_arr_foreach (ids, i, max, id) {
		uint32_t t = yyjson_get_uint(id);

		if (!yyjson_is_uint(id) || yyjson_get_uint(id) > UINT32_MAX)
			return -1;
		buf_add(&p->tokens, &t, sizeof(t));
	}
	return 0;
}

static int add_text(struct prompts *ret, yyjson_val *text)
{
	if (ret->n == PROMPTS_MAX)
		return -1;
	buf_add(&ret->prompt[ret->n++].tokens, yyjson_get_str(text), yyjson_get_len(text));
	return 0;
}

/* string, array of strings, token array, array of token arrays */
static int read_prompt(yyjson_val *v, struct prompts *ret)
{
	yyjson_val *one;
	size_t i, max;

	if (yyjson_is_str(v))
		return add_text(ret, v);
	if (!yyjson_is_arr(v) || !yyjson_arr_size(v))
		return -1;
	if (yyjson_is_uint(yyjson_arr_get_first(v)))
		return add_ids(ret, v);
	yyjson_arr_foreach (v, i, max, one) {
		if (yyjson_is_str(one) ? add_text(ret, one)
				       : !yyjson_is_arr(one) || add_ids(ret, one))
			return -1;
	}
	return 0;
}

/* One text: tools, what stands before the messages, the messages. */
static int read_chat(yyjson_val *root, const char *before, yyjson_val *list, struct prompts *ret)
{
	yyjson_val *tools = yyjson_obj_get(root, "tools"), *head = yyjson_obj_get(root, before);
	struct buf *b = &ret->prompt[0].tokens;

	if (!yyjson_is_str(list) && !yyjson_is_arr(list))
		return -1;
	ret->n = 1;
	if (tools && !yyjson_is_null(tools))
		add_json(b, tools);
	if (yyjson_is_str(head) || yyjson_is_arr(head))
		add_message(b, "system", head);
	if (yyjson_is_str(list))
		add_message(b, "user", list);
	else
		add_messages(b, list);
	return 0;
}

int prompts_read(yyjson_val *root, int api, struct prompts *ret, const char **ret_why)
{
	int err;

	switch (api) {
	case API_CHAT:
	case API_MESSAGES:
		*ret_why = "messages: an array is needed";
		err = read_chat(root, "system", yyjson_obj_get(root, "messages"), ret);
		break;
	case API_RESPONSES:
		*ret_why = "input: a string or an array is needed";
		err = read_chat(root, "instructions", yyjson_obj_get(root, "input"), ret);
		break;
	case API_GENERATE:
		*ret_why = "text or input_ids is needed";
		err = read_prompt(yyjson_obj_get(root, "text") ? yyjson_obj_get(root, "text")
							       : yyjson_obj_get(root, "input_ids"),
				  ret);
		break;
	default:
		*ret_why = "prompt: a string, strings, tokens or token arrays are needed";
		err = read_prompt(yyjson_obj_get(root, "prompt"), ret);
	}
	if (err)
		prompts_free(ret);
	return err;
}
