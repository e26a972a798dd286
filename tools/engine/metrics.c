// SPDX-License-Identifier: BSD-2-Clause
/*
 * Metrics as Prometheus text, under the names that the engines use: vLLM's of now and of before
 * 0.10, SGLang's, TensorRT-LLM's (at another path). The emulator's own ones begin kv_engine.
 */
#include <string.h>

#include "engine.h"

#define TYPE "text/plain; version=0.0.4; charset=utf-8"

struct page {
	struct conn *c;
	struct buf b;
	char labels[256];
};

static const char *const names[] = {"vllm", "vllm-old", "sglang", "trtllm"};

int metrics_dialect(const char *name)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(name, names[i]))
			return i;
	return -1;
}

static void one(struct page *p, const char *name, const char *type, double value)
{
	buf_printf(&p->b, "# TYPE %s %s\n%s{%s} %.17g\n", name, type, name, p->labels, value);
}

static double cache_share(const struct engine *e)
{
	return (double)cache_used(e->cache) / e->opt->blocks;
}

static void info(struct page *p, const char *name, const char *size, const char *number,
		 const char *more)
{
	const struct options *opt = p->c->engine->opt;

	buf_printf(&p->b, "# TYPE %s gauge\n%s{%s=\"%u\",%s%s=\"%u\"} 1\n", name, name, size,
		   opt->block_size, more, number, opt->blocks);
}

static void ttft(struct page *p)
{
	struct stats *s = &p->c->engine->stats;
	const char *name = "vllm:time_to_first_token_seconds";

	buf_printf(&p->b,
		   "# TYPE %s histogram\n%s_bucket{le=\"+Inf\",%s} %llu\n%s_count{%s} %llu\n"
		   "%s_sum{%s} %.9g\n",
		   name, name, p->labels, (unsigned long long)s->ttft_count, name, p->labels,
		   (unsigned long long)s->ttft_count, name, p->labels, s->ttft_sum);
}

static void vllm(struct page *p)
{
	struct engine *e = p->c->engine;
	struct stats *s = &e->stats;

	one(p, "vllm:num_requests_running", "gauge", s->running);
	one(p, "vllm:num_requests_waiting", "gauge", s->waiting);
	one(p, "vllm:kv_cache_usage_perc", "gauge", cache_share(e));
	one(p, "vllm:prefix_cache_queries_total", "counter", s->queries);
	one(p, "vllm:prefix_cache_hits_total", "counter", s->hits);
	one(p, "vllm:prompt_tokens_total", "counter", s->prompt_tokens);
	one(p, "vllm:generation_tokens_total", "counter", s->generation_tokens);
	one(p, "vllm:num_preemptions_total", "counter", 0);
	info(p, "vllm:cache_config_info", "block_size", "num_gpu_blocks",
	     "enable_prefix_caching=\"True\",engine=\"0\",");
	ttft(p);
}

static void vllm_old(struct page *p)
{
	struct engine *e = p->c->engine;
	struct stats *s = &e->stats;

	one(p, "vllm:num_requests_running", "gauge", s->running);
	one(p, "vllm:num_requests_waiting", "gauge", s->waiting);
	one(p, "vllm:gpu_cache_usage_perc", "gauge", cache_share(e));
	one(p, "vllm:gpu_prefix_cache_queries_total", "counter", s->queries);
	one(p, "vllm:gpu_prefix_cache_hits_total", "counter", s->hits);
	info(p, "vllm:cache_config_info", "block_size", "num_gpu_blocks", "");
	ttft(p);
}

static void sglang(struct page *p)
{
	struct engine *e = p->c->engine;
	struct stats *s = &e->stats;

	one(p, "sglang:num_running_reqs", "gauge", s->running);
	one(p, "sglang:num_queue_reqs", "gauge", s->waiting);
	one(p, "sglang:token_usage", "gauge", cache_share(e));
	one(p, "sglang:max_total_num_tokens", "gauge", (double)e->opt->blocks * e->opt->block_size);
	one(p, "sglang:cache_hit_rate", "gauge", 0);
	one(p, "sglang:cached_tokens_total", "counter", s->hits);
	one(p, "sglang:prompt_tokens_total", "counter", s->queries);
	info(p, "sglang:cache_config_info", "page_size", "num_pages", "");
}

static void trtllm(struct page *p)
{
	struct engine *e = p->c->engine;
	struct stats *s = &e->stats;
	uint64_t size = e->opt->block_size;

	one(p, "trtllm_num_requests_running", "gauge", s->running);
	one(p, "trtllm_num_requests_waiting", "gauge", s->waiting);
	one(p, "trtllm_kv_cache_utilization", "gauge", cache_share(e));
	one(p, "trtllm_kv_cache_hit_rate", "gauge", s->queries ? (double)s->hits / s->queries : 0);
	one(p, "trtllm_kv_cache_reused_blocks_total", "counter", s->hits / size);
	one(p, "trtllm_kv_cache_missed_blocks_total", "counter", (s->queries - s->hits) / size);
	one(p, "trtllm_kv_cache_max_blocks", "gauge", e->opt->blocks);
	one(p, "trtllm_kv_cache_tokens_per_block", "gauge", size);
}

static void own(struct page *p)
{
	struct stats *s = &p->c->engine->stats;

	one(p, "kv_engine_requests_total", "counter", s->requests);
	one(p, "kv_engine_questions_total", "counter", s->questions);
	one(p, "kv_engine_malformed_total", "counter", s->refused);
	one(p, "kv_engine_aborted_total", "counter", s->aborted);
	one(p, "kv_engine_accepted_total", "counter", s->accepted);
	one(p, "kv_engine_foreign_bytes", "counter", s->foreign_bytes);
	one(p, "kv_engine_connections", "gauge", s->connections);
	buf_printf(&p->b,
		   "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds %.2f\n",
		   p->c->engine->opt->started);
}

void metrics_request(struct conn *c)
{
	static void (*const pages[])(struct page * p) = {vllm, vllm_old, sglang, trtllm};
	int dialect = c->engine->opt->dialect;
	bool at_trtllm = slice_is(c->req.path, "/prometheus/metrics");
	struct page p = {.c = c};

	if (at_trtllm && dialect != METRICS_TRTLLM) {
		conn_error(c, 404, "no such path");
		return;
	}
	/* iteration statistics, of which it has none */
	if (!at_trtllm && dialect == METRICS_TRTLLM) {
		conn_answer(c, 200, "application/json", "[]", 2);
		return;
	}
	snprintf(p.labels, sizeof(p.labels),
		 dialect == METRICS_VLLM     ? "engine=\"0\",model_name=\"%s\""
		 : dialect == METRICS_SGLANG ? "dp_rank=\"0\",engine_type=\"unified\","
					       "model_name=\"%s\",tp_rank=\"0\""
					     : "model_name=\"%s\"",
		 c->engine->opt->model);
	pages[dialect](&p);
	own(&p);
	conn_answer(c, 200, TYPE, buf_head(&p.b), p.b.len);
	buf_free(&p.b);
}
