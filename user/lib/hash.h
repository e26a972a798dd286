/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Chain hashes of a prompt's blocks: XXH3-64 in the form of Dynamo's and SMG's routers.
 *
 *   local hash of a block = XXH3(tokens as u32 LE ‖ sorted multimodal hashes as u64 LE, seed)
 *   chain hash 0 = local 0; chain hash i = XXH3(LE8 chain i-1 ‖ LE8 local i, 1337)
 */
#ifndef KVSTEER_LIB_HASH_H
#define KVSTEER_LIB_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "kvsteer.h"

/* Tokens and hashes enter XXH3 as they lie in memory. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "hashes are defined on little endian");

#pragma GCC visibility push(hidden)

#define KV_HASH_SEED 1337
#define KV_KEY_MAX 4096	   /* bytes of model name, LoRA, salt, tenant: each */
#define KV_SECRET_SIZE 192 /* XXH_SECRET_DEFAULT_SIZE */

struct kv_bytes {
	const char *data;
	size_t len;
};

/* What the hash depends on besides the prompt. */
struct kv_key {
	enum kvsteer_domain domain;
	struct kv_bytes model, lora, salt, tenant; /* len 0: not given */
};

/* Dynamo's own: 1337 + XXH3(LoRA, 0) + XXH3(salt, 1), each where given. */
uint64_t kv_seed_dynamo(struct kv_bytes lora, struct kv_bytes salt);

/* Ours; equal to Dynamo's where all but the LoRA is empty and the domain is tokens. */
uint64_t kv_seed(const struct kv_key *key);

/* mm: sorted. */
uint64_t kv_hash_local(const uint32_t *tokens, size_t n, const uint64_t *mm, size_t n_mm,
		       uint64_t seed);

uint64_t kv_hash_chain(uint64_t prev, uint64_t local);

/* The chain of a prompt under way: bytes go in, every full block leaves its chain hash. */
struct kv_chain {
	uint64_t *hashes;
	size_t n;
	size_t capacity;
	uint64_t bytes; /* taken so far */
	uint64_t seed;
	size_t block;	/* bytes */
	size_t pending; /* bytes of the block under way, in buf */
	char *buf;
	_Alignas(64) unsigned char secret[KV_SECRET_SIZE];
};

/* block: bytes. 0 or -ENOMEM. */
int kv_chain_init(struct kv_chain *chain, size_t block, uint64_t seed);
int kv_chain_add(struct kv_chain *chain, const void *data, size_t len);
void kv_chain_free(struct kv_chain *chain);

#pragma GCC visibility pop

#endif /* KVSTEER_LIB_HASH_H */
