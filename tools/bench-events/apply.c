// SPDX-License-Identifier: BSD-2-Clause
/* Without sockets: from a message's bytes to the sink's call. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <kvsteer/shared.h>

#include "bench.h"

#define EVENT_BLOCKS 64 /* of one message: a prompt's step of 1,024 tokens */
#define CHAIN 16	/* messages of one prompt */
#define AT_ONCE 4096	/* messages packed before the clock runs: 262,144 blocks */

struct world {
	struct kv_index *ix;
	struct kv_decode *decode;
	int id;
	uint64_t told;
	double decode_s, apply_s;
	uint64_t blocks;
};

static void told(void *ctx, uint64_t key, uint32_t depth, uint32_t backend, uint32_t weight)
{
	struct world *w = ctx;

	(void)key;
	(void)depth;
	(void)backend;
	(void)weight;
	w->told++;
}

static const struct kv_index_sink sink = {told, ignore_gone, ignore_cache, ignore_cache,
					  ignore_cache};

static int world_open(struct world *w)
{
	struct kv_index_limits limits = KV_INDEX_LIMITS;
	struct kv_index_engine e = {.backend = 1, .model = "m", .block = BLOCK};

	*w = (struct world){.decode = kv_decode_new()};
	limits.max_bytes = 2ull << 30;
	w->ix = kv_index_new(&limits, &sink, w);
	if (!w->ix || !w->decode)
		return -ENOMEM;
	w->id = kv_index_add(w->ix, &e);
	return w->id < 0 ? w->id : 0;
}

static void world_close(struct world *w)
{
	kv_index_free(w->ix);
	kv_decode_free(w->decode);
}

/* All messages, one after another; time spent in each half. */
static int run(struct world *w, const msgpack_sbuffer *m, int n)
{
	struct kv_index_apply a;

	for (int i = 0; i < n; i++) {
		double t0 = seconds_cpu(), t1;
		int err = kv_decode(w->decode, m[i].data, m[i].size);

		if (err)
			return err;
		t1 = seconds_cpu();
		kv_index_begin(&a, w->id, kv_decode_batch(w->decode));
		while (!kv_index_step(w->ix, &a, 64))
			;
		w->decode_s += t1 - t0;
		w->apply_s += seconds_cpu() - t1;
		w->blocks += EVENT_BLOCKS;
	}
	return 0;
}

/* Blocks first … of so many messages; removed: those instead. */
static int chunk(struct world *w, bool map, uint64_t first, int messages, bool removed)
{
	static msgpack_sbuffer m[AT_ONCE];

	for (int i = 0; i < messages; i++) {
		uint64_t at = first + (uint64_t)i * EVENT_BLOCKS;
		bool root = at / EVENT_BLOCKS % CHAIN == 0;

		msgpack_sbuffer_clear(&m[i]);
		if (removed)
			pack_removed(&m[i], map, at, EVENT_BLOCKS);
		else
			pack_stored(&m[i], map, at, EVENT_BLOCKS, root ? 0 : at);
	}
	return run(w, m, messages);
}

static void clock_reset(struct world *w)
{
	w->decode_s = w->apply_s = 0;
	w->blocks = 0;
}

/* Stores only, into an index that grows. */
static int growing(struct results *r, bool map, uint64_t blocks)
{
	uint64_t per = (uint64_t)AT_ONCE * EVENT_BLOCKS, before = bytes_resident();
	struct world w;
	int err = world_open(&w);

	for (uint64_t at = 0; !err && at < blocks; at += per)
		err = chunk(&w, map, at, AT_ONCE, false);
	if (err)
		return err;
	if (w.told != w.blocks) {
		fprintf(stderr, "kv-bench-events: %llu blocks stored, %llu told\n",
			(unsigned long long)w.blocks, (unsigned long long)w.told);
		return -EIO;
	}
	result_add(r, map ? "decoded, map form" : "decoded, array form", w.blocks / w.decode_s,
		   "blocks/s", 0, 0);
	if (map) {
		result_add(r, "applied, 2 million and growing", w.blocks / w.apply_s, "blocks/s", 1,
			   1e6);
		result_add(r, "decoded and applied", w.blocks / (w.decode_s + w.apply_s),
			   "blocks/s", 0, 0);
		result_add(r, "memory per entry",
			   (double)kv_index_bytes(w.ix) / kv_index_entries(w.ix), "bytes", -1, 100);
		result_add(r, "memory per entry, resident",
			   (double)(bytes_resident() - before) / kv_index_entries(w.ix), "bytes",
			   -1, 100);
		/* of the map's definition: all of it is allocated at start */
		result_add(r, "kernel memory per prefix",
			   (double)sizeof(struct kv_prefix_set) / KV_WAYS, "bytes", -1, 100);
	}
	world_close(&w);
	return 0;
}

/* Stored and removed, half a million at a time being there. */
static int passing(struct results *r, uint64_t blocks)
{
	uint64_t per = (uint64_t)AT_ONCE * EVENT_BLOCKS, behind = 2 * per, early = 0, late;
	double decode_s = 0, apply_s = 0, removed_s = 0;
	uint64_t n = 0;
	struct world w;
	int err = world_open(&w);

	for (uint64_t at = 0; !err && at < blocks; at += per) {
		clock_reset(&w);
		err = chunk(&w, true, at, AT_ONCE, false);
		decode_s += w.decode_s;
		apply_s += w.apply_s;
		n += w.blocks;
		clock_reset(&w);
		if (!err && at >= behind)
			err = chunk(&w, true, at - behind, AT_ONCE, true);
		removed_s += w.decode_s + w.apply_s;
		if (at == 4 * per)
			early = bytes_resident();
	}
	if (err)
		return err;
	late = bytes_resident();
	result_add(r, "applied, half a million there", n / apply_s, "blocks/s", 1, 1e6);
	result_add(r, "decoded and applied, half a million there", n / (decode_s + apply_s),
		   "blocks/s", 0, 0);
	result_add(r, "removed (decoded and applied)", (n - behind) / removed_s, "blocks/s", 1,
		   1e6);
	result_add(r, "unique blocks stored and removed", n, "blocks", 0, 0);
	result_add(r, "resident memory, grown since the first million",
		   late > early ? (late - early) / 1024.0 : 0, "KiB", -1,
		   4096); /* two huge pages */
	world_close(&w);
	return 0;
}

int bench_apply(struct results *r, uint64_t blocks)
{
	int err = growing(r, false, 2000000);

	if (!err)
		err = growing(r, true, 2000000);
	return err ? err : passing(r, blocks);
}
