// SPDX-License-Identifier: BSD-2-Clause
#include <string.h>

#include "lib/text.h"

void kv_text_fail(struct kv_text *text, int err, const char *reason)
{
	if (text->err)
		return;
	text->err = err;
	text->reason = reason;
}

void kv_text_add(struct kv_text *text, const char *data, size_t len)
{
	int err;

	if (text->err)
		return;
	err = kv_chain_add(&text->chain, data, len);
	if (err)
		kv_text_fail(text, err, "out of memory");
}

void kv_text_mark(struct kv_text *text, enum kv_mark mark)
{
	char byte = mark;

	kv_text_add(text, &byte, 1);
}

void kv_text_string(struct kv_text *text, enum kv_mark mark, struct kv_value string)
{
	struct kv_json_decoder dec = kv_json_decode(string);
	const char *piece;
	size_t len;

	kv_text_mark(text, mark);
	while (kv_json_piece(&dec, &piece, &len))
		kv_text_add(text, piece, len);
}

void kv_text_boundary(struct kv_text *text)
{
	uint32_t blocks = text->chain.n, *last = text->boundaries + text->n_boundaries;

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
