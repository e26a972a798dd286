// SPDX-License-Identifier: BSD-2-Clause
/*
 * TensorRT-LLM's events, as trtllm-serve answers with them: JSON, one object for each.
 *
 * A stored block may be a partial one, the last of its prompt, and nothing says how many tokens a
 * full one has. One that another stands behind is full; of one that stands alone it is believed if
 * its tokens are a power of two from 32 on, until a larger one comes. There is a stream of events
 * per size of attention window in the model: the largest is that of full attention.
 */
#include <errno.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "events/decode_private.h"

#define LONE_BLOCK_MIN 32

static bool integer(struct kv_value v, uint64_t *ret, bool *ret_negative)
{
	const char *p = v.at;
	uint64_t n = 0;

	if (kv_json_type(v) != KV_JSON_NUMBER)
		return false;
	*ret_negative = *p == '-';
	for (p += *ret_negative; p < v.end; p++)
		if (*p < '0' || *p > '9' || __builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, (uint64_t)(*p - '0'), &n))
			return false;
	*ret = *ret_negative ? -n : n;
	return true;
}

static bool positive(struct kv_value v, uint64_t *ret)
{
	bool negative;

	return integer(v, ret, &negative) && !negative;
}

/* It only has to be the same one each time: newer versions have digests as text. */
static bool hash_of(struct kv_value v, uint64_t *ret)
{
	bool negative;

	if (kv_json_type(v) != KV_JSON_STRING)
		return integer(v, ret, &negative);
	*ret = XXH3_64bits(v.at, v.end - v.at);
	return true;
}

static uint8_t tier_of(struct kv_value level)
{
	uint64_t n;

	if (!positive(level, &n))
		return KV_TIER_GPU;
	return n < KV_TIER_EXTERNAL ? n : KV_TIER_EXTERNAL;
}

/* ---- blocks -------------------------------------------------------------------------- */

/* token: an object of id and extra id, which is not 0 for what stands for a picture. */
static int add_unique(struct decoding *d, struct kv_json *json, struct kv_value token,
		      uint64_t *extras)
{
	static const char *const names[] = {"token_id", "token_extra_id"};
	struct kv_value v[2] = {token};
	uint64_t id, extra = 0;

	if (kv_json_type(token) == KV_JSON_OBJECT)
		kv_json_fields(json, token, names, 2, v);
	if (!positive(v[0], &id)) {
		d->malformed = true;
		return 0;
	}
	if (positive(v[1], &extra) && extra)
		*extras = XXH3_64bits_withSeed(&extra, sizeof(extra), *extras + d->tokens.n);
	return add_token(d, id, false);
}

static int add_pictures(struct decoding *d, struct kv_json *json, struct kv_value keys,
			uint32_t block)
{
	static const char *const names[] = {"hash"};
	struct kv_json_iter it;
	struct kv_value key, v;
	int err = 0;

	if (kv_json_type(keys) != KV_JSON_ARRAY)
		return 0;
	it = kv_json_iter(json, keys);
	while (!err && kv_json_next(&it, &key)) {
		kv_json_fields(json, key, names, 1, &v);
		if (kv_json_type(v) == KV_JSON_STRING)
			err = ADD(&d->extras, struct kv_extra,
				  (struct kv_extra){
					  .hash = kv_picture_hash(v.at + 1, v.end - v.at - 2),
					  .block = block});
	}
	return err;
}

static void begin_run(struct decoding *d, uint8_t tier, bool has_parent, uint64_t parent)
{
	event_begin(d);
	d->event.kind = KV_EVENT_STORED;
	d->event.tier = tier;
	d->event.has_parent = has_parent;
	d->event.parent = parent;
	d->event.block_size = d->polling.size;
}

/* Whether a block of so many tokens is a full one. */
static bool full(struct decoding *d, uint32_t tokens, bool last)
{
	struct polling *p = &d->polling;
	bool lone = last && !p->size;

	if (lone && tokens != p->about->block &&
	    (tokens <= p->about->block || tokens < LONE_BLOCK_MIN || (tokens & (tokens - 1))))
		return false;
	if (!p->size) {
		d->batch.anew |= p->about->any && p->about->block && p->about->block < tokens;
		d->malformed |= p->about->block > tokens;
		p->size = d->event.block_size = tokens;
		if (!d->malformed)
			p->about->block = tokens;
	}
	d->malformed |= tokens > p->size || (tokens < p->size && !last);
	return tokens == p->size;
}

static int add_block(struct decoding *d, struct kv_value block, bool last)
{
	static const char *const names[] = {"block_hash", "tokens", "cache_level", "mm_keys",
					    "lora_id"};
	enum { HASH, TOKENS, LEVEL, PICTURES, LORA, N };
	struct polling *p = &d->polling;
	size_t before = d->tokens.n, extras_before = d->extras.n;
	struct kv_json_iter it;
	struct kv_value v[N], token;
	uint64_t hash, extras = 0, lora;
	uint8_t tier;
	int err = 0;

	if (d->malformed)
		return 0;
	kv_json_fields(&p->json, block, names, N, v);
	if (!hash_of(v[HASH], &hash) || kv_json_type(v[TOKENS]) != KV_JSON_ARRAY) {
		d->malformed = true;
		return 0;
	}
	tier = tier_of(v[LEVEL]);
	if (tier != d->event.tier && d->hashes.n > d->event.hash_at) {
		err = event_end(d);
		begin_run(d, tier, true, p->last);
	}
	d->event.tier = tier;
	if (positive(v[LORA], &lora))
		d->event.lora_id = lora;
	before = d->tokens.n;
	extras_before = d->extras.n;
	it = kv_json_iter(&p->json, v[TOKENS]);
	while (!err && kv_json_next(&it, &token))
		err = add_unique(d, &p->json, token, &extras);
	if (!err && extras)
		err = ADD(
			&d->extras, struct kv_extra,
			(struct kv_extra){.hash = extras, .block = d->hashes.n - d->event.hash_at});
	if (!err)
		err = add_pictures(d, &p->json, v[PICTURES], d->hashes.n - d->event.hash_at);
	if (err || d->malformed)
		return err;
	if (!full(d, d->tokens.n - before, last)) {
		d->tokens.n = before;
		d->extras.n = extras_before;
		return 0;
	}
	p->about->any = true;
	p->last = hash;
	return ADD(&d->hashes, uint64_t, hash);
}

/* ---- events -------------------------------------------------------------------------- */

static int begin_stored(struct decoding *d, struct kv_value parent, struct kv_value blocks)
{
	struct polling *p = &d->polling;
	uint64_t hash = 0;
	bool has = hash_of(parent, &hash);

	p->size = 0;
	begin_run(d, KV_TIER_GPU, has, hash);
	d->malformed = kv_json_type(blocks) != KV_JSON_ARRAY ||
		       (!has && kv_json_type(parent) > KV_JSON_NULL);
	if (d->malformed)
		return event_end(d);
	p->items = kv_json_iter(&p->json, blocks);
	if (!kv_json_next(&p->items, &p->block))
		p->items.p = NULL;
	return 0;
}

static int begin_removed(struct decoding *d, struct kv_value hashes)
{
	event_begin(d);
	d->event.kind = KV_EVENT_REMOVED;
	d->event.whole = true;
	d->malformed = kv_json_type(hashes) != KV_JSON_ARRAY;
	if (d->malformed)
		return event_end(d);
	d->polling.items = kv_json_iter(&d->polling.json, hashes);
	return 0;
}

/* In another tier now; what else can be updated is nothing to us. */
static int updated(struct decoding *d, struct kv_value hash, struct kv_value level)
{
	static const char *const names[] = {"old_value", "new_value"};
	struct kv_value v[2];
	uint64_t n;
	int err = 0;

	if (kv_json_type(level) != KV_JSON_OBJECT)
		return 0;
	kv_json_fields(&d->polling.json, level, names, 2, v);
	/* There, and then here no more: never nowhere. */
	for (int i = 1; i >= 0 && !err; i--) {
		event_begin(d);
		d->event.kind = i ? KV_EVENT_STORED : KV_EVENT_REMOVED;
		d->event.tier = tier_of(v[i]);
		d->malformed = !hash_of(hash, &n) || kv_json_type(v[i]) != KV_JSON_NUMBER;
		err = d->malformed ? 0 : ADD(&d->hashes, uint64_t, n);
		if (!err)
			err = event_end(d);
	}
	return err;
}

/* Of another window than that of full attention: passed over, and counted. */
static bool other_window(struct decoding *d, struct kv_value window)
{
	struct kv_polled *about = d->polling.about;
	uint64_t n;

	if (!positive(window, &n) || n == about->window)
		return false;
	if (n < about->window)
		return true;
	d->batch.anew = about->window && about->any;
	about->window = n;
	return false;
}

/* 1: whole, 0: there are items to come. */
static int begin_event(struct decoding *d, struct kv_value root)
{
	static const char *const names[] = {"data", "window_size"};
	static const char *const data[] = {"type",	   "parent_hash", "blocks",
					   "block_hashes", "block_hash",  "cache_level"};
	enum { TYPE, PARENT, BLOCKS, HASHES, HASH, LEVEL, N };
	struct kv_json *json = &d->polling.json;
	struct kv_value v[2], e[N];
	int err;

	kv_json_fields(json, root, names, 2, v);
	kv_json_fields(json, v[0], data, N, e);
	if (kv_json_type(e[TYPE]) != KV_JSON_STRING)
		return -EBADMSG;
	if (other_window(d, v[1])) {
		event_begin(d);
		d->event.kind = KV_EVENT_STORED;
		d->event.spec = KV_SPEC_OTHER;
		return event_end(d) ?: 1;
	}
	if (kv_json_equals(e[TYPE], "stored")) {
		err = begin_stored(d, e[PARENT], e[BLOCKS]);
		return err ?: d->malformed;
	}
	if (kv_json_equals(e[TYPE], "removed")) {
		err = begin_removed(d, e[HASHES]);
		return err ?: d->malformed;
	}
	if (kv_json_equals(e[TYPE], "updated"))
		return updated(d, e[HASH], e[LEVEL]) ?: 1;
	if (!kv_json_equals(e[TYPE], "created"))
		d->batch.unknown_events++;
	return 1;
}

static int items(struct decoding *d, size_t bytes)
{
	struct polling *p = &d->polling;
	const char *to = p->items.p ? p->items.p + bytes : NULL;
	struct kv_value next;
	uint64_t hash;
	int err = 0;

	while (p->items.p && p->items.p < to) {
		bool more = kv_json_next(&p->items, &next);

		if (d->event.kind == KV_EVENT_STORED) {
			err = add_block(d, p->block, !more);
			p->block = next;
		} else if (more) {
			d->malformed |= !hash_of(next, &hash);
			err = d->malformed ? 0 : ADD(&d->hashes, uint64_t, hash);
		}
		if (!more)
			p->items.p = NULL;
		if (err)
			return err;
	}
	if (p->items.p)
		return 0;
	/* Only a partial block: there is nothing to tell. */
	if (!d->malformed && d->hashes.n == d->event.hash_at)
		return 1;
	return event_end(d) ?: 1;
}

int polled_step(struct decoding *d, const char *text, size_t len, size_t bytes)
{
	struct polling *p = &d->polling;
	struct kv_value root;

	if (p->open)
		return items(d, bytes);
	p->open = true;
	if (kv_json_open(&p->json, text, len, &root))
		return -EBADMSG;
	return begin_event(d, root);
}

void polled_end(struct decoding *d)
{
	if (d->polling.open)
		kv_json_close(&d->polling.json);
	d->polling = (struct polling){0};
}

int kv_polled_head(const char *text, size_t len, uint64_t *ret_number, uint32_t *ret_rank)
{
	static const char *const names[] = {"event_id", "attention_dp_rank"};
	struct kv_value root, v[2];
	struct kv_json json;
	uint64_t rank = 0;
	int err = -EBADMSG;

	if (!kv_json_open(&json, text, len, &root)) {
		kv_json_fields(&json, root, names, 2, v);
		if (positive(v[0], ret_number) &&
		    (kv_json_type(v[1]) <= KV_JSON_NULL || positive(v[1], &rank)) &&
		    rank <= UINT32_MAX)
			err = 0;
	}
	kv_json_close(&json);
	*ret_rank = rank;
	return err;
}
