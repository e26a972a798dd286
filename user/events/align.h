/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How many of an engine's tokens a prefix of a prompt's canonical text (lib/text.h) covers.
 *
 * The engine gives each token as a string. Put together they are the text after the chat template;
 * in it the texts of the messages are looked for, one after the other. What lies between them is
 * the template's and differs from model to model, so a prefix that ends there covers what the last
 * text before it does. A text that is not found, for the template has changed it, ends the search:
 * of what lies behind nothing is said.
 */
#ifndef KVSTEER_EVENTS_ALIGN_H
#define KVSTEER_EVENTS_ALIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KV_ALIGN_UNKNOWN UINT32_MAX
/* Bytes behind the last text that was found in the tokens, of which nothing can be said beyond:
 * roles and ids fit, the JSON of a tool call does not. */
#define KV_ALIGN_GAP 256

struct kv_align_token {
	const char *text; /* as the tokenizer's vocabulary has it */
	size_t len;
};

struct kv_align_part {
	size_t from, to; /* in the canonical text */
	size_t at;	 /* of `from`, in the tokens' text */
};

struct kv_align {
	uint32_t *ends; /* of each token, in bytes of the tokens' text */
	uint32_t n_tokens;
	struct kv_align_part *parts;
	size_t n_parts;
	size_t known; /* bytes of the canonical text that something can be said of */
};

/* 0, -ENOMEM, -E2BIG (4 GiB of text). To be ended with kv_align_exit in any case. */
int kv_align_init(struct kv_align *a, const char *canonical, size_t len,
		  const struct kv_align_token *tokens, uint32_t n);
void kv_align_exit(struct kv_align *a);

/* Tokens that end within the canonical text's first so many bytes; or KV_ALIGN_UNKNOWN. */
uint32_t kv_align_tokens(const struct kv_align *a, size_t bytes);

#endif
