// SPDX-License-Identifier: BSD-2-Clause
/* The index of what engines hold: keys, parents, references, tiers, ranks, caps. */
#include "check.h"
#include "events_build.h"
#include "kvsteer.h"

static void store(int id, uint64_t first, uint32_t n, uint64_t parent, uint32_t place,
		  uint32_t size)
{
	begin(KV_EVENT_STORED, first, n);
	with_tokens(parent, place, size);
	build_apply(w.ix, id, &b);
}

static void drop(int id, uint64_t first, uint32_t n)
{
	begin(KV_EVENT_REMOVED, first, n);
	build_apply(w.ix, id, &b);
}

/* Block 1, of which only the hash is said. */
static void in_tier(int id, uint8_t kind, uint8_t tier)
{
	begin(kind, 1, 1);
	b.event.tier = tier;
	build_apply(w.ix, id, &b);
}

/* Block 1 of a cache group. */
static void in_group(int id, uint8_t kind, uint32_t group, uint8_t spec)
{
	begin(kind, 1, 1);
	if (kind == KV_EVENT_STORED)
		with_tokens(0, 0, 16);
	b.event.has_group = true;
	b.event.group = group;
	b.event.spec = spec;
	build_apply(w.ix, id, &b);
}

/* Key of that prompt's first so many tokens, by the public library. */
static uint64_t key_of(uint32_t tokens, uint32_t block, const char *model, const char *lora,
		       const char *salt)
{
	struct kvsteer_options opts = {.model = model, .lora = lora, .salt = salt};
	struct kvsteer_prompt prompt;
	uint32_t ids[4096];

	for (uint32_t i = 0; i < tokens; i++)
		ids[i] = i + 1;
	kvsteer_tokens(ids, tokens, block, &opts, &prompt);
	return prompt.rungs[prompt.n_rungs - 1].hash;
}

static uint64_t key(uint32_t tokens, uint32_t block)
{
	return key_of(tokens, block, "m", NULL, NULL);
}

static void keys(void)
{
	int id;

	TEST("keys are those of requests: same chain, model, depth")
	{
		open_index();
		id = add(3, 0, 0);
		store(id, 100, 5, 0, 0, 16);
		store(id, 105, 3, 104, 5, 16);
		CHECK_EQ(w.n_told, 8);
		CHECK_EQ(kv_index_block(w.ix, id), 16);
		for (uint32_t n = 1; n <= 8; n++) {
			CHECK_EQ(world_weight(&w, 3, key(16 * n, 16)), 255);
			CHECK_EQ(w.told[world_find(&w, 3, key(16 * n, 16))].depth, 16 * n);
			CHECK_EQ(kv_index_lookup(w.ix, 3, key(16 * n, 16)), 255);
		}
		CHECK_EQ(kv_index_lookup(w.ix, 4, key(16, 16)), 0);
		drop(id, 107, 1);
		CHECK_EQ(world_weight(&w, 3, key(128, 16)), 0);
		CHECK_EQ(w.n_told, 7);
	}

	TEST("LoRA and salt in the key; a salt is inherited by later stores")
	{
		struct kv_index_engine e = {
			.backend = 1, .model = "m", .lora_is_model = true, .block = 16};

		open_index();
		id = kv_index_add(w.ix, &e);
		begin(KV_EVENT_STORED, 10, 1);
		with_tokens(0, 0, 16);
		b.event.salt = (struct kv_bytes){"s", 1};
		b.event.lora = (struct kv_bytes){"ad", 2};
		build_apply(w.ix, id, &b);
		store(id, 11, 1, 10, 1, 16);
		CHECK_EQ(world_weight(&w, 1, key_of(32, 16, "ad", NULL, "s")), 255);
		CHECK_EQ(world_weight(&w, 1, key_of(32, 16, "ad", NULL, NULL)), 0);
		e = (struct kv_index_engine){.backend = 2, .model = "m", .block = 16};
		id = kv_index_add(w.ix, &e);
		begin(KV_EVENT_STORED, 10, 1);
		with_tokens(0, 0, 16);
		b.event.lora = (struct kv_bytes){"ad", 2};
		build_apply(w.ix, id, &b);
		CHECK_EQ(world_weight(&w, 2, key_of(16, 16, "m", "ad", NULL)), 255);
		begin(KV_EVENT_STORED, 20, 1);
		with_tokens(0, 0, 16);
		b.event.lora_id = 7;
		build_apply(w.ix, id, &b);
		CHECK_EQ(w.n_told, 4);
		CHECK_EQ(world_weight(&w, 2, key(16, 16)), 0);
	}

	TEST("pictures make another key, in any order")
	{
		uint64_t first;

		open_index();
		id = add(1, 0, 16);
		store(id, 1, 1, 0, 0, 16);
		for (int turn = 0; turn < 2; turn++) {
			begin(KV_EVENT_STORED, 2 + turn, 1);
			with_tokens(0, 0, 16);
			b.event.n_extras = 2;
			b.extras[0] = (struct kv_extra){.hash = turn ? 8 : 9};
			b.extras[1] = (struct kv_extra){.hash = turn ? 9 : 8};
			build_apply(w.ix, id, &b);
		}
		CHECK_EQ(w.n_told, 2); /* two hashes, one key */
		first = w.told[1].key;
		CHECK(first != key(16, 16));
		drop(id, 2, 1);
		CHECK_EQ(world_weight(&w, 1, first), 255);
		drop(id, 3, 1);
		CHECK_EQ(world_weight(&w, 1, first), 0);
	}

	TEST("a block of the engine is several of ours: its end is told")
	{
		open_index();
		id = add(1, 0, 16);
		store(id, 1, 2, 0, 0, 64);
		CHECK_EQ(w.n_told, 2);
		CHECK_EQ(world_weight(&w, 1, key(64, 16)), 255);
		CHECK_EQ(world_weight(&w, 1, key(128, 16)), 255);
	}

	TEST("pages of one token make blocks of ours, over several stores, also as orphans")
	{
		for (uint32_t size = 1; size <= 2; size++) {
			open_index();
			id = add(1, 0, 0);
			store(id, 1, 7, 0, 0, size);
			store(id, 8, 20, 7, 7, size);
			store(id, 38, 40, 37, 37, size); /* its parent is late */
			CHECK_EQ(kv_index_block(w.ix, id), 16);
			CHECK_EQ(w.n_told, 27 * size / 16);
			store(id, 28, 10, 27, 27, size);
			CHECK_EQ(w.n_told, 77 * size / 16);
			for (uint32_t n = 16; n <= 77 * size; n += 16)
				CHECK_EQ(world_weight(&w, 1, key(n, 16)), 255);
			drop(id, 1, 77);
			CHECK_EQ(w.n_told, 0);
			CHECK_EQ(kv_index_entries(w.ix), 0);
		}
	}

	TEST("stores that cannot be right are left out and counted")
	{
		struct kv_index_stats stats;

		open_index();
		id = add(1, 0, 16);
		begin(KV_EVENT_STORED, 1, 2);
		with_tokens(0, 0, 16);
		b.event.n_tokens--;
		build_apply(w.ix, id, &b);
		store(id, 1, 2, 0, 0, 24);
		store(id, 1, 2, 0, 0, 4);
		kv_index_stats(w.ix, id, &stats);
		CHECK_EQ(stats.malformed, 1);
		CHECK_EQ(stats.unfit, 4);
		CHECK_EQ(w.n_calls, 0);
	}
}

static void life(void)
{
	struct kv_index_stats stats;
	int id, other;

	TEST("orphans wait for their parent, in chains, and can be removed meanwhile")
	{
		open_index();
		id = add(1, 0, 16);
		store(id, 7, 2, 6, 6, 16);
		store(id, 5, 2, 4, 4, 16);
		store(id, 9, 1, 8, 8, 16);
		CHECK_EQ(w.n_told, 0);
		drop(id, 6, 1);
		store(id, 1, 4, 0, 0, 16);
		CHECK_EQ(w.n_told, 5); /* 7 … 9 wait for 6 to come again */
		kv_index_stats(w.ix, id, &stats);
		CHECK_EQ(stats.orphans, 5);
		CHECK_EQ(stats.adopted, 1);
		store(id, 6, 1, 5, 5, 16);
		CHECK_EQ(w.n_told, 9);
		CHECK_EQ(world_weight(&w, 1, key(9 * 16, 16)), 255);
	}

	TEST("orphans are bounded: the oldest goes, with its entries")
	{
		struct kv_index_limits limits = KV_INDEX_LIMITS;

		limits.max_orphan_bytes = 64 << 10;
		open_with(limits);
		id = add(1, 0, 16);
		for (int i = 0; i < 1000; i++)
			store(id, 1000 + i, 1, 999999 + i, 1, 16);
		kv_index_stats(w.ix, id, &stats);
		CHECK(stats.orphans_dropped > 900);
		CHECK(kv_index_entries(w.ix) < 100);
		CHECK(kv_index_held(w.ix, id) == kv_index_entries(w.ix));
		CHECK(!w.complete[1]);
	}

	TEST("orphans about to be adopted keep their memory: what comes behind them is refused")
	{
		struct kv_index_limits limits = KV_INDEX_LIMITS;

		limits.max_orphan_bytes = 64 << 10;
		open_with(limits);
		id = add(1, 0, 16);
		kv_index_complete(w.ix, id);
		for (int i = 0; i < 100; i++)
			store(id, 1000 + i, 1, 7, 7, 16);
		kv_index_stats(w.ix, id, &stats);
		CHECK(stats.orphans_dropped > 0 && stats.orphans_dropped < 100);
		other = kv_index_held(w.ix, id);
		begin(KV_EVENT_STORED, 7, 1);
		with_tokens(0, 6, 16);
		build_step(w.ix, id, &b); /* their parent: all are ready */
		begin(KV_EVENT_STORED, 2000, 1);
		with_tokens(1999, 6, 16);
		build_step(w.ix, id, &b);
		CHECK_EQ(kv_index_held(w.ix, id), other + 1); /* no entry without its orphan */
		while (!kv_index_work(w.ix, 5))
			;
		CHECK_EQ(w.n_told, 2);
		CHECK(!w.complete[1]);
		kv_index_stats(w.ix, id, &stats);
		CHECK_EQ(stats.adopted, other);
		store(id, 2000, 1, 1999, 6, 16);
		CHECK_EQ(kv_index_held(w.ix, id), other + 2);
	}

	TEST("references are counted; tiers have weights; an offloaded block stays")
	{
		open_index();
		id = add(1, 0, 16);
		store(id, 1, 1, 0, 0, 16);
		store(id, 1, 1, 0, 0, 16);
		drop(id, 1, 1);
		CHECK_EQ(world_weight(&w, 1, key(16, 16)), 255);
		in_tier(id, KV_EVENT_STORED, KV_TIER_CPU);
		drop(id, 1, 1);
		CHECK_EQ(world_weight(&w, 1, key(16, 16)), 128);
		drop(id, 1, 1); /* none on the GPU */
		CHECK_EQ(world_weight(&w, 1, key(16, 16)), 128);
		in_tier(id, KV_EVENT_REMOVED, KV_TIER_CPU);
		CHECK_EQ(w.n_told, 0);
		CHECK_EQ(kv_index_entries(w.ix), 0);
		in_tier(id, KV_EVENT_STORED, KV_TIER_CPU);
		CHECK_EQ(w.n_told, 0);
		kv_index_stats(w.ix, id, &stats);
		CHECK_EQ(stats.ignored_unknown, 2);
	}

	TEST("groups that are not full attention are ignored, their removals too")
	{
		open_index();
		id = add(1, 0, 16);
		in_group(id, KV_EVENT_STORED, 1, KV_SPEC_FULL);
		CHECK_EQ(w.n_told, 1);
		in_group(id, KV_EVENT_STORED, 0, KV_SPEC_OTHER);
		in_group(id, KV_EVENT_REMOVED, 0, KV_SPEC_UNSAID);
		CHECK_EQ(w.n_told, 1);
		in_group(id, KV_EVENT_REMOVED, 1, KV_SPEC_UNSAID);
		CHECK_EQ(w.n_told, 0);
		in_group(id, KV_EVENT_STORED, 2, KV_SPEC_UNSAID);
		CHECK_EQ(w.n_told, 0);
	}

	TEST("cleared, unsure, complete; the engine's hashes mean nothing elsewhere")
	{
		open_index();
		id = add(1, 0, 16);
		other = add(2, 0, 16);
		store(id, 1, 4, 0, 0, 16);
		store(other, 1, 2, 0, 4, 16);
		begin(KV_EVENT_CLEARED, 0, 0);
		build_apply(w.ix, id, &b);
		CHECK_EQ(w.cleared, 1);
		CHECK(w.complete[1]);
		CHECK_EQ(w.n_told, 2);
		CHECK_EQ(kv_index_held(w.ix, id), 0);
		CHECK_EQ(kv_index_entries(w.ix), 2);
		store(id, 3, 1, 2, 2, 16); /* its parent is not there any more */
		CHECK_EQ(w.n_told, 2);
		kv_index_unsure(w.ix, id);
		CHECK_EQ(w.unsure, 1);
		CHECK(!w.complete[1]);
		CHECK_EQ(add(2, 0, 16), -17);
		kv_index_remove(w.ix, other);
		CHECK_EQ(w.n_told, 0);
		CHECK(add(2, 0, 16) >= 0);
	}

	TEST("ranks of a backend: gone when no rank has it, cleared one by one")
	{
		open_index();
		id = add(1, 0, 16);
		other = add(1, 1, 16);
		store(id, 1, 3, 0, 0, 16);
		store(other, 11, 2, 0, 0, 16);
		CHECK_EQ(w.n_told, 3);
		drop(id, 1, 1);
		CHECK_EQ(w.n_told, 3);
		kv_index_clear(w.ix, other);
		while (!kv_index_work(w.ix, 1))
			;
		CHECK_EQ(w.n_told, 2);
		CHECK_EQ(world_weight(&w, 1, key(16, 16)), 0);
		CHECK_EQ(w.gone_unknown, 0);
	}
}

static void caps(void)
{
	struct kv_index_stats stats;
	uint64_t bytes;
	int id, other;

	TEST("the cap in bytes holds; who has its share is refused, who has less gets room")
	{
		struct kv_index_limits limits = KV_INDEX_LIMITS;

		limits.max_bytes = 1 << 20;
		open_with(limits);
		w.deaf = true;
		id = add(1, 0, 16);
		kv_index_complete(w.ix, id);
		for (int i = 0; i < 300; i++)
			store(id, 1 + 100 * i, 100, 0, 2 * i, 16);
		kv_index_stats(w.ix, id, &stats);
		CHECK(stats.refused > 0);
		CHECK(!w.complete[1]);
		CHECK(kv_index_bytes(w.ix) <= limits.max_bytes);
		CHECK(kv_index_held(w.ix, id) > 10000);
		other = add(2, 0, 16);
		for (int i = 0; i < 300; i++)
			store(other, 1 + 100 * i, 100, 0, 2 * i, 16);
		CHECK(kv_index_bytes(w.ix) <= limits.max_bytes);
		CHECK(kv_index_held(w.ix, other) > 5000);
		CHECK(kv_index_held(w.ix, id) > 5000);
		kv_index_stats(w.ix, id, &stats);
		CHECK(stats.evicted > 0);
	}

	TEST("memory goes back when blocks go")
	{
		open_index();
		w.deaf = true;
		id = add(1, 0, 16);
		for (int i = 0; i < 80; i++)
			store(id, 1 + 4096 * i, 4096, 0, i, 1);
		bytes = kv_index_bytes(w.ix);
		CHECK(bytes < 74 * (uint64_t)kv_index_entries(w.ix));
		for (int i = 0; i < 80; i++)
			drop(id, 1 + 4096 * i, 4096);
		CHECK_EQ(kv_index_entries(w.ix), 0);
		CHECK(kv_index_bytes(w.ix) < 100000);
	}

	TEST("an engine that gives one prompt a thousand hashes is kept within bounds")
	{
		open_index();
		id = add(1, 0, 16);
		for (int i = 0; i < 1000; i++)
			store(id, 1 + i, 1, 0, 0, 16);
		CHECK_EQ(w.n_told, 1);
		CHECK(kv_index_entries(w.ix) <= 256);
		drop(id, 1, 1000);
		CHECK_EQ(w.n_told, 0);
	}
}

static void again(void)
{
	int id, other;

	TEST("told again: what the backend holds and nothing else, in steps, while it changes")
	{
		open_index();
		id = add(1, 0, 16);
		other = add(2, 0, 16);
		store(id, 100, 200, 0, 0, 16);
		store(other, 100, 10, 0, 0, 16);
		w.n_told = w.n_calls = 0;
		kv_index_retell(w.ix, 1);
		CHECK(!kv_index_work(w.ix, 50));
		CHECK_EQ(w.n_calls, 50);
		/* gone meanwhile: the one that would come next, and those behind */
		begin(KV_EVENT_REMOVED, 150, 100);
		build_step(w.ix, id, &b);
		w.n_told = w.n_calls = 0;
		CHECK(kv_index_work(w.ix, 1000));
		CHECK_EQ(w.n_calls, 50);
		CHECK_EQ(world_weight(&w, 2, key(16, 16)), 0);
		kv_index_retell(w.ix, 1);
		kv_index_clear(w.ix, id);
		w.n_calls = 0;
		CHECK(kv_index_work(w.ix, 1000));
		CHECK_EQ(w.n_calls, 0);
	}
}

int main(void)
{
	keys();
	again();
	life();
	caps();
	kv_index_free(w.ix);
	return check_done();
}
