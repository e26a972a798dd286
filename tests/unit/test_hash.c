// SPDX-License-Identifier: BSD-2-Clause
/* Block hashes, their chain and its seed. Run in the source tree's root: reads tests/vectors/. */
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "check.h"
#include "lib/hash.h"

#define VECTORS "tests/vectors/dynamo-block-hash.json"

static struct kv_bytes bytes(const char *s)
{
	return (struct kv_bytes){s, s ? strlen(s) : 0};
}

static uint64_t number(yyjson_val *object, const char *name)
{
	return strtoull(yyjson_get_str(yyjson_obj_get(object, name)), NULL, 10);
}

static void check_vector(yyjson_val *vector)
{
	const char *lora = yyjson_get_str(yyjson_obj_get(vector, "lora"));
	const char *salt = yyjson_get_str(yyjson_obj_get(vector, "salt"));
	yyjson_val *blocks = yyjson_obj_get(vector, "blocks"), *block, *item;
	uint64_t seed = kv_seed_dynamo(bytes(lora), bytes(salt)), chain = 0;
	size_t i, max, j, max_j;

	CHECK_EQ(seed, number(vector, "seed"));
	CHECK(yyjson_arr_size(blocks) > 0);
	yyjson_arr_foreach (blocks, i, max, block) {
		uint32_t tokens[64];
		uint64_t mm[8], local;
		size_t n = 0, n_mm = 0;

		yyjson_arr_foreach (yyjson_obj_get(block, "tokens"), j, max_j, item)
			tokens[n++] = yyjson_get_uint(item);
		yyjson_arr_foreach (yyjson_obj_get(block, "mm_hashes"), j, max_j, item)
			mm[n_mm++] = strtoull(yyjson_get_str(item), NULL, 10);
		local = kv_hash_local(tokens, n, mm, n_mm, seed);
		chain = i ? kv_hash_chain(chain, local) : local;
		CHECK_EQ(local, number(block, "local_hash"));
		CHECK_EQ(chain, number(block, "sequence_hash"));
	}
}

/* The public function on the same vectors: with no model, salt and tenant it is Dynamo's chain. */
static void check_tokens(yyjson_val *vector)
{
	yyjson_val *blocks = yyjson_obj_get(vector, "blocks"), *item;
	const char *lora = yyjson_get_str(yyjson_obj_get(vector, "lora"));
	struct kvsteer_options opts = {.lora = lora};
	struct kvsteer_prompt prompt;
	uint32_t tokens[256];
	size_t n = 0, block_size = 0, i, max, j, max_j;
	yyjson_val *block;

	yyjson_arr_foreach (blocks, i, max, block) {
		block_size = yyjson_arr_size(yyjson_obj_get(block, "tokens"));
		yyjson_arr_foreach (yyjson_obj_get(block, "tokens"), j, max_j, item)
			tokens[n++] = yyjson_get_uint(item);
	}
	CHECK_EQ(kvsteer_tokens(tokens, n, block_size, &opts, &prompt), 0);
	CHECK_EQ(prompt.seed, number(vector, "seed"));
	CHECK_EQ(prompt.total, n);
	CHECK(prompt.n_rungs > 0);
	for (uint32_t r = 0; r < prompt.n_rungs; r++) {
		block = yyjson_arr_get(blocks, prompt.rungs[r].depth / block_size - 1);
		CHECK_EQ(prompt.rungs[r].hash, number(block, "sequence_hash"));
	}
}

static uint64_t seed_of(enum kvsteer_domain domain, const char *model, const char *lora,
			const char *salt, const char *tenant)
{
	struct kv_key key = {domain, bytes(model), bytes(lora), bytes(salt), bytes(tenant)};

	return kv_seed(&key);
}

int main(void)
{
	yyjson_doc *doc = yyjson_read_file(VECTORS, 0, NULL, NULL);
	yyjson_val *vectors = yyjson_obj_get(yyjson_doc_get_root(doc), "vectors"), *vector;
	size_t i, max;

	TEST("Dynamo's vectors: seeds, local and chain hashes, with LoRA, salt, multimodal")
	{
		CHECK_EQ(yyjson_arr_size(vectors), 6);
		yyjson_arr_foreach (vectors, i, max, vector)
			check_vector(vector);
	}

	TEST("kvsteer_tokens equals Dynamo's chain where only a LoRA is given")
	{
		unsigned int n = 0;

		yyjson_arr_foreach (vectors, i, max, vector) {
			const char *name = yyjson_get_str(yyjson_obj_get(vector, "name"));

			if (strstr(name, "salt") || strstr(name, "mm"))
				continue;
			check_tokens(vector);
			n++;
		}
		CHECK_EQ(n, 3);
	}

	TEST("seed: every field counts, and none can pass for another")
	{
		uint64_t seeds[] = {
			seed_of(KVSTEER_TOKENS, NULL, NULL, NULL, NULL),
			seed_of(KVSTEER_TEXT, NULL, NULL, NULL, NULL),
			seed_of(KVSTEER_TOKENS, "m", NULL, NULL, NULL),
			seed_of(KVSTEER_TEXT, "m", NULL, NULL, NULL),
			seed_of(KVSTEER_TOKENS, NULL, "m", NULL, NULL),
			seed_of(KVSTEER_TOKENS, NULL, NULL, "m", NULL),
			seed_of(KVSTEER_TOKENS, NULL, NULL, NULL, "m"),
			seed_of(KVSTEER_TOKENS, "ma", NULL, "b", NULL),
			seed_of(KVSTEER_TOKENS, "m", NULL, "ab", NULL),
			seed_of(KVSTEER_TOKENS, "m", NULL, "a", "b"),
			seed_of(KVSTEER_TOKENS, "m", NULL, "", "ab"),
		};
		size_t n = sizeof(seeds) / sizeof(*seeds);

		CHECK_EQ(seeds[0], 1337);
		for (size_t a = 0; a < n; a++)
			for (size_t b = 0; b < a; b++)
				CHECK(seeds[a] != seeds[b]);
	}

	TEST("chain: the same in one piece and in any pieces, for short and long blocks")
	{
		static const size_t blocks[] = {4, 64, 240, 244, 256, 1024};
		char data[5000];

		for (size_t k = 0; k < sizeof(data); k++)
			data[k] = k * 31 >> 3;
		for (size_t b = 0; b < sizeof(blocks) / sizeof(*blocks); b++) {
			struct kv_chain chain;
			uint64_t hash = 0;
			size_t step = 1;

			CHECK_EQ(kv_chain_init(&chain, blocks[b], 99), 0);
			for (size_t at = 0; at < sizeof(data); at += step, step = step * 7 % 601) {
				size_t left = sizeof(data) - at;

				CHECK_EQ(kv_chain_add(&chain, data + at, step < left ? step : left),
					 0);
			}
			CHECK_EQ(chain.n, sizeof(data) / blocks[b]);
			CHECK_EQ(chain.bytes, sizeof(data));
			for (size_t k = 0; k < chain.n; k++) {
				uint32_t block[256];
				uint64_t local;

				memcpy(block, data + k * blocks[b], blocks[b]);
				local = kv_hash_local(block, blocks[b] / 4, NULL, 0, 99);
				hash = k ? kv_hash_chain(hash, local) : local;
				CHECK_EQ(chain.hashes[k], hash);
			}
			kv_chain_free(&chain);
		}
	}
	yyjson_doc_free(doc);
	return check_done();
}
