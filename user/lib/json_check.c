// SPDX-License-Identifier: BSD-2-Clause
/* Is it JSON, and where do its long values end? */
#include <errno.h>
#include <stdlib.h>

#include "lib/json_scan.h"

static const char *skip_digits(const char *p, const char *end)
{
	while (p < end && *p >= '0' && *p <= '9')
		p++;
	return p;
}

static const char *skip_number(const char *p, const char *end)
{
	const char *digits;

	if (*p == '-')
		p++;
	digits = p;
	p = skip_digits(p, end);
	if (p == digits || (*digits == '0' && p - digits > 1))
		return NULL;
	if (p < end && *p == '.') {
		digits = p + 1;
		p = skip_digits(digits, end);
		if (p == digits)
			return NULL;
	}
	if (p < end && (*p == 'e' || *p == 'E')) {
		p++;
		if (p < end && (*p == '+' || *p == '-'))
			p++;
		digits = p;
		p = skip_digits(digits, end);
		if (p == digits)
			return NULL;
	}
	return p;
}

static const char *skip_word(const char *p, const char *end, const char *word)
{
	size_t len = strlen(word);

	return (size_t)(end - p) >= len && !memcmp(p, word, len) ? p + len : NULL;
}

/* Notes a value that begins at p and whose end is told later. Without memory it is not noted,
 * and will be searched again. */
static size_t note(struct kv_json *json, const char *p)
{
	if (json->n_spans == json->spans_capacity) {
		size_t capacity = json->spans_capacity ? json->spans_capacity * 2 : 64;
		struct kv_json_span *spans =
			reallocarray(json->spans, capacity, sizeof(*json->spans));

		if (!spans)
			return SIZE_MAX;
		json->spans = spans;
		json->spans_capacity = capacity;
	}
	json->spans[json->n_spans].at = p - json->text;
	return json->n_spans++;
}

static void note_end(struct kv_json *json, size_t i, const char *end)
{
	if (i == SIZE_MAX)
		return;
	json->spans[i].end = end - json->text;
	/* All inside a short value is short: the note is the last one. */
	if (json->spans[i].end - json->spans[i].at < KV_JSON_LONG)
		json->n_spans = i;
}

/* Checks one value from p on; returns the place behind it, or NULL with json->reason. */
static const char *check_value(struct kv_json *json, const char *p, const char *end)
{
	struct {
		size_t note;
		char closing;
	} stack[KV_JSON_DEPTH + 1], *top = stack; /* the first is never a container's */
	const char *start;

value:
	p = skip_space(p, end);
	if (p == end) {
		json->reason = "JSON ends too early";
		return NULL;
	}
	switch (*p) {
	case '{':
	case '[':
		if (++top > stack + KV_JSON_DEPTH) {
			json->reason = "JSON nested more than 128 deep";
			return NULL;
		}
		top->closing = *p + 2; /* ASCII: { } and [ ] */
		top->note = note(json, p);
		p = skip_space(p + 1, end);
		if (p < end && *p == top->closing)
			goto closed;
		if (top->closing == '}')
			goto key;
		goto value;
	case '"':
		start = p;
		p = skip_string(p + 1, end);
		if (p && p - start >= KV_JSON_LONG)
			note_end(json, note(json, start), p);
		break;
	case 't':
		p = skip_word(p, end, "true");
		break;
	case 'f':
		p = skip_word(p, end, "false");
		break;
	case 'n':
		p = skip_word(p, end, "null");
		break;
	default:
		p = skip_number(p, end);
	}
	if (!p)
		goto malformed;
	goto after;

key:
	p = skip_space(p, end);
	if (p == end || *p != '"')
		goto malformed;
	p = skip_string(p + 1, end);
	if (!p)
		goto malformed;
	p = skip_space(p, end);
	if (p == end || *p != ':')
		goto malformed;
	p++;
	goto value;

closed:
	p++;
	note_end(json, top->note, p);
	top--;
after:
	if (top == stack)
		return p;
	p = skip_space(p, end);
	if (p == end)
		goto malformed;
	if (*p == top->closing)
		goto closed;
	if (*p != ',')
		goto malformed;
	p++;
	if (top->closing == '}')
		goto key;
	goto value;

malformed:
	json->reason = "not JSON";
	return NULL;
}

int kv_json_open(struct kv_json *json, const char *text, size_t len, struct kv_value *ret_root)
{
	const char *end, *p;

	memset(json, 0, sizeof(*json));
	json->text = text;
	json->end = text + len;
	if (!len || len > UINT32_MAX) {
		json->reason = len ? "JSON over 4 GiB" : "empty";
		return -EINVAL;
	}
	end = json->end;
	ret_root->at = skip_space(text, end);
	p = check_value(json, text, end);
	if (!p)
		return -EINVAL;
	ret_root->end = p;
	if (skip_space(p, end) != end) {
		json->reason = "bytes behind the JSON value";
		return -EINVAL;
	}
	return 0;
}

void kv_json_close(struct kv_json *json)
{
	free(json->spans);
}
