/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The canonical text of a prompt, hashed while it is written.
 *
 * It is a sequence of parts: a mark byte that cannot occur in UTF-8, then the part's bytes.
 * So a part ends where the next begins, no part can imitate another, and nothing about a later
 * part stands before it: two prompts with a common head have common text.
 */
#ifndef KVSTEER_LIB_TEXT_H
#define KVSTEER_LIB_TEXT_H

#include <stdbool.h>

#include "lib/hash.h"
#include "lib/json.h"

#pragma GCC visibility push(hidden)

enum kv_mark {
	KV_MARK_TOOL = 0xf5,	/* followed by a JSON value's parts */
	KV_MARK_MESSAGE = 0xf6, /* its role; empty: an item without one, its JSON follows */
	KV_MARK_NAME = 0xf7,
	KV_MARK_TEXT = 0xf8,   /* text of a message, a prompt */
	KV_MARK_RESULT = 0xf9, /* a tool's result: id of the call; its content follows */
	KV_MARK_CALL = 0xfa,   /* a tool call of a message: JSON follows */
	KV_MARK_DIGEST = 0xfb, /* 16 hex digits in place of a long string */
	/* JSON values */
	KV_MARK_NEST = 0xfc, /* one of { } [ ] */
	KV_MARK_KEY = 0xfd,
	KV_MARK_STRING = 0xfe,
	KV_MARK_SCALAR = 0xff, /* number as sent, true, false, null */
};

/* Keeps what is hashed. */
struct kv_tap {
	char *data;
	size_t len, size;
};

struct kv_text {
	struct kv_tap *tap; /* NULL: nobody wants it */
	struct kv_json *json;
	struct kv_chain chain;
	char out[8192]; /* on its way to the chain */
	size_t n_out;
	uint32_t boundaries[KVSTEER_MAX_RUNGS]; /* blocks, rising; the last ones */
	uint32_t n_boundaries;
	int err; /* the first one; everything after it is ignored */
	const char *reason;
};

int kv_text_init(struct kv_text *text, struct kv_json *json, size_t block, uint64_t seed);
void kv_text_free(struct kv_text *text);
/* Hands everything written to the chain: before the chain is used. */
void kv_text_flush(struct kv_text *text);
void kv_text_fail(struct kv_text *text, int err, const char *reason);
void kv_text_mark(struct kv_text *text, enum kv_mark mark);
void kv_text_add(struct kv_text *text, const char *data, size_t len);
/* A JSON string, decoded. */
void kv_text_string(struct kv_text *text, enum kv_mark mark, struct kv_value string);
/* A message ends here. */
void kv_text_boundary(struct kv_text *text);

/*
 * A JSON value without its white space and with its keys sorted (canon.c). Of the outermost
 * object "cache_control" is left out: clients move it from turn to turn, and no engine reads it.
 * digest: strings over 1024 bytes (images) by their XXH3.
 */
void kv_text_json(struct kv_text *text, struct kv_value value, bool digest);

/* The endpoints' fields (messages.c). */
void kv_text_tools(struct kv_text *text, struct kv_value tools);
/* One message of that role, content a string or an array of parts. */
void kv_text_message(struct kv_text *text, const char *role, struct kv_value content);
void kv_text_messages(struct kv_text *text, struct kv_value messages);

#pragma GCC visibility pop

#endif /* KVSTEER_LIB_TEXT_H */
