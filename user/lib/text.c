// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/text.h"

int kv_text_init(struct kv_text *text, struct kv_json *json, size_t block, uint64_t seed)
{
	text->tap = NULL;
	text->json = json;
	text->n_out = 0;
	text->n_boundaries = 0;
	text->err = 0;
	text->reason = NULL;
	return kv_chain_init(&text->chain, block, seed);
}

void kv_text_free(struct kv_text *text)
{
	kv_chain_free(&text->chain);
}

void kv_text_fail(struct kv_text *text, int err, const char *reason)
{
	if (text->err)
		return;
	text->err = err;
	text->reason = reason;
}

static int keep(struct kv_tap *tap, const char *data, size_t len)
{
	if (!tap)
		return 0;
	if (tap->len + len > tap->size) {
		size_t size = 2 * tap->size + len;
		char *more = realloc(tap->data, size);

		if (!more)
			return -ENOMEM;
		tap->data = more;
		tap->size = size;
	}
	memcpy(tap->data + tap->len, data, len);
	tap->len += len;
	return 0;
}

void kv_text_flush(struct kv_text *text)
{
	int err = text->err ? 0 : kv_chain_add(&text->chain, text->out, text->n_out);

	if (!err && !text->err)
		err = keep(text->tap, text->out, text->n_out);
	if (err)
		kv_text_fail(text, err, "out of memory");
	text->n_out = 0;
}

/* Room for the next part's first bytes. */
static inline void make_room(struct kv_text *text, size_t room)
{
	if (sizeof(text->out) - text->n_out < room)
		kv_text_flush(text);
}

void kv_text_add(struct kv_text *text, const char *data, size_t len)
{
	while (len) {
		size_t take;

		make_room(text, 1);
		take = sizeof(text->out) - text->n_out;
		if (take > len)
			take = len;
		memcpy(text->out + text->n_out, data, take);
		text->n_out += take;
		data += take;
		len -= take;
	}
}

void kv_text_mark(struct kv_text *text, enum kv_mark mark)
{
	make_room(text, 1);
	text->out[text->n_out++] = mark;
}

void kv_text_string(struct kv_text *text, enum kv_mark mark, struct kv_value string)
{
	struct kv_json_decoder dec = kv_json_decode(text->json, string);

	kv_text_mark(text, mark);
	while (dec.p < dec.end) {
		make_room(text, 256); /* kv_json_read is slow where there is little */
		text->n_out += kv_json_read(&dec, text->out + text->n_out,
					    sizeof(text->out) - text->n_out);
	}
}

void kv_text_boundary(struct kv_text *text)
{
	uint32_t blocks = (text->chain.bytes + text->n_out) / text->chain.block;
	uint32_t *last = text->boundaries + text->n_boundaries;

	if (!blocks || (text->n_boundaries && last[-1] == blocks))
		return;
	/* Only the latest can become rungs. */
	if (text->n_boundaries == KVSTEER_MAX_RUNGS) {
		memmove(text->boundaries, text->boundaries + 1,
			sizeof(text->boundaries) - sizeof(text->boundaries[0]));
		text->n_boundaries--;
	}
	text->boundaries[text->n_boundaries++] = blocks;
}
