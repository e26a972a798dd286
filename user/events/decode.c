// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "events/decode.h"
#include "events/names.h"
#include "events/unpack.h"

/* An array or map under way. */
struct frame {
	uint64_t left;
	uint32_t index;
	uint8_t role;
	uint8_t child; /* role of the next value */
	bool map;
	bool key; /* of a map: its next item is a key */
};

#define DEPTH MSGPACK_EMBED_STACK_SIZE
#define LONE_MAX 4 /* strings of the first block that may be its salt */
#define KEEP_BYTES (8u << 20)

struct pool {
	void *at;
	size_t n, capacity;
};

struct kv_decode {
	struct template_context parser;
	const char *message;
	size_t len, at;
	int state; /* 0: under way, 1: whole, or an error */
	struct frame frames[DEPTH + 1];
	uint32_t depth; /* of frames; 0 is what stands around the message */
	struct pool events, hashes, tokens, extras;
	struct kv_batch batch;
	struct kv_cache_event event; /* under way */
	bool malformed;
	struct kv_bytes lone[LONE_MAX];
	uint32_t n_lone;
};

struct kv_decode *kv_decode_new(void)
{
	return calloc(1, sizeof(struct kv_decode));
}

void kv_decode_free(struct kv_decode *d)
{
	if (!d)
		return;
	free(d->events.at);
	free(d->hashes.at);
	free(d->tokens.at);
	free(d->extras.at);
	free(d);
}

static int grow(struct pool *p, size_t size)
{
	size_t capacity = p->capacity ? p->capacity * 2 : 256;
	void *at = reallocarray(p->at, capacity, size);

	if (!at)
		return -ENOMEM;
	p->at = at;
	p->capacity = capacity;
	return 0;
}

#define ADD(pool, type, ...)                                                                       \
	({                                                                                         \
		int add_err = (pool)->n == (pool)->capacity ? grow(pool, sizeof(type)) : 0;        \
		if (!add_err)                                                                      \
			((type *)(pool)->at)[(pool)->n++] = __VA_ARGS__;                           \
		add_err;                                                                           \
	})

static void reset(struct pool *p, size_t size)
{
	p->n = 0;
	if (p->capacity * size <= KEEP_BYTES)
		return;
	free(p->at);
	*p = (struct pool){0};
}

void kv_decode_begin(struct kv_decode *d, const void *message, size_t len)
{
	reset(&d->events, sizeof(struct kv_cache_event));
	reset(&d->hashes, sizeof(uint64_t));
	reset(&d->tokens, sizeof(uint32_t));
	reset(&d->extras, sizeof(struct kv_extra));
	d->batch = (struct kv_batch){.rank = -1};
	d->message = message;
	d->len = len;
	d->at = 0;
	d->state = 0;
	d->depth = 0;
	d->frames[0] = (struct frame){.left = 1, .role = R_SKIP, .child = R_BATCH};
	d->parser.user = d;
	template_init(&d->parser);
}

/* ---- events -------------------------------------------------------------------------- */

static void begin_event(struct kv_decode *d)
{
	d->event = (struct kv_cache_event){
		.hash_at = d->hashes.n, .token_at = d->tokens.n, .extra_at = d->extras.n};
	d->malformed = false;
	d->n_lone = 0;
}

/* A lone string among a block's extra keys: the LoRA's name, in every block; the salt, in a
 * prompt's first block; or a picture, as about v0.18 wrote it, and that is a digest. */
static void sort_extras(struct kv_decode *d, struct kv_cache_event *e)
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

static int end_event(struct kv_decode *d)
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

/* ---- values -------------------------------------------------------------------------- */

static uint8_t place(struct kv_decode *d, const struct frame *f)
{
	if (f->role == R_EVENT && !kv_event_has_place(f->index))
		d->batch.unknown_fields++;
	return kv_role_at(f->role, f->index, d->event.kind);
}

static uint8_t named(struct kv_decode *d, uint8_t map, const char *p, size_t n)
{
	bool unknown;
	uint8_t role = kv_role_named(map, p, n, &unknown);

	d->batch.unknown_fields += unknown;
	return role;
}

/* A value of the uppermost frame is complete; and with it, perhaps, what holds it. */
static int done(struct kv_decode *d)
{
	for (;;) {
		struct frame *f = &d->frames[d->depth];
		int err;

		if (f->map && f->key) {
			f->key = false;
			return 0;
		}
		f->index++;
		f->left--;
		f->key = f->map;
		if (f->left || !d->depth) {
			if (!f->map && f->role < R_HASHES)
				f->child = place(d, f);
			else if (f->role == R_PAIR || f->role == R_PICTURE)
				f->child = R_SKIP;
			return 0;
		}
		d->depth--;
		if (f->role == R_EVENT) {
			err = end_event(d);
			if (err)
				return err;
		}
	}
}

static int container(struct kv_decode *d, uint64_t n, bool map)
{
	struct frame *up = &d->frames[d->depth], *f;
	uint8_t role = up->child;

	if (up->map && up->key) {
		up->child = role = R_SKIP;
		d->batch.unknown_fields++;
	}
	switch (role) {
	case R_BATCH:
	case R_SKIP:
		break;
	case R_EVENTS:
		if (map)
			return -EBADMSG;
		break;
	case R_EVENT:
		begin_event(d);
		break;
	case R_HASHES:
		d->hashes.n = d->event.hash_at;
		d->malformed |= map;
		break;
	case R_TOKENS:
		d->tokens.n = d->event.token_at;
		d->malformed |= map;
		break;
	case R_TOKEN:
		d->malformed |= map || !n || up->role == R_PAIR;
		role = R_PAIR;
		break;
	case R_LORA_NAME:
		role = map ? R_META : R_SKIP;
		break;
	case R_EXTRAS:
		d->extras.n = d->event.extra_at;
		d->n_lone = 0;
		role = map ? R_SKIP : role;
		break;
	case R_BLOCK_EXTRAS:
		role = map ? R_SKIP : role;
		break;
	case R_EXTRA:
		role = map ? R_SKIP : R_PICTURE;
		break;
	case R_HASH:
	case R_PARENT:
	case R_BLOCK_SIZE:
	case R_TAG:
		d->malformed = true;
		role = R_SKIP;
		break;
	default:
		role = R_SKIP;
	}
	if (!n) {
		int err = role == R_EVENT ? end_event(d) : 0;

		return err ? err : done(d);
	}
	if (d->depth == DEPTH)
		return -EBADMSG;
	f = &d->frames[++d->depth];
	*f = (struct frame){.left = n, .role = role, .map = map, .key = map};
	if (!map)
		f->child = place(d, f);
	return 0;
}

static int integer(struct kv_decode *d, uint64_t v, bool negative)
{
	struct frame *f = &d->frames[d->depth];
	struct kv_cache_event *e = &d->event;
	int err = 0;

	if (f->role == R_TOKENS && !f->map) { /* nearly all there is */
		if (negative || v > UINT32_MAX)
			d->malformed = true;
		else
			err = ADD(&d->tokens, uint32_t, v);
		if (--f->left && !err) {
			f->index++;
			return 0;
		}
		f->left++;
		return err ? err : done(d);
	}
	if (f->map && f->key) {
		f->child = R_SKIP;
		d->batch.unknown_fields++;
		return done(d);
	}
	switch (f->child) {
	case R_TS:
		d->batch.ts = negative ? (double)(int64_t)v : (double)v;
		break;
	case R_RANK:
		d->batch.rank = negative || v > INT32_MAX ? -1 : (int64_t)v;
		break;
	case R_BATCH:
	case R_EVENTS:
		return -EBADMSG;
	case R_EVENT:
		d->batch.unknown_events++;
		break;
	case R_HASH:
		err = ADD(&d->hashes, uint64_t, v);
		break;
	case R_TOKEN: /* of a pair */
		if (negative || v > UINT32_MAX)
			d->malformed = true;
		else
			err = ADD(&d->tokens, uint32_t, v);
		break;
	case R_PARENT:
		e->has_parent = true;
		e->parent = v;
		break;
	case R_BLOCK_SIZE:
		if (negative || v > KVSTEER_MAX_BLOCK)
			d->malformed = true;
		else
			e->block_size = v;
		break;
	case R_LORA_ID:
		e->lora_id = v;
		break;
	case R_GROUP:
		e->has_group = true;
		e->group = negative || v > UINT32_MAX ? UINT32_MAX : v;
		break;
	case R_TAG:
	case R_HASHES:
	case R_TOKENS:
		d->malformed = true;
		break;
	default:
		break;
	}
	return err ? err : done(d);
}

/* Floating point, nil, true, false, extensions. */
static int other(struct kv_decode *d, double v, bool number, bool nil)
{
	struct frame *f = &d->frames[d->depth];

	if (f->map && f->key) {
		f->child = R_SKIP;
		d->batch.unknown_fields++;
		return done(d);
	}
	switch (f->child) {
	case R_TS:
		d->batch.ts = number ? v : 0;
		break;
	case R_BATCH:
	case R_EVENTS:
		return -EBADMSG;
	case R_EVENT:
		d->batch.unknown_events++;
		break;
	case R_PARENT:
		d->malformed |= !nil;
		d->event.has_parent = false;
		break;
	case R_TAG:
	case R_HASHES:
	case R_HASH:
	case R_TOKENS:
	case R_TOKEN:
	case R_BLOCK_SIZE:
		d->malformed = true;
		break;
	default:
		break;
	}
	return done(d);
}

/* The low 64 bits of a digest. */
static bool digest(const char *p, size_t n, uint64_t *ret)
{
	uint64_t v;

	if (n < sizeof(v))
		return false;
	memcpy(&v, p + n - sizeof(v), sizeof(v));
	*ret = __builtin_bswap64(v);
	return true;
}

static int extra(struct kv_decode *d, const char *p, size_t n, bool bin)
{
	struct frame *block = &d->frames[d->depth];
	struct kv_extra x = {.hash = kv_picture_hash(p, n), .block = d->frames[d->depth - 1].index};

	/* In a block's array, and not a digest: lone. Strings of the first block are kept. */
	if (block->role == R_BLOCK_EXTRAS && !bin && n != 64) {
		x.lone = 1;
		if (!x.block && d->n_lone < LONE_MAX) {
			d->lone[d->n_lone] = (struct kv_bytes){p, n};
			x.lone = 2 + d->n_lone++;
		}
	}
	return ADD(&d->extras, struct kv_extra, x);
}

static int picture(struct kv_decode *d, const char *p, size_t n)
{
	struct kv_extra x = {.hash = kv_picture_hash(p, n), .block = d->frames[d->depth - 2].index};

	return ADD(&d->extras, struct kv_extra, x);
}

static int string(struct kv_decode *d, const char *p, size_t n, bool bin)
{
	struct frame *f = &d->frames[d->depth];
	struct kv_cache_event *e = &d->event;
	uint64_t v;
	int err = 0;

	if (!n)
		p = ""; /* the parser does not say where */
	if (f->map && f->key) {
		f->child = bin ? R_SKIP : named(d, f->role, p, n);
		return done(d);
	}
	switch (f->child) {
	case R_BATCH:
	case R_EVENTS:
		return -EBADMSG;
	case R_EVENT:
		d->batch.unknown_events++;
		break;
	case R_TAG:
		e->kind = bin ? 0 : kv_kind_named(p, n);
		break;
	case R_HASH:
		if (bin && digest(p, n, &v))
			err = ADD(&d->hashes, uint64_t, v);
		else
			d->malformed = true;
		break;
	case R_PARENT:
		e->has_parent = bin && digest(p, n, &e->parent);
		d->malformed |= !e->has_parent;
		break;
	case R_MEDIUM:
		e->tier = kv_tier_named(p, n);
		break;
	case R_LORA_NAME:
		if (n <= KV_KEY_MAX)
			e->lora = (struct kv_bytes){p, n};
		else
			d->malformed = true;
		break;
	case R_SALT:
		if (n <= KV_KEY_MAX)
			e->salt = (struct kv_bytes){p, n};
		else
			d->malformed = true;
		break;
	case R_SPEC:
		e->spec = kv_spec_named(p, n);
		break;
	case R_EXTRA:
		if (n)
			err = extra(d, p, n, bin);
		break;
	case R_PICTURE_ID:
		if (n)
			err = picture(d, p, n);
		break;
	case R_HASHES:
	case R_TOKENS:
	case R_TOKEN:
	case R_BLOCK_SIZE:
		d->malformed = true;
		break;
	default:
		break;
	}
	return err ? err : done(d);
}

/* ---- the message --------------------------------------------------------------------- */

int kv_decode_step(struct kv_decode *d, size_t bytes)
{
	static const uint64_t none[1]; /* empty arrays have an address as well */
	size_t to = d->len - d->at < bytes ? d->len : d->at + bytes;
	int ret;

	if (d->state)
		return d->state;
	/* A string that is longer than the step is met again with more of it. */
	for (;;) {
		size_t from = d->at;

		ret = template_execute(&d->parser, d->message, to, &d->at);
		if (ret || to == d->len || d->at != from)
			break;
		to = d->len;
	}
	if (!ret && to < d->len)
		return 0;
	if (ret == 1 && d->at == d->len) {
		d->state = 1;
		d->batch.events = d->events.at ? d->events.at : (void *)none;
		d->batch.hashes = d->hashes.at ? d->hashes.at : (void *)none;
		d->batch.tokens = d->tokens.at ? d->tokens.at : (void *)none;
		d->batch.extras = d->extras.at ? d->extras.at : (void *)none;
		d->batch.n_events = d->events.n;
		d->batch.n_hashes = d->hashes.n;
		d->batch.n_tokens = d->tokens.n;
		d->batch.n_extras = d->extras.n;
	} else {
		d->state = ret == -ENOMEM ? -ENOMEM : -EBADMSG;
	}
	return d->state;
}

const struct kv_batch *kv_decode_batch(const struct kv_decode *d)
{
	return &d->batch;
}

int kv_decode(struct kv_decode *d, const void *message, size_t len)
{
	int ret;

	kv_decode_begin(d, message, len);
	do
		ret = kv_decode_step(d, len);
	while (!ret);
	return ret < 0 ? ret : 0;
}
