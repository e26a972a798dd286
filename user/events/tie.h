/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Prefixes of text tied to the token blocks that they end with: what engines say of a block holds
 * for the text as well. A ring of fixed size: the oldest ties make room. Not thread-safe.
 */
#ifndef KVSTEER_EVENTS_TIE_H
#define KVSTEER_EVENTS_TIE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Texts of one token block: what begins alike for everybody must not make one block's news long. */
#define KV_TIES_EACH 64

struct kv_ties;

/* NULL: no memory. Memory is used as ties come, up to max_bytes. */
struct kv_ties *kv_ties_new(size_t max_bytes);
void kv_ties_free(struct kv_ties *t);

struct kv_tie {
	uint64_t token, text;
};

enum kv_tied {
	KV_TIED_NOT,	 /* it is there already, or the token key has KV_TIES_EACH texts */
	KV_TIED,	 /* added … */
	KV_TIED_REPLACES /* … in the place of the oldest one, *ret_old */
};

enum kv_tied kv_ties_add(struct kv_ties *t, uint64_t token_key, uint64_t text_key,
			 struct kv_tie *ret_old);

/* Text keys of a token key, one after the other: begin with *at = 0; false: no more. */
bool kv_ties_next(const struct kv_ties *t, uint64_t token_key, uint32_t *at, uint64_t *ret_text);
uint32_t kv_ties_count(const struct kv_ties *t);

#endif
