/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * libkvsteer: from a request body or token ids to the KV-Prefix header.
 *
 * A client that sends this header lets the gateway's kernel steer the request on its first
 * packet. The gateway's agent calls the same functions for requests without it, so hinted and
 * unhinted requests of one prompt meet in the same prefix entries.
 *
 * The functions keep no state, never print, and may be called from any thread. Sizes are bytes,
 * depths and totals are tokens: real ones in the token domain, 4-byte pseudo-tokens of the
 * canonical prompt text in the text domain. docs/man/libkvsteer.3 defines text and hash exactly.
 */
#ifndef KVSTEER_H
#define KVSTEER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KVSTEER_MAX_RUNGS 32
#define KVSTEER_HEADER_NAME "KV-Prefix"
#define KVSTEER_HEADER_SIZE 801 /* the longest header value, 800 bytes, and its NUL */
#define KVSTEER_TEXT_BLOCK 64	/* pseudo-tokens per block: 256 bytes of text */
#define KVSTEER_TOKEN_BLOCK 16	/* default block of the token domain, as vLLM's */
#define KVSTEER_MAX_BLOCK 65536 /* tokens */

enum kvsteer_domain {
	KVSTEER_TEXT,
	KVSTEER_TOKENS,
};

/* One prefix of the prompt: its length and the chain hash of all its blocks. */
struct kvsteer_rung {
	uint64_t hash;
	uint32_t depth; /* tokens, a multiple of the block */
	uint32_t zero;
};

struct kvsteer_prompt {
	uint32_t total; /* tokens of the whole prompt, last partial block included */
	uint32_t block; /* tokens per block */
	enum kvsteer_domain domain;
	uint32_t n_rungs;   /* 0 when the prompt is shorter than one block */
	uint64_t seed;	    /* of the block hashes: domain, model, LoRA, salt and tenant */
	const char *reason; /* after an error: what is wrong, a constant string; else NULL */
	struct kvsteer_rung rungs[KVSTEER_MAX_RUNGS]; /* by rising depth */
};

/* The user named in the body ("user", or Anthropic's "metadata.user_id") is the tenant, unless
 * options.tenant is given. Off by default: users then share the prefixes they have in common. */
#define KVSTEER_USER_IS_TENANT 1u

/*
 * What enters the hash besides the prompt. All strings are NUL-terminated and only read during
 * the call. NULL: taken from the body ("model", "lora_path", "cache_salt" or "extra_key"), else
 * empty; a string, also an empty one, replaces what the body says. A gateway that isolates
 * tenants sets tenant and salt itself.
 */
struct kvsteer_options {
	const char *model;
	const char *lora;
	const char *salt;
	const char *tenant;
	uint32_t block; /* tokens per block of prompts sent as token ids; 0: KVSTEER_TOKEN_BLOCK */
	uint32_t flags; /* KVSTEER_USER_IS_TENANT */
};

/*
 * The prompt of a JSON request body.
 *
 * path: the request's path, with or without a query; it says which fields are the prompt by its
 *       last segments: chat/completions, completions, messages, responses, generate.
 *       NULL: told by the body's fields ("messages", "prompt", "input", "text", "input_ids").
 * body: len bytes, whole; read only, need not be NUL-terminated.
 * opts: NULL for defaults.
 *
 * Returns 0, or with ret_prompt->reason set and no rungs:
 *   -EINVAL      the body is not JSON, or nested too deeply, or a field has a wrong type
 *   -ENOMSG      the body is JSON without a prompt
 *   -EOPNOTSUPP  the path is none of those above
 *   -ENOMEM      no memory
 * Such a request can still be served: it has no prefix.
 */
int kvsteer_body(const char *path, const void *body, size_t len, const struct kvsteer_options *opts,
		 struct kvsteer_prompt *ret_prompt);

/*
 * The prompt given as n token ids. block: tokens per block, the engine's; 0: KVSTEER_TOKEN_BLOCK.
 * With empty model, salt and tenant the hashes are Dynamo's and SMG's sequence hashes.
 *
 * Returns 0, -EINVAL (block over 65536), -E2BIG (more than 2^32 - 1 tokens).
 */
int kvsteer_tokens(const uint32_t *ids, size_t n, uint32_t block,
		   const struct kvsteer_options *opts, struct kvsteer_prompt *ret_prompt);

/*
 * The header's value, NUL-terminated, at most 800 bytes: KVSTEER_HEADER_SIZE always suffices.
 * Where 32 rungs would not fit, the shallowest are left out: they are worth least.
 *
 * Returns the length without the NUL; 0, and an empty string, for a prompt without rungs: send no
 * header then. -ENOSPC: size is too small for any rung, buf holds an empty string.
 */
int kvsteer_header(const struct kvsteer_prompt *prompt, char *buf, size_t size);

#ifdef __cplusplus
}
#endif

#endif /* KVSTEER_H */
