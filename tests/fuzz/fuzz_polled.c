// SPDX-License-Identifier: BSD-2-Clause
/*
 * Engines that answer with any bytes when they are asked for their events. The first byte says how
 * the answer comes in pieces. What must hold: in pieces the same events are cut out of it as at
 * once; in steps each is read as it is at once; what is read can be applied.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "events/cut.h"
#include "events/index.h"

#define must(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond))                                                                       \
			abort();                                                                   \
	} while (0)

#define LIMIT 4096

static struct kv_decode *decode, *steps;
static struct kv_polled about;
static struct kv_index *ix;
static int id;
static uint64_t sums[2];

static void told(void *ctx, uint64_t key, uint32_t depth, uint32_t backend, uint32_t weight)
{
	(void)ctx, (void)key, (void)backend;
	must(depth && weight);
}

static void gone(void *ctx, uint64_t key, uint32_t backend)
{
	(void)ctx, (void)key, (void)backend;
}

static void all_gone(void *ctx, uint32_t backend, uint32_t rank, bool wholesale)
{
	(void)ctx, (void)backend, (void)rank, (void)wholesale;
}

static void complete(void *ctx, uint32_t backend, uint32_t rank, bool is)
{
	(void)ctx, (void)backend, (void)rank, (void)is;
}

static const struct kv_index_sink sink = {told, gone, all_gone, all_gone, complete};

static void sum(uint64_t *s, const char *text, size_t len)
{
	*s = *s * 31 + len;
	for (size_t i = 0; i < len; i++)
		*s = *s * 31 + (unsigned char)text[i];
}

static void in_pieces(void *ctx, char *text, size_t len)
{
	sum(ctx, text, len);
	free(text);
}

static void at_once(void *ctx, char *text, size_t len)
{
	struct kv_polled before = about, other = about;
	const struct kv_batch *a, *b;
	struct kv_index_apply apply;
	uint64_t number;
	uint32_t rank;
	int ret, ret_steps;

	must(len && len <= LIMIT && text[0] == '{');
	sum(ctx, text, len);
	kv_polled_head(text, len, &number, &rank);
	kv_decode_begin_polled(decode, text, len, &about);
	do
		ret = kv_decode_step(decode, len);
	while (!ret);
	kv_decode_begin_polled(steps, text, len, &other);
	do
		ret_steps = kv_decode_step(steps, 1);
	while (!ret_steps);
	must(ret == ret_steps);
	must(about.window >= before.window && about.block == other.block);
	if (ret == 1) {
		a = kv_decode_batch(decode);
		b = kv_decode_batch(steps);
		must(a->n_events == b->n_events && a->n_hashes == b->n_hashes &&
		     a->n_tokens == b->n_tokens && a->n_extras == b->n_extras &&
		     a->anew == b->anew);
		if (a->anew)
			kv_index_unsure(ix, id);
		kv_index_begin(&apply, id, a);
		while (!kv_index_step(ix, &apply, 3))
			;
		kv_index_work(ix, 5);
	}
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kv_index_limits limits = KV_INDEX_LIMITS;
	struct kv_index_engine engine = {0};
	size_t piece, n;
	struct kv_cut c;
	bool whole;
	int err;

	if (!size)
		return 0;
	if (!decode) {
		decode = kv_decode_new();
		steps = kv_decode_new();
	}
	piece = 1 + data[0];
	data++;
	size--;
	about = (struct kv_polled){0};
	sums[0] = sums[1] = 0;
	limits.max_bytes = 256 << 10;
	limits.max_orphan_bytes = 8 << 10;
	ix = kv_index_new(&limits, &sink, NULL);
	id = kv_index_add(ix, &engine);
	kv_cut_init(&c, LIMIT, at_once, &sums[0]);
	err = kv_cut_feed(&c, (const char *)data, size);
	whole = kv_cut_whole(&c);
	kv_cut_exit(&c);
	kv_cut_init(&c, LIMIT, in_pieces, &sums[1]);
	for (size_t at = 0; at < size; at += n) {
		n = size - at < piece ? size - at : piece;
		if (kv_cut_feed(&c, (const char *)data + at, n))
			break;
	}
	must(err == kv_cut_feed(&c, "", 0));
	must(whole == kv_cut_whole(&c));
	kv_cut_exit(&c);
	must(sums[0] == sums[1]);
	must(kv_index_bytes(ix) <= limits.max_bytes);
	kv_index_remove(ix, id);
	while (!kv_index_work(ix, 1000))
		;
	must(!kv_index_entries(ix));
	kv_index_free(ix);
	return 0;
}
