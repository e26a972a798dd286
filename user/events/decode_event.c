// SPDX-License-Identifier: BSD-2-Clause
/* One event of a message: its fields' values, and whether it can be used. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "events/decode_private.h"

int pool_grow(struct pool *p, size_t size)
{
	size_t capacity = p->capacity ? p->capacity * 2 : 256;
	void *at = reallocarray(p->at, capacity, size);

	if (!at)
		return -ENOMEM;
	p->at = at;
	p->capacity = capacity;
	return 0;
}

void event_begin(struct decoding *d)
{
	d->event = (struct kv_cache_event){
		.hash_at = d->hashes.n, .token_at = d->tokens.n, .extra_at = d->extras.n};
	d->malformed = false;
	d->n_lone = 0;
}

/* A lone string among a block's extra keys: the LoRA's name, in every block; the salt, in a
 * prompt's first block; or a picture, as about v0.18 wrote it, and that is a digest. */
static void sort_extras(struct decoding *d, struct kv_cache_event *e)
{
	struct kv_extra *extras = d->extras.at;
	uint64_t lora = XXH3_64bits(e->lora.data ? e->lora.data : "", e->lora.len);
	size_t kept = e->extra_at;

	for (size_t i = e->extra_at; i < d->extras.n; i++) {
		uint32_t lone = extras[i].lone;

		if (lone && e->lora.len && extras[i].hash == lora)
			continue;
		if (lone > 1 && !e->has_parent && !e->salt.len) {
			e->salt = d->lone[lone - 2];
			continue;
		}
		extras[i].lone = 0;
		extras[kept++] = extras[i];
	}
	d->extras.n = kept;
	e->n_extras = kept - e->extra_at;
}

int event_end(struct decoding *d)
{
	struct kv_cache_event *e = &d->event;

	e->n_hashes = d->hashes.n - e->hash_at;
	e->n_tokens = d->tokens.n - e->token_at;
	e->has_parent = e->has_parent && e->parent; /* llm-d's simulator says 0 for none */
	if (!e->kind) {
		d->batch.unknown_events++;
	} else if (d->malformed) {
		d->batch.malformed_events++;
	} else {
		sort_extras(d, e);
		return ADD(&d->events, struct kv_cache_event, *e);
	}
	d->hashes.n = e->hash_at;
	d->tokens.n = e->token_at;
	d->extras.n = e->extra_at;
	return 0;
}

/* The engine's hash: a number, or the low 64 bits of a digest. */
static bool hash_of(const struct value *v, uint64_t *ret)
{
	uint64_t low;

	if (v->type == V_INTEGER) {
		*ret = v->integer;
		return true;
	}
	if (v->type != V_BYTES || v->len < sizeof(low))
		return false;
	memcpy(&low, v->p + v->len - sizeof(low), sizeof(low));
	*ret = __builtin_bswap64(low);
	return true;
}

static int extra(struct decoding *d, const struct value *v)
{
	struct frame *block = &d->frames[d->depth];
	struct kv_extra x = {.hash = kv_picture_hash(v->p, v->len),
			     .block = d->frames[d->depth - 1].index};

	/* In a block's array, and not a digest: lone. Strings of the first block are kept. */
	if (block->role == R_BLOCK_EXTRAS && v->type == V_TEXT && v->len != 64) {
		x.lone = 1;
		if (!x.block && d->n_lone < LONE_MAX) {
			d->lone[d->n_lone] = (struct kv_bytes){v->p, v->len};
			x.lone = 2 + d->n_lone++;
		}
	}
	return ADD(&d->extras, struct kv_extra, x);
}

static int picture(struct decoding *d, const struct value *v)
{
	struct kv_extra x = {.hash = kv_picture_hash(v->p, v->len),
			     .block = d->frames[d->depth - 2].index};

	return ADD(&d->extras, struct kv_extra, x);
}

int event_field(struct decoding *d, uint8_t role, const struct value *v)
{
	bool integer = v->type == V_INTEGER, string = v->type == V_TEXT || v->type == V_BYTES;
	struct kv_cache_event *e = &d->event;
	struct kv_bytes bytes = {v->p, v->len};
	bool fits = true;
	uint64_t hash;
	int err = 0;

	switch (role) {
	case R_TAG:
		fits = string;
		e->kind = v->type == V_TEXT ? kv_kind_named(v->p, v->len) : 0;
		break;
	case R_HASH:
		fits = hash_of(v, &hash);
		if (fits)
			err = ADD(&d->hashes, uint64_t, hash);
		break;
	case R_PARENT:
		e->has_parent = hash_of(v, &e->parent);
		fits = e->has_parent || v->type == V_NIL;
		break;
	case R_TOKEN: /* of a pair */
		fits = integer;
		if (integer)
			err = add_token(d, v->integer, v->negative);
		break;
	case R_BLOCK_SIZE:
		fits = integer && !v->negative && v->integer <= KVSTEER_MAX_BLOCK;
		e->block_size = fits ? v->integer : 0;
		break;
	case R_LORA_ID:
		if (integer)
			e->lora_id = v->integer;
		break;
	case R_GROUP:
		if (integer) {
			e->has_group = true;
			e->group = v->negative || v->integer > UINT32_MAX ? UINT32_MAX : v->integer;
		}
		break;
	case R_MEDIUM:
		if (string)
			e->tier = kv_tier_named(v->p, v->len);
		break;
	case R_LORA_NAME:
	case R_SALT:
		fits = !string || v->len <= KV_KEY_MAX;
		if (string && fits)
			*(role == R_SALT ? &e->salt : &e->lora) = bytes;
		break;
	case R_SPEC:
		if (string)
			e->spec = kv_spec_named(v->p, v->len);
		break;
	case R_EXTRA:
		if (string && v->len)
			err = extra(d, v);
		break;
	case R_PICTURE_ID:
		if (string && v->len)
			err = picture(d, v);
		break;
	case R_HASHES:
	case R_TOKENS:
		fits = false;
		break;
	default:
		break;
	}
	d->malformed |= !fits;
	return err;
}
