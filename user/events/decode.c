// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "events/decode_private.h"
#include "events/unpack.h"

#define KEEP_BYTES (8u << 20)

struct kv_decode {
	struct template_context parser;
	const char *message;
	size_t len, at;
	int state; /* 0: under way, 1: whole, or an error */
	struct decoding now;
};

struct kv_decode *kv_decode_new(void)
{
	return calloc(1, sizeof(struct kv_decode));
}

void kv_decode_free(struct kv_decode *d)
{
	if (!d)
		return;
	polled_end(&d->now);
	free(d->now.events.at);
	free(d->now.hashes.at);
	free(d->now.tokens.at);
	free(d->now.extras.at);
	free(d);
}

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
	reset(&d->now.events, sizeof(struct kv_cache_event));
	reset(&d->now.hashes, sizeof(uint64_t));
	reset(&d->now.tokens, sizeof(uint32_t));
	reset(&d->now.extras, sizeof(struct kv_extra));
	polled_end(&d->now);
	d->now.batch = (struct kv_batch){.rank = -1};
	d->message = message;
	d->len = len;
	d->at = 0;
	d->state = 0;
	d->now.depth = 0;
	d->now.frames[0] = (struct frame){.left = 1, .role = R_SKIP, .child = R_BATCH};
	d->parser.user = &d->now;
	template_init(&d->parser);
}

void kv_decode_begin_polled(struct kv_decode *d, const char *text, size_t len,
			    struct kv_polled *about)
{
	kv_decode_begin(d, text, len);
	d->now.polling.about = about;
}

/* ---- values -------------------------------------------------------------------------- */

static uint8_t place(struct decoding *d, const struct frame *f)
{
	if (f->role == R_EVENT && !kv_event_has_place(f->index))
		d->batch.unknown_fields++;
	return kv_role_at(f->role, f->index, d->event.kind);
}

static uint8_t named(struct decoding *d, uint8_t map, const char *p, size_t n)
{
	bool unknown;
	uint8_t role = kv_role_named(map, p, n, &unknown);

	d->batch.unknown_fields += unknown;
	return role;
}

/* A value of the uppermost frame is complete; and with it, perhaps, what holds it. */
static int done(struct decoding *d)
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
			err = event_end(d);
			if (err)
				return err;
		}
	}
}

static int container(struct decoding *d, uint64_t n, bool map)
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
		event_begin(d);
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
		int err = role == R_EVENT ? event_end(d) : 0;

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

static int scalar(struct decoding *d, const struct value *v)
{
	struct frame *f = &d->frames[d->depth];
	int err = 0;

	if (f->map && f->key) {
		f->child = R_SKIP;
		if (v->type == V_TEXT)
			f->child = named(d, f->role, v->p, v->len);
		else if (v->type != V_BYTES)
			d->batch.unknown_fields++;
		return done(d);
	}
	switch (f->child) {
	case R_TS:
		d->batch.ts = v->number;
		break;
	case R_RANK:
		if (v->type == V_INTEGER)
			d->batch.rank =
				v->negative || v->integer > INT32_MAX ? -1 : (int64_t)v->integer;
		break;
	case R_BATCH:
	case R_EVENTS:
		return -EBADMSG;
	case R_EVENT:
		d->batch.unknown_events++;
		break;
	default:
		err = event_field(d, f->child, v);
	}
	return err ? err : done(d);
}

static int integer(struct decoding *d, uint64_t v, bool negative)
{
	struct frame *f = &d->frames[d->depth];
	int err;

	if (f->role == R_TOKENS && !f->map) { /* nearly all there is */
		err = add_token(d, v, negative);
		if (--f->left && !err) {
			f->index++;
			return 0;
		}
		f->left++;
		return err ? err : done(d);
	}
	return scalar(d, &(struct value){.type = V_INTEGER,
					 .integer = v,
					 .negative = negative,
					 .number = negative ? (double)(int64_t)v : (double)v});
}

/* ---- the message --------------------------------------------------------------------- */

static void show(struct decoding *d)
{
	static const uint64_t none[1]; /* empty arrays have an address as well */
	struct kv_batch *b = &d->batch;

	b->events = d->events.at ? d->events.at : (void *)none;
	b->hashes = d->hashes.at ? d->hashes.at : (void *)none;
	b->tokens = d->tokens.at ? d->tokens.at : (void *)none;
	b->extras = d->extras.at ? d->extras.at : (void *)none;
	b->n_events = d->events.n;
	b->n_hashes = d->hashes.n;
	b->n_tokens = d->tokens.n;
	b->n_extras = d->extras.n;
}

int kv_decode_step(struct kv_decode *d, size_t bytes)
{
	size_t to = d->len - d->at < bytes ? d->len : d->at + bytes;
	int ret;

	if (d->state)
		return d->state;
	if (d->now.polling.about) {
		d->state = polled_step(&d->now, d->message, d->len, bytes);
		if (d->state == 1)
			show(&d->now);
		return d->state;
	}
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
		show(&d->now);
	} else {
		d->state = ret == -ENOMEM ? -ENOMEM : -EBADMSG;
	}
	return d->state;
}

const struct kv_batch *kv_decode_batch(const struct kv_decode *d)
{
	return &d->now.batch;
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
