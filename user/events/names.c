// SPDX-License-Identifier: BSD-2-Clause
#include <string.h>
#include <strings.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "events/decode.h"
#include "events/names.h"

struct name {
	const char *text;
	uint8_t len, value;
};

#define NAME(text, value)                                                                          \
	{                                                                                          \
		text, sizeof(text) - 1, value                                                      \
	}
#define COUNT(list) (sizeof(list) / sizeof(*(list)))

/* Known and not needed: no unknown fields. */
static const struct name event_fields[] = {
	NAME("type", R_TAG),
	NAME("block_hashes", R_HASHES),
	NAME("parent_block_hash", R_PARENT),
	NAME("token_ids", R_TOKENS),
	NAME("block_size", R_BLOCK_SIZE),
	NAME("lora_id", R_LORA_ID),
	NAME("medium", R_MEDIUM),
	NAME("lora_name", R_LORA_NAME),
	NAME("extra_keys", R_EXTRAS),
	NAME("group_idx", R_GROUP),
	NAME("kv_cache_spec_kind", R_SPEC),
	NAME("cache_salt", R_SALT),
	NAME("kv_cache_spec_sliding_window", R_SKIP),
	NAME("locality", R_SKIP),
	NAME("ownership", R_SKIP),
	NAME("session_id", R_SKIP),
	NAME("block_mm_infos", R_SKIP),
};

static const struct name batch_fields[] = {
	NAME("ts", R_TS),
	NAME("events", R_EVENTS),
	NAME("data_parallel_rank", R_RANK),
	NAME("attn_dp_rank", R_RANK),
};

static const struct name meta_fields[] = {
	NAME("cache_salt", R_SALT),
	NAME("session_id", R_SKIP),
};

static const struct name kinds[] = {
	NAME("BlockStored", KV_EVENT_STORED),
	NAME("BlockRemoved", KV_EVENT_REMOVED),
	NAME("AllBlocksCleared", KV_EVENT_CLEARED),
};

static const struct name specs[] = {
	NAME("full_attention", KV_SPEC_FULL),
	NAME("mla_attention", KV_SPEC_FULL),
	NAME("sink_full_attention", KV_SPEC_FULL),
};

static const struct name tiers[] = {
	NAME("GPU", KV_TIER_GPU),	NAME("DEVICE", KV_TIER_GPU),
	NAME("CPU", KV_TIER_CPU),	NAME("CPU_PINNED", KV_TIER_CPU),
	NAME("CPU_TIER1", KV_TIER_CPU), NAME("CPU_TIER2", KV_TIER_DISK),
	NAME("DISK", KV_TIER_DISK),	NAME("NVME", KV_TIER_DISK),
	NAME("STORAGE", KV_TIER_DISK),	NAME("FS", KV_TIER_DISK),
};

static const uint8_t batch_places[] = {R_TS, R_EVENTS, R_RANK};
static const uint8_t stored_places[] = {R_TAG,	      R_HASHES,	 R_PARENT, R_TOKENS,
					R_BLOCK_SIZE, R_LORA_ID, R_MEDIUM, R_LORA_NAME,
					R_EXTRAS,     R_GROUP,	 R_SPEC};
static const uint8_t removed_places[] = {R_TAG, R_HASHES, R_MEDIUM, R_GROUP};
#define KNOWN_PLACES 15

static int find(const struct name *list, size_t count, const char *p, size_t n)
{
	for (size_t i = 0; i < count; i++)
		if (list[i].len == n && !memcmp(list[i].text, p, n))
			return list[i].value;
	return -1;
}

bool kv_event_has_place(uint32_t index)
{
	return index < KNOWN_PLACES;
}

enum kv_role kv_role_at(enum kv_role array, uint32_t index, int kind)
{
	switch (array) {
	case R_BATCH:
		return index < COUNT(batch_places) ? batch_places[index] : R_SKIP;
	case R_EVENTS:
		return R_EVENT;
	case R_EVENT:
		if (!index)
			return R_TAG;
		if (kind == KV_EVENT_STORED && index < COUNT(stored_places))
			return stored_places[index];
		if (kind == KV_EVENT_REMOVED && index < COUNT(removed_places))
			return removed_places[index];
		return R_SKIP;
	case R_HASHES:
		return R_HASH;
	case R_TOKENS:
		return R_TOKEN;
	case R_PAIR:
		return index ? R_SKIP : R_TOKEN;
	case R_EXTRAS:
		return R_BLOCK_EXTRAS;
	case R_BLOCK_EXTRAS:
		return R_EXTRA;
	case R_PICTURE:
		return index ? R_SKIP : R_PICTURE_ID;
	default:
		return R_SKIP;
	}
}

enum kv_role kv_role_named(enum kv_role map, const char *p, size_t n, bool *ret_unknown)
{
	int role;

	switch (map) {
	case R_BATCH:
		role = find(batch_fields, COUNT(batch_fields), p, n);
		break;
	case R_EVENT:
		role = find(event_fields, COUNT(event_fields), p, n);
		break;
	case R_META:
		role = find(meta_fields, COUNT(meta_fields), p, n);
		break;
	default:
		role = R_SKIP;
	}
	*ret_unknown = role < 0;
	return role < 0 ? R_SKIP : (enum kv_role)role;
}

int kv_kind_named(const char *p, size_t n)
{
	int kind = find(kinds, COUNT(kinds), p, n);

	return kind < 0 ? 0 : kind;
}

int kv_spec_named(const char *p, size_t n)
{
	return find(specs, COUNT(specs), p, n) < 0 ? KV_SPEC_OTHER : KV_SPEC_FULL;
}

int kv_tier_named(const char *p, size_t n)
{
	if (!n)
		return KV_TIER_GPU;
	for (size_t i = 0; i < COUNT(tiers); i++)
		if (tiers[i].len == n && !strncasecmp(tiers[i].text, p, n))
			return tiers[i].value;
	return KV_TIER_EXTERNAL;
}

uint64_t kv_picture_hash(const char *p, size_t n)
{
	uint64_t v = 0;

	for (size_t i = 0; n == 64 && i < n; i++) {
		int c = p[i] | 0x20;

		if ((c < '0' || c > '9') && (c < 'a' || c > 'f'))
			break;
		if (i < 16)
			v = v << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
		if (i == 63)
			return v;
	}
	return XXH3_64bits(p, n);
}
