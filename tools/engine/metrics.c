// SPDX-License-Identifier: BSD-2-Clause
/* GET /metrics: Prometheus text under vLLM's names; the engine's own ones begin kv_engine. */
#include "engine.h"

static void one(struct conn *c, struct buf *b, const char *name, const char *type, double value)
{
	buf_printf(b, "# TYPE %s %s\n%s{engine=\"0\",model_name=\"%s\"} %.17g\n", name, type, name,
		   c->engine->opt->model, value);
}

void metrics_request(struct conn *c)
{
	struct engine *e = c->engine;
	struct stats *s = &e->stats;
	struct buf b = {0};

	one(c, &b, "vllm:num_requests_running", "gauge", s->running);
	one(c, &b, "vllm:num_requests_waiting", "gauge", s->waiting);
	one(c, &b, "vllm:kv_cache_usage_perc", "gauge",
	    (double)cache_used(e->cache) / e->opt->blocks);
	one(c, &b, "vllm:prefix_cache_queries_total", "counter", s->queries);
	one(c, &b, "vllm:prefix_cache_hits_total", "counter", s->hits);
	one(c, &b, "vllm:prompt_tokens_total", "counter", s->prompt_tokens);
	one(c, &b, "vllm:generation_tokens_total", "counter", s->generation_tokens);
	one(c, &b, "vllm:num_preemptions_total", "counter", 0);
	buf_printf(&b,
		   "# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{block_size=\"%u\","
		   "enable_prefix_caching=\"True\",engine=\"0\",num_gpu_blocks=\"%u\"} 1\n",
		   e->opt->block_size, e->opt->blocks);
	buf_str(&b, "# TYPE vllm:time_to_first_token_seconds histogram\n");
	buf_printf(&b,
		   "vllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"+Inf\","
		   "model_name=\"%s\"} %llu\n"
		   "vllm:time_to_first_token_seconds_count{engine=\"0\",model_name=\"%s\"} %llu\n"
		   "vllm:time_to_first_token_seconds_sum{engine=\"0\",model_name=\"%s\"} %.9g\n",
		   e->opt->model, (unsigned long long)s->ttft_count, e->opt->model,
		   (unsigned long long)s->ttft_count, e->opt->model, s->ttft_sum);
	one(c, &b, "kv_engine_requests_total", "counter", s->requests);
	one(c, &b, "kv_engine_malformed_total", "counter", s->refused);
	one(c, &b, "kv_engine_aborted_total", "counter", s->aborted);
	one(c, &b, "kv_engine_accepted_total", "counter", s->accepted);
	one(c, &b, "kv_engine_foreign_bytes", "counter", s->foreign_bytes);
	one(c, &b, "kv_engine_connections", "gauge", s->connections);
	conn_answer(c, 200, "text/plain; version=0.0.4; charset=utf-8", buf_head(&b), b.len);
	buf_free(&b);
}
