/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An engine's metrics page: what vLLM (new and old names), SGLang, TensorRT-LLM and Triton call
 * their load, cache and hits, brought into one form. What a page does not say is absent, not 0.
 */
#ifndef ENGINES_METRICS_H
#define ENGINES_METRICS_H

#include "engines/prom.h"

#define METRICS_PAGE_MAX (4u << 20)
#define METRICS_RANKS 64
#define METRICS_CHOICES 3 /* names of one thing, the best first */

enum engine_kind { ENGINE_UNKNOWN, ENGINE_VLLM, ENGINE_SGLANG, ENGINE_TRTLLM, ENGINE_TRITON };

/* engine_load.has */
#define LOAD_RUNNING 1u
#define LOAD_WAITING 2u
#define LOAD_CACHE_USE 4u
#define LOAD_BLOCK_SIZE 8u
#define LOAD_BLOCKS 16u
#define LOAD_CAPACITY 32u
#define LOAD_QUERIES 64u
#define LOAD_HITS 128u
#define LOAD_STARTED 256u

/* Over all ranks of a data-parallel engine. */
struct engine_load {
	uint32_t has;
	enum engine_kind kind;
	uint64_t running;    /* requests */
	uint64_t waiting;    /* requests */
	double cache_use;    /* 0 … 1, of the fullest rank */
	uint64_t block_size; /* tokens */
	uint64_t blocks;
	uint64_t capacity; /* tokens */
	uint64_t queries;  /* tokens looked up in the prefix cache, only rising */
	uint64_t hits;	   /* tokens found there */
	double started;	   /* Unix time of the process */
};

enum metric {
	METRIC_RUNNING,
	METRIC_WAITING,
	METRIC_CACHE_USE,
	METRIC_BLOCK_SIZE,
	METRIC_BLOCKS,
	METRIC_CAPACITY,
	METRIC_QUERIES,
	METRIC_HITS,
	METRIC_HIT_BLOCKS,
	METRIC_MISSED_BLOCKS,
	METRIC_STARTED,
	METRIC_MAX,
};

struct metric_sum {
	bool seen;
	double value;
	double ranks[METRICS_RANKS]; /* where ranks say the same more than once */
};

struct metrics_reader {
	struct prom_reader prom;
	enum engine_kind kind;
	double info_capacity; /* block size × blocks, summed over info series */
	struct metric_sum sums[METRIC_MAX][METRICS_CHOICES];
};

void metrics_begin(struct metrics_reader *r);
/* false: the page is too long to go on. */
bool metrics_feed(struct metrics_reader *r, const char *data, size_t n);
/* 0; -ENODATA: nothing that we know; -EFBIG: too long, and half a page could read as idle. *ret is
 * set on success only. */
int metrics_end(struct metrics_reader *r, struct engine_load *ret);

const char *engine_kind_name(enum engine_kind kind);

#endif
