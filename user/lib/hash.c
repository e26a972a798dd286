// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The inlined form: a library call for each 256 bytes would cost a fifth of the time, and
 * withSecretandSeed is not part of the shared library's stable interface. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "lib/body.h"
#include "lib/hash.h"

_Static_assert(KV_SECRET_SIZE == XXH_SECRET_DEFAULT_SIZE, "xxHash has another secret size");

uint64_t kv_seed_dynamo(struct kv_bytes lora, struct kv_bytes salt)
{
	uint64_t seed = KV_HASH_SEED;

	if (lora.len)
		seed += XXH3_64bits_withSeed(lora.data, lora.len, 0);
	if (salt.len)
		seed += XXH3_64bits_withSeed(salt.data, salt.len, 1);
	return seed;
}

static void frame(XXH3_state_t *state, struct kv_bytes field)
{
	uint32_t len = field.len;

	XXH3_64bits_update(state, &len, sizeof(len));
	XXH3_64bits_update(state, field.data, field.len);
}

uint64_t kv_seed(const struct kv_key *key)
{
	uint64_t seed = kv_seed_dynamo(key->lora, (struct kv_bytes){});

	/* Each field with its length: no salt can pass for the end of another's model name. */
	if (key->model.len || key->salt.len || key->tenant.len) {
		XXH3_state_t state;

		XXH3_INITSTATE(&state);
		XXH3_64bits_reset_withSeed(&state, 2);
		frame(&state, key->model);
		frame(&state, key->salt);
		frame(&state, key->tenant);
		seed += XXH3_64bits_digest(&state);
	}
	if (key->domain == KVSTEER_TEXT)
		seed += XXH3_64bits_withSeed("text", 4, 3);
	return seed;
}

uint64_t kv_token_seed(uint64_t text_seed)
{
	return text_seed - XXH3_64bits_withSeed("text", 4, 3);
}

uint64_t kv_hash_local(const uint32_t *tokens, size_t n, const uint64_t *mm, size_t n_mm,
		       uint64_t seed)
{
	XXH3_state_t state;

	/* Text only: the same hash in one call, ten times as fast for the usual 64 bytes. */
	if (!n_mm)
		return XXH3_64bits_withSeed(tokens, n * sizeof(*tokens), seed);
	XXH3_INITSTATE(&state);
	XXH3_64bits_reset_withSeed(&state, seed);
	XXH3_64bits_update(&state, tokens, n * sizeof(*tokens));
	XXH3_64bits_update(&state, mm, n_mm * sizeof(*mm));
	return XXH3_64bits_digest(&state);
}

uint64_t kv_hash_chain(uint64_t prev, uint64_t local)
{
	uint64_t pair[2] = {prev, local};

	return XXH3_64bits_withSeed(pair, sizeof(pair), KV_HASH_SEED);
}

int kv_chain_init(struct kv_chain *chain, size_t block, uint64_t seed)
{
	memset(chain, 0, sizeof(*chain));
	chain->block = block;
	chain->seed = seed;
	chain->buf = malloc(block);
	if (!chain->buf)
		return -ENOMEM;
	/* Blocks over 240 bytes: withSeed would derive this secret anew for each of them. */
	XXH3_generateSecret_fromSeed(chain->secret, seed);
	return 0;
}

void kv_chain_free(struct kv_chain *chain)
{
	free(chain->hashes);
	free(chain->buf);
}

static int add_block(struct kv_chain *chain, const void *block)
{
	uint64_t local = XXH3_64bits_withSecretandSeed(block, chain->block, chain->secret,
						       sizeof(chain->secret), chain->seed);

	if (chain->n == chain->capacity) {
		size_t capacity = chain->capacity ? chain->capacity * 2 : 1024;
		uint64_t *hashes = reallocarray(chain->hashes, capacity, sizeof(*hashes));

		if (!hashes)
			return -ENOMEM;
		chain->hashes = hashes;
		chain->capacity = capacity;
	}
	chain->hashes[chain->n] =
		chain->n ? kv_hash_chain(chain->hashes[chain->n - 1], local) : local;
	chain->n++;
	return 0;
}

int kv_chain_add(struct kv_chain *chain, const void *data, size_t len)
{
	const char *p = data;
	int err;

	chain->bytes += len;
	if (chain->pending) {
		size_t take = chain->block - chain->pending;

		if (take > len)
			take = len;
		memcpy(chain->buf + chain->pending, p, take);
		chain->pending += take;
		p += take;
		len -= take;
		if (chain->pending < chain->block)
			return 0;
		chain->pending = 0;
		err = add_block(chain, chain->buf);
		if (err)
			return err;
	}
	for (; len >= chain->block; p += chain->block, len -= chain->block) {
		err = add_block(chain, p);
		if (err)
			return err;
	}
	if (len)
		memcpy(chain->buf, p, len);
	chain->pending = len;
	return 0;
}
