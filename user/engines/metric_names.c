// SPDX-License-Identifier: BSD-2-Clause
/*
 * The names, as the engines' own collectors have them. Not here on purpose:
 * vllm:num_requests_waiting_by_reason (its parts are in num_requests_waiting already), *_created
 * (times), sglang:cache_hit_rate (of the last batch).
 */
#include "engines/metric_names.h"

#define V ENGINE_VLLM
#define S ENGINE_SGLANG
#define T ENGINE_TRTLLM
#define N ENGINE_TRITON
#define REQUESTS "nv_trt_llm_request_metrics"
#define BLOCKS "nv_trt_llm_kv_cache_block_metrics"

/* clang-format off */
const struct metric_name metric_names[] = {
	{"vllm:num_requests_running", V, METRIC_RUNNING, 0, JOIN_SUM, NULL, NULL},
	{"vllm:num_requests_waiting", V, METRIC_WAITING, 0, JOIN_SUM, NULL, NULL},
	{"vllm:kv_cache_usage_perc", V, METRIC_CACHE_USE, 0, JOIN_MAX, NULL, NULL},
	{"vllm:gpu_cache_usage_perc", V, METRIC_CACHE_USE, 1, JOIN_MAX, NULL, NULL},
	{"vllm:cache_config_info", V, METRIC_BLOCKS, 0, JOIN_INFO, "block_size", "num_gpu_blocks"},
	{"vllm:prefix_cache_queries_total", V, METRIC_QUERIES, 0, JOIN_SUM, NULL, NULL},
	{"vllm:gpu_prefix_cache_queries_total", V, METRIC_QUERIES, 1, JOIN_SUM, NULL, NULL},
	{"vllm:gpu_prefix_cache_queries", V, METRIC_QUERIES, 2, JOIN_SUM, NULL, NULL},
	{"vllm:prefix_cache_hits_total", V, METRIC_HITS, 0, JOIN_SUM, NULL, NULL},
	{"vllm:gpu_prefix_cache_hits_total", V, METRIC_HITS, 1, JOIN_SUM, NULL, NULL},
	{"vllm:gpu_prefix_cache_hits", V, METRIC_HITS, 2, JOIN_SUM, NULL, NULL},

	{"sglang:num_running_reqs", S, METRIC_RUNNING, 0, JOIN_RANKS, NULL, NULL},
	{"sglang:num_queue_reqs", S, METRIC_WAITING, 0, JOIN_RANKS, NULL, NULL},
	{"sglang:full_token_usage", S, METRIC_CACHE_USE, 0, JOIN_MAX, NULL, NULL},
	{"sglang:token_usage", S, METRIC_CACHE_USE, 1, JOIN_MAX, NULL, NULL},
	{"sglang:cache_config_info", S, METRIC_BLOCKS, 0, JOIN_INFO, "page_size", "num_pages"},
	{"sglang:max_total_num_tokens", S, METRIC_CAPACITY, 0, JOIN_RANKS, NULL, NULL},
	{"sglang:prompt_tokens_total", S, METRIC_QUERIES, 0, JOIN_SUM, NULL, NULL},
	{"sglang:cached_tokens_total", S, METRIC_HITS, 0, JOIN_SUM, NULL, NULL},

	{"trtllm_num_requests_running", T, METRIC_RUNNING, 0, JOIN_SUM, NULL, NULL},
	{"trtllm_num_requests_waiting", T, METRIC_WAITING, 0, JOIN_SUM, NULL, NULL},
	{"trtllm_kv_cache_utilization", T, METRIC_CACHE_USE, 0, JOIN_MAX, NULL, NULL},
	{"trtllm_kv_cache_tokens_per_block", T, METRIC_BLOCK_SIZE, 0, JOIN_MAX, NULL, NULL},
	{"trtllm_kv_cache_max_blocks", T, METRIC_BLOCKS, 0, JOIN_SUM, NULL, NULL},
	{"trtllm_kv_cache_reused_blocks_total", T, METRIC_HIT_BLOCKS, 0, JOIN_SUM, NULL, NULL},
	{"trtllm_kv_cache_missed_blocks_total", T, METRIC_MISSED_BLOCKS, 0, JOIN_SUM, NULL, NULL},

	{REQUESTS, N, METRIC_RUNNING, 0, JOIN_SUM, "request_type", "scheduled"},
	{REQUESTS, N, METRIC_WAITING, 0, JOIN_SUM, "request_type", "waiting"},
	{BLOCKS, N, METRIC_CACHE_USE, 0, JOIN_MAX, "kv_cache_block_type", "fraction"},
	{BLOCKS, N, METRIC_BLOCK_SIZE, 0, JOIN_MAX, "kv_cache_block_type", "tokens_per"},
	{BLOCKS, N, METRIC_BLOCKS, 0, JOIN_SUM, "kv_cache_block_type", "max"},

	/* Any process that exports by a Prometheus client library; not vLLM's with several API
	 * servers. */
	{"process_start_time_seconds", ENGINE_UNKNOWN, METRIC_STARTED, 0, JOIN_MAX, NULL, NULL},
};
/* clang-format on */

const unsigned int n_metric_names = sizeof(metric_names) / sizeof(*metric_names);
