// SPDX-License-Identifier: BSD-2-Clause
#include <string.h>

#include "bench.h"

static void text(msgpack_packer *pk, const char *s)
{
	msgpack_pack_str(pk, strlen(s));
	msgpack_pack_str_body(pk, s, strlen(s));
}

static void key(msgpack_packer *pk, bool map, const char *s)
{
	if (map)
		text(pk, s);
}

/* Spread over 64 bits, as digests are. */
static uint64_t hash_of(uint64_t block)
{
	return (block + 1) * 0x9e3779b97f4a7c15ull;
}

uint32_t token_of(uint64_t block, uint32_t i)
{
	uint64_t x = (block * BLOCK + i + 1) * 0x9e3779b97f4a7c15ull;

	return (x ^ x >> 29) % 151936; /* a vocabulary's size */
}

static void begin(msgpack_packer *pk, msgpack_sbuffer *out, bool map, uint32_t fields,
		  const char *type)
{
	msgpack_packer_init(pk, out, msgpack_sbuffer_write);
	msgpack_pack_array(pk, 3);
	msgpack_pack_double(pk, 1754000000.5);
	msgpack_pack_array(pk, 1);
	if (map)
		msgpack_pack_map(pk, fields);
	else
		msgpack_pack_array(pk, fields);
	key(pk, map, "type");
	text(pk, type);
}

static void hashes(msgpack_packer *pk, bool map, uint64_t first, uint32_t n)
{
	key(pk, map, "block_hashes");
	msgpack_pack_array(pk, n);
	for (uint32_t i = 0; i < n; i++)
		msgpack_pack_uint64(pk, hash_of(first + i));
}

void pack_stored(msgpack_sbuffer *out, bool map, uint64_t first, uint32_t n, uint64_t parent)
{
	msgpack_packer pk;

	begin(&pk, out, map, 8, "BlockStored");
	hashes(&pk, map, first, n);
	key(&pk, map, "parent_block_hash");
	if (parent)
		msgpack_pack_uint64(&pk, hash_of(parent - 1));
	else
		msgpack_pack_nil(&pk);
	key(&pk, map, "token_ids");
	msgpack_pack_array(&pk, n * BLOCK);
	for (uint32_t i = 0; i < n * BLOCK; i++)
		msgpack_pack_uint32(&pk, token_of(first + i / BLOCK, i % BLOCK));
	key(&pk, map, "block_size");
	msgpack_pack_int(&pk, BLOCK);
	key(&pk, map, "lora_id");
	msgpack_pack_nil(&pk);
	key(&pk, map, "medium");
	text(&pk, "GPU");
	key(&pk, map, "lora_name");
	msgpack_pack_nil(&pk);
	msgpack_pack_int(&pk, 0);
}

void pack_removed(msgpack_sbuffer *out, bool map, uint64_t first, uint32_t n)
{
	msgpack_packer pk;

	begin(&pk, out, map, 3, "BlockRemoved");
	hashes(&pk, map, first, n);
	key(&pk, map, "medium");
	text(&pk, "GPU");
	msgpack_pack_int(&pk, 0);
}
