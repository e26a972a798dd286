// SPDX-License-Identifier: BSD-2-Clause
/* JSON values in canonical form: tools, tool calls, parts that are not text. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "lib/text.h"

#define DIGEST_OVER 1024
#define MAX_MEMBERS 65536 /* of the objects under way: 2 MiB */

struct member {
	struct kv_value key;
	struct kv_value value;
};

struct canon {
	struct kv_text *text;
	bool digest;
	/* Members of the objects under way, each object's sorted; the innermost's are last. */
	struct member *members;
	size_t n;
	size_t capacity;
};

/* By decoded bytes. Equal keys stay in the order they were sent in. */
static int compare(const void *a, const void *b)
{
	const struct member *x = a, *y = b;
	struct kv_json_decoder dec_x = kv_json_decode(NULL, x->key),
			       dec_y = kv_json_decode(NULL, y->key);
	char buf_x[64], buf_y[64], *piece_x = buf_x, *piece_y = buf_y;
	size_t len_x = 0, len_y = 0;

	/* Until the first difference or escape, nothing has to be decoded. */
	while (dec_x.p < dec_x.end && dec_y.p < dec_y.end && *dec_x.p == *dec_y.p &&
	       *dec_x.p != '\\') {
		dec_x.p++;
		dec_y.p++;
	}
	if (dec_x.p < dec_x.end && dec_y.p < dec_y.end && *dec_x.p != '\\' && *dec_y.p != '\\')
		return (unsigned char)*dec_x.p - (unsigned char)*dec_y.p;
	for (;;) {
		size_t len;
		int diff;

		if (!len_x)
			len_x = kv_json_read(&dec_x, piece_x = buf_x, sizeof(buf_x));
		if (!len_y)
			len_y = kv_json_read(&dec_y, piece_y = buf_y, sizeof(buf_y));
		if (!len_x && !len_y)
			return x->key.at > y->key.at ? 1 : -1;
		if (!len_x || !len_y)
			return len_x ? 1 : -1;
		len = len_x < len_y ? len_x : len_y;
		diff = memcmp(piece_x, piece_y, len);
		if (diff)
			return diff;
		piece_x += len;
		piece_y += len;
		len_x -= len;
		len_y -= len;
	}
}

static bool push(struct canon *canon, struct member member)
{
	if (canon->n == canon->capacity) {
		size_t capacity = canon->capacity ? canon->capacity * 2 : 64;
		struct member *members;

		if (capacity > MAX_MEMBERS) {
			kv_text_fail(canon->text, -EINVAL, "JSON object with too many members");
			return false;
		}
		members = reallocarray(canon->members, capacity, sizeof(*members));
		if (!members) {
			kv_text_fail(canon->text, -ENOMEM, "out of memory");
			return false;
		}
		canon->members = members;
		canon->capacity = capacity;
	}
	canon->members[canon->n++] = member;
	return true;
}

static void nest(struct canon *canon, char bracket)
{
	kv_text_mark(canon->text, KV_MARK_NEST);
	kv_text_add(canon->text, &bracket, 1);
}

/* The string by its digest if it is long when decoded. */
static bool digest(struct canon *canon, struct kv_value string)
{
	struct kv_json_decoder dec = kv_json_decode(canon->text->json, string);
	XXH3_state_t *state;
	char buf[4096], hex[17];
	size_t len = kv_json_read(&dec, buf, sizeof(buf));

	if (len <= DIGEST_OVER)
		return false;
	state = XXH3_createState();
	if (!state) {
		kv_text_fail(canon->text, -ENOMEM, "out of memory");
		return true;
	}
	XXH3_64bits_reset(state);
	for (; len; len = kv_json_read(&dec, buf, sizeof(buf)))
		XXH3_64bits_update(state, buf, len);
	snprintf(hex, sizeof(hex), "%016" PRIx64, (uint64_t)XXH3_64bits_digest(state));
	XXH3_freeState(state);
	kv_text_mark(canon->text, KV_MARK_DIGEST);
	kv_text_add(canon->text, hex, 16);
	return true;
}

static void add(struct canon *canon, struct kv_value value, bool outermost);

static void add_object(struct canon *canon, struct kv_value value, bool outermost)
{
	struct kv_json_iter it = kv_json_iter(canon->text->json, value);
	size_t first = canon->n, last;
	struct member member;

	while (kv_json_next_member(&it, &member.key, &member.value)) {
		if (outermost && kv_json_equals(member.key, "cache_control"))
			continue;
		if (!push(canon, member))
			return;
	}
	last = canon->n;
	if (last - first > 1)
		qsort(canon->members + first, last - first, sizeof(member), compare);
	nest(canon, '{');
	for (size_t i = first; i < last; i++) {
		member = canon->members[i]; /* add() may move the array */
		kv_text_string(canon->text, KV_MARK_KEY, member.key);
		add(canon, member.value, false);
	}
	nest(canon, '}');
	canon->n = first;
}

static void add_array(struct canon *canon, struct kv_value value)
{
	struct kv_json_iter it = kv_json_iter(canon->text->json, value);
	struct kv_value item;

	nest(canon, '[');
	while (kv_json_next(&it, &item))
		add(canon, item, false);
	nest(canon, ']');
}

/* Recursion is bounded: the text was checked to be at most KV_JSON_DEPTH deep. */
static void add(struct canon *canon, struct kv_value value, bool outermost)
{
	if (canon->text->err)
		return;
	switch (kv_json_type(value)) {
	case KV_JSON_OBJECT:
		add_object(canon, value, outermost);
		break;
	case KV_JSON_ARRAY:
		add_array(canon, value);
		break;
	case KV_JSON_STRING:
		if (!canon->digest || value.end - value.at <= DIGEST_OVER || !digest(canon, value))
			kv_text_string(canon->text, KV_MARK_STRING, value);
		break;
	default:
		kv_text_mark(canon->text, KV_MARK_SCALAR);
		kv_text_add(canon->text, value.at, value.end - value.at);
	}
}

void kv_text_json(struct kv_text *text, struct kv_value value, bool digest)
{
	struct canon canon = {.text = text, .digest = digest};

	add(&canon, value, true);
	free(canon.members);
}
