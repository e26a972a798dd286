// SPDX-License-Identifier: BSD-2-Clause
#include "engines/metrics.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engines/metric_names.h"

#define COUNT_MAX 9007199254740992.0 /* 2^53: beyond it a double is no whole number */

static bool wants(void *arg, const char *name)
{
	(void)arg;
	for (unsigned int i = 0; i < n_metric_names; i++)
		if (!strcmp(metric_names[i].name, name))
			return true;
	return false;
}

static bool usable(double value)
{
	return value >= 0 && value <= COUNT_MAX; /* not NaN either */
}

/* The data-parallel rank that a series is of. */
static unsigned int rank_of(const struct prom_sample *s)
{
	const char *text = prom_label(s, "dp_rank");

	if (!text)
		text = prom_label(s, "engine");
	return text ? strtoul(text, NULL, 10) % METRICS_RANKS : 0;
}

static void join_max(struct metric_sum *sum, double value)
{
	sum->value = sum->seen ? fmax(sum->value, value) : value;
	sum->seen = true;
}

static void join_sum(struct metric_sum *sum, double value)
{
	sum->value += value;
	sum->seen = true;
}

/* vLLM has "None" here until it knows. */
static bool label_number(const struct prom_sample *s, const char *label, double *ret)
{
	const char *text = prom_label(s, label);
	char *end;

	if (!text || !*text)
		return false;
	*ret = strtod(text, &end);
	return !*end && usable(*ret) && *ret > 0;
}

static void join_info(struct metrics_reader *r, const struct metric_name *m,
		      const struct prom_sample *s)
{
	double size, blocks;
	bool has_size = label_number(s, m->label, &size);
	bool has_blocks = label_number(s, m->value, &blocks);

	if (has_size)
		join_max(&r->sums[METRIC_BLOCK_SIZE][0], size);
	if (has_blocks)
		join_sum(&r->sums[METRIC_BLOCKS][0], blocks);
	if (has_size && has_blocks)
		r->info_capacity += size * blocks;
}

static void join(struct metrics_reader *r, const struct metric_name *m, const struct prom_sample *s)
{
	struct metric_sum *sum = &r->sums[m->metric][m->choice];
	const char *label;
	double *rank;

	if (m->join == JOIN_INFO) {
		join_info(r, m, s);
		return;
	}
	label = m->label ? prom_label(s, m->label) : NULL;
	if (!usable(s->value) || (m->label && (!label || strcmp(label, m->value))))
		return;
	switch (m->join) {
	case JOIN_MAX:
		join_max(sum, s->value);
		break;
	case JOIN_RANKS:
		rank = &sum->ranks[rank_of(s)];
		if (s->value > *rank) {
			sum->value += s->value - *rank;
			*rank = s->value;
		}
		sum->seen = true;
		break;
	default:
		join_sum(sum, s->value);
	}
}

static void sample(void *arg, const struct prom_sample *s)
{
	struct metrics_reader *r = arg;

	for (unsigned int i = 0; i < n_metric_names; i++) {
		if (strcmp(metric_names[i].name, s->name))
			continue;
		if (metric_names[i].kind != ENGINE_UNKNOWN)
			r->kind = metric_names[i].kind;
		join(r, &metric_names[i], s);
	}
}

void metrics_begin(struct metrics_reader *r)
{
	struct prom_sink sink = {wants, sample, r};

	r->kind = ENGINE_UNKNOWN;
	r->info_capacity = 0;
	memset(r->sums, 0, sizeof(r->sums));
	prom_begin(&r->prom, &sink, METRICS_PAGE_MAX);
}

bool metrics_feed(struct metrics_reader *r, const char *data, size_t n)
{
	return prom_feed(&r->prom, data, n);
}

static bool best(const struct metrics_reader *r, enum metric metric, double *ret)
{
	for (unsigned int i = 0; i < METRICS_CHOICES; i++)
		if (r->sums[metric][i].seen) {
			*ret = r->sums[metric][i].value;
			return true;
		}
	return false;
}

static void take(const struct metrics_reader *r, enum metric metric, struct engine_load *load,
		 uint32_t bit, uint64_t *ret)
{
	double value;

	if (!best(r, metric, &value))
		return;
	*ret = fmin(value, COUNT_MAX);
	load->has |= bit;
}

/* TensorRT-LLM counts blocks. */
static void blocks_to_tokens(const struct metrics_reader *r, struct engine_load *load)
{
	double hit, missed, size = load->block_size;

	if (!(load->has & LOAD_BLOCK_SIZE) || !best(r, METRIC_HIT_BLOCKS, &hit))
		return;
	load->hits = fmin(hit * size, COUNT_MAX);
	load->has |= LOAD_HITS;
	if (!best(r, METRIC_MISSED_BLOCKS, &missed))
		return;
	load->queries = fmin((hit + missed) * size, COUNT_MAX);
	load->has |= LOAD_QUERIES;
}

/* Info series of SGLang are one for all ranks, its token counts one per rank: the greater. */
static void capacity(const struct metrics_reader *r, struct engine_load *load)
{
	double tokens = r->info_capacity, stated;

	if (!tokens && (load->has & LOAD_BLOCKS) && (load->has & LOAD_BLOCK_SIZE))
		tokens = (double)load->blocks * load->block_size;
	if (best(r, METRIC_CAPACITY, &stated))
		tokens = fmax(tokens, stated);
	if (tokens < 1)
		return;
	load->capacity = fmin(tokens, COUNT_MAX);
	load->has |= LOAD_CAPACITY;
}

int metrics_end(struct metrics_reader *r, struct engine_load *ret)
{
	struct engine_load load = {0};

	prom_end(&r->prom);
	if (r->prom.cut)
		return -EFBIG;
	if (r->kind == ENGINE_UNKNOWN)
		return -ENODATA;
	load.kind = r->kind;
	take(r, METRIC_RUNNING, &load, LOAD_RUNNING, &load.running);
	take(r, METRIC_WAITING, &load, LOAD_WAITING, &load.waiting);
	take(r, METRIC_BLOCK_SIZE, &load, LOAD_BLOCK_SIZE, &load.block_size);
	take(r, METRIC_BLOCKS, &load, LOAD_BLOCKS, &load.blocks);
	take(r, METRIC_QUERIES, &load, LOAD_QUERIES, &load.queries);
	take(r, METRIC_HITS, &load, LOAD_HITS, &load.hits);
	blocks_to_tokens(r, &load);
	capacity(r, &load);
	if (best(r, METRIC_CACHE_USE, &load.cache_use)) {
		load.cache_use = fmin(load.cache_use, 1);
		load.has |= LOAD_CACHE_USE;
	}
	if (best(r, METRIC_STARTED, &load.started))
		load.has |= LOAD_STARTED;
	*ret = load;
	return 0;
}

const char *engine_kind_name(enum engine_kind kind)
{
	static const char *const names[] = {
		[ENGINE_UNKNOWN] = "unknown",	   [ENGINE_VLLM] = "vllm",
		[ENGINE_SGLANG] = "sglang",	   [ENGINE_TRTLLM] = "trtllm",
		[ENGINE_TRITON] = "triton-trtllm",
	};

	return names[kind];
}
