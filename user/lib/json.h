/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads a JSON text (RFC 8259) in place: no tree, no copy.
 *
 * A prompt is a few very long strings, or an array of 100,000 numbers. A tree (yyjson's) keeps 16
 * bytes for every value and a copy of the text: up to nine times the body, and a gateway reads
 * bodies of 64 MiB. This reader needs memory only for its notes of where values over 512 bytes end,
 * and nothing has to be copied or decoded to be skipped.
 *
 * Strings are not checked to be UTF-8, but bytes from 0xf5 up, which never occur in it, are
 * refused: text.h uses them as marks.
 */
#ifndef KVSTEER_LIB_JSON_H
#define KVSTEER_LIB_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

#define KV_JSON_DEPTH 128

enum kv_json_type {
	KV_JSON_ABSENT,
	KV_JSON_NULL,
	KV_JSON_BOOL,
	KV_JSON_NUMBER,
	KV_JSON_STRING,
	KV_JSON_ARRAY,
	KV_JSON_OBJECT,
};

/* A value where it lies in the text, quotes and brackets included. */
struct kv_value {
	const char *at; /* NULL: absent */
	const char *end;
};

/* Where a long string, array or object ends: found once, when the text is checked. */
struct kv_json_span {
	uint32_t at;
	uint32_t end;
};

struct kv_json {
	const char *text;
	const char *end;
	const char *reason; /* of -EINVAL */
	struct kv_json_span *spans;
	size_t n_spans;
	size_t spans_capacity;
	size_t found; /* the span last looked up */
};

/* Checks the whole text, which has to be one value, and remembers its long values.
 * 0 or -EINVAL. The text is used until kv_json_close, which must follow in any case. */
int kv_json_open(struct kv_json *json, const char *text, size_t len, struct kv_value *ret_root);
void kv_json_close(struct kv_json *json);

static inline enum kv_json_type kv_json_type(struct kv_value value)
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

/* Steps through an array or object of an opened text; *ret_item (of an object: the value) and
 * *ret_key are set while true is returned. */
struct kv_json_iter {
	struct kv_json *json;
	const char *p; /* NULL: at the end */
	const char *end;
};

struct kv_json_iter kv_json_iter(struct kv_json *json, struct kv_value container);
bool kv_json_next(struct kv_json_iter *it, struct kv_value *ret_item);
/* Only for arrays of token ids, integers of 0 … 2^32 - 1: 1, 0 at the end, -EINVAL. */
int kv_json_next_u32(struct kv_json_iter *it, uint32_t *ret_item);
bool kv_json_next_member(struct kv_json_iter *it, struct kv_value *ret_key,
			 struct kv_value *ret_item);

/* The object's members of these n names, absent where it has none; of equal names the last. */
void kv_json_fields(struct kv_json *json, struct kv_value object, const char *const names[],
		    size_t n, struct kv_value ret_values[]);

/* Decodes a string piece by piece. */
struct kv_json_decoder {
	const char *p;
	const char *end;
	const char *limit; /* of what may be read, wanted or not */
};

/* json: of the string, or NULL: slower. */
static inline struct kv_json_decoder kv_json_decode(const struct kv_json *json,
						    struct kv_value string)
{
	return (struct kv_json_decoder){string.at + 1, string.end - 1,
					json ? json->end : string.end};
}

/* Fills buf, of at least 64 bytes, but for the last few. Returns the length, 0 at the end. */
size_t kv_json_read(struct kv_json_decoder *dec, char *buf, size_t size);

/* text: without backslashes. */
bool kv_json_equals(struct kv_value string, const char *text);

#pragma GCC visibility pop

#endif /* KVSTEER_LIB_JSON_H */
