// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/json.h"

#define LONG_VALUE 256 /* bytes: the end of shorter ones is searched again */

typedef unsigned char vec __attribute__((vector_size(16)));
typedef uint64_t vec64 __attribute__((vector_size(16)));

static const char *skip_space(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
		p++;
	return p;
}

static bool is_plain(unsigned char c)
{
	return c >= 0x20 && c < 0xf5 && c != '"' && c != '\\';
}

/* First byte that is not plain string content. */
static const char *skip_plain(const char *p, const char *end)
{
	for (; end - p >= (ptrdiff_t)sizeof(vec); p += sizeof(vec)) {
		vec v;
		vec64 odd;

		memcpy(&v, p, sizeof(v));
		odd = (vec64)((v < 0x20) | (v >= 0xf5) | (v == '"') | (v == '\\'));
		if (odd[0])
			return p + __builtin_ctzll(odd[0]) / 8;
		if (odd[1])
			return p + 8 + __builtin_ctzll(odd[1]) / 8;
	}
	while (p < end && is_plain(*p))
		p++;
	return p;
}

static int hex4(const char *p, const char *end)
{
	int value = 0;

	if (end - p < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		char c = p[i] | 0x20;

		if (p[i] >= '0' && p[i] <= '9')
			value = value << 4 | (p[i] - '0');
		else if (c >= 'a' && c <= 'f')
			value = value << 4 | (c - 'a' + 10);
		else
			return -1;
	}
	return value;
}

/* p: behind the opening quote. Returns the place behind the closing one, NULL if malformed. */
static const char *skip_string(const char *p, const char *end)
{
	for (;;) {
		p = skip_plain(p, end);
		if (p == end)
			return NULL;
		if (*p == '"')
			return p + 1;
		if (*p != '\\' || end - p < 2)
			return NULL;
		if (p[1] == 'u') {
			if (hex4(p + 2, end) < 0)
				return NULL;
			p += 6;
		} else if (p[1] && strchr("\"\\/bfnrt", p[1])) {
			p += 2;
		} else {
			return NULL;
		}
	}
}

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
	if (json->spans[i].end - json->spans[i].at < LONG_VALUE)
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
		if (p && p - start >= LONG_VALUE)
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
	if (!len || len > UINT32_MAX) {
		json->reason = len ? "JSON over 4 GiB" : "empty";
		return -EINVAL;
	}
	end = text + len;
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

enum kv_json_type kv_json_type(struct kv_value value)
{
	if (!value.at)
		return KV_JSON_ABSENT;
	switch (*value.at) {
	case '{':
		return KV_JSON_OBJECT;
	case '[':
		return KV_JSON_ARRAY;
	case '"':
		return KV_JSON_STRING;
	case 't':
	case 'f':
		return KV_JSON_BOOL;
	case 'n':
		return KV_JSON_NULL;
	default:
		return KV_JSON_NUMBER;
	}
}

struct kv_json_iter kv_json_iter(const struct kv_json *json, struct kv_value container)
{
	return (struct kv_json_iter){json, container.at + 1, container.end - 1};
}

static const char *noted_end(const struct kv_json *json, const char *p)
{
	size_t low = 0, high = json->n_spans;
	uint32_t at = p - json->text;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (json->spans[mid].at < at)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == json->n_spans || json->spans[low].at != at)
		return NULL;
	return json->text + json->spans[low].end;
}

/* p: first byte of a value in a checked text. Returns the place behind it. */
static const char *skip_checked(const struct kv_json *json, const char *p, const char *end)
{
	const char *noted;
	unsigned int depth = 0;

	if (*p != '"' && *p != '{' && *p != '[') {
		while (p < end && (unsigned char)*p > ' ' && *p != ',')
			p++;
		return p;
	}
	if (*p == '"') {
		const char *near = end - p > LONG_VALUE ? p + LONG_VALUE : end;
		const char *plain = skip_plain(p + 1, near);

		if (plain < near && *plain == '"')
			return plain + 1;
	}
	noted = noted_end(json, p);
	if (noted)
		return noted;
	/* A short one, or its note was lost to want of memory. */
	do {
		if (*p == '"') {
			p = skip_string(p + 1, end);
			continue;
		}
		if (*p == '{' || *p == '[')
			depth++;
		else if (*p == '}' || *p == ']')
			depth--;
		p++;
	} while (depth);
	return p;
}

/* Before the next element: p at its first byte, or at the end. */
static bool at_element(struct kv_json_iter *it)
{
	it->p = skip_space(it->p, it->end);
	if (it->p < it->end && *it->p == ',')
		it->p = skip_space(it->p + 1, it->end);
	return it->p < it->end;
}

static void take_value(struct kv_json_iter *it, struct kv_value *ret_item)
{
	ret_item->at = it->p;
	it->p = skip_checked(it->json, it->p, it->end);
	ret_item->end = it->p;
}

bool kv_json_next(struct kv_json_iter *it, struct kv_value *ret_item)
{
	if (!at_element(it))
		return false;
	take_value(it, ret_item);
	return true;
}

bool kv_json_next_member(struct kv_json_iter *it, struct kv_value *ret_key,
			 struct kv_value *ret_item)
{
	if (!at_element(it))
		return false;
	take_value(it, ret_key);
	it->p = skip_space(it->p, it->end);
	it->p = skip_space(it->p + 1, it->end); /* behind the colon */
	take_value(it, ret_item);
	return true;
}

int kv_json_next_u32(struct kv_json_iter *it, uint32_t *ret_item)
{
	uint64_t value = 0;
	const char *start;

	if (!at_element(it))
		return 0;
	start = it->p;
	while (it->p < it->end && *it->p >= '0' && *it->p <= '9' && value <= UINT32_MAX)
		value = value * 10 + (*it->p++ - '0');
	if (it->p == start || value > UINT32_MAX ||
	    (it->p < it->end && (*it->p == '.' || *it->p == 'e' || *it->p == 'E')))
		return -EINVAL;
	*ret_item = value;
	return 1;
}

struct kv_json_decoder kv_json_decode(struct kv_value string)
{
	return (struct kv_json_decoder){.p = string.at + 1, .end = string.end - 1};
}

static size_t put_utf8(char *out, unsigned int c)
{
	if (c < 0x80) {
		out[0] = c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = 0xc0 | c >> 6;
		out[1] = 0x80 | (c & 0x3f);
		return 2;
	}
	if (c < 0x10000) {
		out[0] = 0xe0 | c >> 12;
		out[1] = 0x80 | (c >> 6 & 0x3f);
		out[2] = 0x80 | (c & 0x3f);
		return 3;
	}
	out[0] = 0xf0 | c >> 18;
	out[1] = 0x80 | (c >> 12 & 0x3f);
	out[2] = 0x80 | (c >> 6 & 0x3f);
	out[3] = 0x80 | (c & 0x3f);
	return 4;
}

/* p: behind \u. A surrogate without its partner is kept, as three bytes. */
static size_t decode_unicode(struct kv_json_decoder *dec)
{
	unsigned int c = hex4(dec->p, dec->end);

	dec->p += 4;
	if (c >= 0xd800 && c < 0xdc00 && dec->end - dec->p >= 6 && dec->p[0] == '\\' &&
	    dec->p[1] == 'u') {
		unsigned int low = hex4(dec->p + 2, dec->end);

		if (low >= 0xdc00 && low < 0xe000) {
			dec->p += 6;
			c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
		}
	}
	return put_utf8(dec->escaped, c);
}

bool kv_json_piece(struct kv_json_decoder *dec, const char **ret_piece, size_t *ret_len)
{
	const char *escape;

	if (dec->p >= dec->end)
		return false;
	if (*dec->p != '\\') {
		escape = memchr(dec->p, '\\', dec->end - dec->p);
		*ret_piece = dec->p;
		*ret_len = (escape ? escape : dec->end) - dec->p;
		dec->p += *ret_len;
		return true;
	}
	dec->p += 2;
	*ret_piece = dec->escaped;
	*ret_len = 1;
	switch (dec->p[-1]) {
	case 'b':
		dec->escaped[0] = '\b';
		break;
	case 'f':
		dec->escaped[0] = '\f';
		break;
	case 'n':
		dec->escaped[0] = '\n';
		break;
	case 'r':
		dec->escaped[0] = '\r';
		break;
	case 't':
		dec->escaped[0] = '\t';
		break;
	case 'u':
		*ret_len = decode_unicode(dec);
		break;
	default: /* quote, backslash, slash */
		dec->escaped[0] = dec->p[-1];
	}
	return true;
}

bool kv_json_equals(struct kv_value string, const char *text)
{
	struct kv_json_decoder dec;
	size_t left = strlen(text), len;
	const char *piece;

	if (kv_json_type(string) != KV_JSON_STRING)
		return false;
	dec = kv_json_decode(string);
	while (kv_json_piece(&dec, &piece, &len)) {
		if (len > left || memcmp(piece, text, len))
			return false;
		text += len;
		left -= len;
	}
	return !left;
}

void kv_json_fields(const struct kv_json *json, struct kv_value object, const char *const names[],
		    size_t n, struct kv_value ret_values[])
{
	struct kv_value key, item;
	struct kv_json_iter it;

	memset(ret_values, 0, n * sizeof(*ret_values));
	if (kv_json_type(object) != KV_JSON_OBJECT)
		return;
	it = kv_json_iter(json, object);
	while (kv_json_next_member(&it, &key, &item))
		for (size_t i = 0; i < n; i++)
			if (kv_json_equals(key, names[i]))
				ret_values[i] = item;
}
