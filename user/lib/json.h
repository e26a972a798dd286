/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads a JSON text (RFC 8259) in place: no tree, no copy.
 *
 * A prompt is a few very long strings, or an array of 100,000 numbers. A tree (yyjson's) spends
 * 16 bytes on every value and a copy of the text: eight times the body for an array of numbers,
 * and it takes three times as long. Here every byte is looked at twice: when the text is checked,
 * which also notes where long values end, and when it is used.
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
	const char *reason; /* of -EINVAL */
	struct kv_json_span *spans;
	size_t n_spans;
	size_t spans_capacity;
};

/* Checks the whole text, which has to be one value, and remembers its long values.
 * 0 or -EINVAL. The text is used until kv_json_close, which must follow in any case. */
int kv_json_open(struct kv_json *json, const char *text, size_t len, struct kv_value *ret_root);
void kv_json_close(struct kv_json *json);

enum kv_json_type kv_json_type(struct kv_value value);

/* Steps through an array or object of an opened text; *ret_item (of an object: the value) and
 * *ret_key are set while true is returned. */
struct kv_json_iter {
	const struct kv_json *json;
	const char *p; /* NULL: at the end */
	const char *end;
};

struct kv_json_iter kv_json_iter(const struct kv_json *json, struct kv_value container);
bool kv_json_next(struct kv_json_iter *it, struct kv_value *ret_item);
/* Only for arrays of token ids, integers of 0 … 2^32 - 1: 1, 0 at the end, -EINVAL. */
int kv_json_next_u32(struct kv_json_iter *it, uint32_t *ret_item);
bool kv_json_next_member(struct kv_json_iter *it, struct kv_value *ret_key,
			 struct kv_value *ret_item);

/* The object's members of these n names, absent where it has none; of equal names the last. */
void kv_json_fields(const struct kv_json *json, struct kv_value object, const char *const names[],
		    size_t n, struct kv_value ret_values[]);

/* Decodes a string piece by piece: pieces lie in the text, or, an escape, in the cursor. */
struct kv_json_decoder {
	const char *p;
	const char *end;
	char escaped[4];
};

struct kv_json_decoder kv_json_decode(struct kv_value string);
/* false: no more. Pieces are never empty. */
bool kv_json_piece(struct kv_json_decoder *dec, const char **ret_piece, size_t *ret_len);

bool kv_json_equals(struct kv_value string, const char *text);

#pragma GCC visibility pop

#endif /* KVSTEER_LIB_JSON_H */
