// SPDX-License-Identifier: BSD-2-Clause
/* The simulator's parts: caches, statistics, plots. Runs: test_sim.c. */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "sim/engine.h"
#include "sim/plot.h"
#include "sim/stats.h"

/* ---- caches --------------------------------------------------------------------------- */

static uint64_t stored, gone, gone_last;

static void note(void *ctx, uint64_t id, bool is_stored)
{
	(void)ctx;
	if (is_stored) {
		stored++;
	} else {
		gone++;
		gone_last = id;
	}
}

static void test_cache(void)
{
	TEST("a cache drops tails first, and the oldest first")
	{
		struct sim_cache c;

		stored = gone = 0;
		CHECK_EQ(sim_cache_init(&c, 4), 0);
		c.changed = note;
		sim_cache_serve(&c, (uint64_t[]){1, 2, 3}, 3);
		sim_cache_serve(&c, (uint64_t[]){1, 5}, 2);
		CHECK_EQ(stored, 4);
		CHECK_EQ(gone, 0);
		sim_cache_serve(&c, (uint64_t[]){7}, 1);
		CHECK_EQ(gone_last, 3);
		CHECK_EQ(sim_cache_match(&c, (uint64_t[]){1, 2, 3}, 3), 2);
		CHECK_EQ(sim_cache_match(&c, (uint64_t[]){1, 5}, 2), 2);
		/* longer than the cache: its head fits */
		sim_cache_serve(&c, (uint64_t[]){11, 12, 13, 14, 15}, 5);
		CHECK_EQ(sim_cache_match(&c, (uint64_t[]){11, 12, 13, 14, 15}, 5), 4);
		CHECK_EQ(c.n, 4);
		CHECK_EQ(stored - gone, 4);
		sim_cache_free(&c);
	}
}

/* The same block by block, most recent first. */
#define SMALL 40
#define LONGEST 12

struct lru {
	uint64_t ids[SMALL + LONGEST];
	uint32_t n;
};

static uint32_t lru_find(const struct lru *l, uint64_t id)
{
	uint32_t at = 0;

	while (at < l->n && l->ids[at] != id)
		at++;
	return at;
}

static uint32_t lru_serve(struct lru *l, const uint64_t *ids, uint32_t n)
{
	uint32_t held = 0, at;

	while (held < n && lru_find(l, ids[held]) < l->n)
		held++;
	for (uint32_t i = n; i--;) {
		at = lru_find(l, ids[i]);
		l->n += at == l->n;
		memmove(l->ids + 1, l->ids, at * sizeof(*l->ids));
		l->ids[0] = ids[i];
	}
	return held;
}

static void test_stretches(void)
{
	TEST("a cache of stretches is an LRU of blocks")
	{
		uint64_t ids[LONGEST], random = 1, hits = 0, held;
		struct lru l = {.n = 0};
		struct sim_cache c;
		uint32_t n;

		stored = gone = 0;
		CHECK_EQ(sim_cache_init(&c, SMALL), 0);
		c.changed = note;
		for (int i = 0; i < 20000; i++) {
			random = kv_mix(random + i);
			n = 1 + random % LONGEST;
			/* an id's children are its own: prompts part at any depth */
			ids[0] = 1 + (random >> 8 & 1);
			for (uint32_t d = 1; d < n; d++)
				ids[d] = 2 * ids[d - 1] + 1 + !(random >> (8 + 2 * d) & 3);
			hits += held = lru_serve(&l, ids, n);
			CHECK_EQ(sim_cache_match(&c, ids, n), held);
			CHECK_EQ(sim_cache_serve(&c, ids, n), held);
			if (l.n > SMALL)
				CHECK_EQ(gone_last, l.ids[SMALL]);
			l.n = l.n < SMALL ? l.n : SMALL;
			CHECK_EQ(c.n, l.n);
			CHECK_EQ(stored - gone, l.n);
		}
		CHECK(hits > 20000 && c.evicted > 20000);
		sim_cache_free(&c);
	}
}

/* ---- statistics ----------------------------------------------------------------------- */

static void test_stats(void)
{
	TEST("quantiles are exact to a thousandth")
	{
		struct sim_times t;

		CHECK_EQ(sim_times_init(&t), 0);
		CHECK(sim_times_quantile(&t, 0.5) == 0);
		for (int i = 1; i <= 1000; i++)
			sim_times_add(&t, i * 0.001, 1);
		sim_times_add(&t, 0, 1);
		CHECK(fabs(sim_times_quantile(&t, 0.5) - 0.5) < 0.001 * 0.5);
		CHECK(fabs(sim_times_quantile(&t, 0.9) - 0.9) < 0.001 * 0.9);
		CHECK(fabs(sim_times_quantile(&t, 1) - 1) < 0.001);
		CHECK(sim_times_quantile(&t, 0) == 0);
		CHECK(fabs(t.sum - 500.5) < 1e-6);
		sim_times_free(&t);
	}

	TEST("distinct ids, also when they are too many to keep")
	{
		struct sim_distinct d = {0};
		const unsigned int many = SIM_DISTINCT_MAX / 8;

		for (unsigned int i = 0; i < many; i++)
			for (int twice = 0; twice < 2; twice++)
				CHECK_EQ(sim_distinct_add(&d, sim_block_hash(i)), 0);
		CHECK(sim_distinct_count(&d) == many);
		d.halvings = 3; /* as after many more: the same ids count, each for eight */
		for (unsigned int i = many; i < 2 * many; i++)
			CHECK_EQ(sim_distinct_add(&d, sim_block_hash(i)), 0);
		CHECK(d.n < many + many / 6);
		sim_distinct_free(&d);
	}
}

/* ---- plots ---------------------------------------------------------------------------- */

static void test_plot(void)
{
	struct sim_result results[] = {
		{.policy = &sim_policies[0], .speed = 1, .hit_rate = .2, .ttft_p90 = 1},
		{.policy = &sim_policies[1], .speed = 1, .hit_rate = 0, .ttft_p90 = 0},
		{.policy = &sim_policies[0], .speed = 4, .hit_rate = 1, .ttft_p90 = 1e6},
	};
	char *text = NULL;
	size_t len;

	TEST("plots have their names and numbers, and are well formed whatever the title")
	{
		for (unsigned int n = 2; n <= 3; n++) {
			FILE *f = open_memstream(&text, &len);

			CHECK_EQ(sim_plot(f, "<a>&\033", results, n), 0);
			fclose(f);
			CHECK(!strncmp(text, "<svg ", 5) && !strcmp(text + len - 7, "</svg>\n"));
			CHECK(strstr(text, ">&lt;a&gt;&amp;?</text>") != NULL);
			CHECK(strstr(text, ">sticky</text>") != NULL);
			CHECK(!strstr(text, "nan") && !strstr(text, "inf"));
			free(text);
		}
	}
}

int main(void)
{
	test_cache();
	test_stretches();
	test_stats();
	test_plot();
	return check_done();
}
