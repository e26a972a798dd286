// SPDX-License-Identifier: BSD-2-Clause
/* Tools and messages, in the forms of OpenAI's chat and responses and of Anthropic's messages. */
#include <errno.h>
#include <string.h>

#include "lib/text.h"

static bool present(struct kv_value value)
{
	return kv_json_type(value) > KV_JSON_NULL;
}

static void string_if_any(struct kv_text *text, enum kv_mark mark, struct kv_value value)
{
	if (kv_json_type(value) == KV_JSON_STRING)
		kv_text_string(text, mark, value);
}

void kv_text_tools(struct kv_text *text, struct kv_value tools)
{
	struct kv_json_iter it;
	struct kv_value tool;

	if (!present(tools))
		return;
	if (kv_json_type(tools) != KV_JSON_ARRAY) {
		kv_text_fail(text, -EINVAL, "tools is not an array");
		return;
	}
	it = kv_json_iter(text->json, tools);
	while (kv_json_next(&it, &tool)) {
		kv_text_mark(text, KV_MARK_TOOL);
		kv_text_json(text, tool, false);
	}
	kv_text_boundary(text);
}

static void add_content(struct kv_text *text, struct kv_value content, bool in_result);

enum { PART_TYPE, PART_TEXT, PART_ID, PART_CONTENT, PART_ERROR, PART_FIELDS };
static const char *const part_fields[PART_FIELDS] = {
	[PART_TYPE] = "type",	    [PART_TEXT] = "text",      [PART_ID] = "tool_use_id",
	[PART_CONTENT] = "content", [PART_ERROR] = "is_error",
};

static void add_part(struct kv_text *text, struct kv_value part, bool in_result)
{
	struct kv_value f[PART_FIELDS];
	struct kv_value type;

	if (kv_json_type(part) == KV_JSON_STRING) {
		kv_text_string(text, KV_MARK_TEXT, part);
		return;
	}
	kv_json_fields(text->json, part, part_fields, PART_FIELDS, f);
	type = f[PART_TYPE];
	if (kv_json_equals(type, "tool_result") && !in_result) {
		/* Files and logs come this way: as text, not as one value. */
		kv_text_mark(text, KV_MARK_RESULT);
		string_if_any(text, KV_MARK_STRING, f[PART_ID]);
		if (present(f[PART_ERROR]))
			kv_text_json(text, f[PART_ERROR], false);
		add_content(text, f[PART_CONTENT], true);
	} else if (kv_json_type(f[PART_TEXT]) == KV_JSON_STRING &&
		   (!present(type) || kv_json_equals(type, "text") ||
		    kv_json_equals(type, "input_text") || kv_json_equals(type, "output_text"))) {
		kv_text_string(text, KV_MARK_TEXT, f[PART_TEXT]);
	} else {
		kv_text_json(text, part, !kv_json_equals(type, "tool_use"));
	}
}

static void add_content(struct kv_text *text, struct kv_value content, bool in_result)
{
	struct kv_json_iter it;
	struct kv_value part;

	switch (kv_json_type(content)) {
	case KV_JSON_ABSENT:
	case KV_JSON_NULL:
		break;
	case KV_JSON_STRING:
		kv_text_string(text, KV_MARK_TEXT, content);
		break;
	case KV_JSON_ARRAY:
		it = kv_json_iter(text->json, content);
		while (kv_json_next(&it, &part))
			add_part(text, part, in_result);
		break;
	default:
		kv_text_fail(text, -EINVAL, "content is neither a string nor an array");
	}
}

void kv_text_message(struct kv_text *text, const char *role, struct kv_value content)
{
	kv_text_mark(text, KV_MARK_MESSAGE);
	kv_text_add(text, role, strlen(role));
	add_content(text, content, false);
	kv_text_boundary(text);
}

enum {
	MSG_ROLE,
	MSG_NAME,
	MSG_CALL_ID,
	MSG_REASONING_CONTENT,
	MSG_REASONING,
	MSG_CONTENT,
	MSG_CALLS,
	MSG_FUNCTION,
	MSG_FIELDS
};
static const char *const message_fields[MSG_FIELDS] = {
	[MSG_ROLE] = "role",
	[MSG_NAME] = "name",
	[MSG_CALL_ID] = "tool_call_id",
	[MSG_REASONING_CONTENT] = "reasoning_content",
	[MSG_REASONING] = "reasoning",
	[MSG_CONTENT] = "content",
	[MSG_CALLS] = "tool_calls",
	[MSG_FUNCTION] = "function_call",
};

static void add_message(struct kv_text *text, struct kv_value message)
{
	struct kv_value f[MSG_FIELDS], call;
	struct kv_json_iter it;

	if (kv_json_type(message) != KV_JSON_OBJECT) {
		kv_text_fail(text, -EINVAL, "a message is not an object");
		return;
	}
	kv_json_fields(text->json, message, message_fields, MSG_FIELDS, f);
	if (!present(f[MSG_ROLE])) {
		/* An item of /v1/responses: a function call, its output, reasoning. */
		kv_text_mark(text, KV_MARK_MESSAGE);
		kv_text_json(text, message, false);
		return;
	}
	if (kv_json_type(f[MSG_ROLE]) != KV_JSON_STRING) {
		kv_text_fail(text, -EINVAL, "a message's role is not a string");
		return;
	}
	kv_text_string(text, KV_MARK_MESSAGE, f[MSG_ROLE]);
	string_if_any(text, KV_MARK_NAME, f[MSG_NAME]);
	if (kv_json_type(f[MSG_CALL_ID]) == KV_JSON_STRING) {
		kv_text_mark(text, KV_MARK_RESULT);
		kv_text_string(text, KV_MARK_STRING, f[MSG_CALL_ID]);
	}
	string_if_any(text, KV_MARK_STRING, f[MSG_REASONING_CONTENT]);
	string_if_any(text, KV_MARK_STRING, f[MSG_REASONING]);
	add_content(text, f[MSG_CONTENT], false);
	if (kv_json_type(f[MSG_CALLS]) == KV_JSON_ARRAY) {
		it = kv_json_iter(text->json, f[MSG_CALLS]);
		while (kv_json_next(&it, &call)) {
			kv_text_mark(text, KV_MARK_CALL);
			kv_text_json(text, call, false);
		}
	}
	if (present(f[MSG_FUNCTION])) {
		kv_text_mark(text, KV_MARK_CALL);
		kv_text_json(text, f[MSG_FUNCTION], false);
	}
}

void kv_text_messages(struct kv_text *text, struct kv_value messages)
{
	struct kv_json_iter it;
	struct kv_value message;

	if (kv_json_type(messages) != KV_JSON_ARRAY) {
		kv_text_fail(text, -EINVAL, "messages is not an array");
		return;
	}
	it = kv_json_iter(text->json, messages);
	while (kv_json_next(&it, &message)) {
		add_message(text, message);
		kv_text_boundary(text);
	}
}
