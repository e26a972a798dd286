// SPDX-License-Identifier: BSD-2-Clause
/* What came of it: for programs, and for people. */
#include <math.h>

#include "common/cleanup.h"
#include "simulate.h"
#include "table.h"

static void add_slices(yyjson_mut_doc *doc, yyjson_mut_val *run, const struct simulate_order *o,
		       const struct sim_result *r)
{
	yyjson_mut_val *slices = yyjson_mut_obj_add_arr(doc, run, "slices");

	for (uint32_t i = 0; i < r->n_slices; i++) {
		const struct sim_slice *s = &r->slices[i];
		yyjson_mut_val *slice = yyjson_mut_arr_add_obj(doc, slices);

		yyjson_mut_obj_add_real(doc, slice, "at_s", i * o->options.slice_s);
		yyjson_mut_obj_add_uint(doc, slice, "requests", s->requests);
		yyjson_mut_obj_add_uint(doc, slice, "blocks", s->blocks);
		yyjson_mut_obj_add_uint(doc, slice, "hits", s->hits);
		yyjson_mut_obj_add_real(doc, slice, "ttft_mean_s",
					s->requests ? s->ttft_sum / s->requests : 0);
	}
}

int simulate_json(struct cli *cli, const struct simulate_order *o, const struct sim_result *results,
		  unsigned int n)
{
	_cleanup_json_mut_ yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *root = yyjson_mut_obj(doc), *runs = yyjson_mut_arr(doc);

	yyjson_mut_obj_add_str(doc, root, "trace", o->trace);
	yyjson_mut_obj_add_uint(doc, root, "backends", o->options.backends);
	yyjson_mut_obj_add_uint(doc, root, "blocks", o->options.blocks);
	yyjson_mut_obj_add_uint(doc, root, "block_tokens", o->options.block_tokens);
	yyjson_mut_obj_add_real(doc, root, "rate_tokens_per_s", o->options.rate);
	yyjson_mut_obj_add_val(doc, root, "runs", runs);
	for (unsigned int i = 0; i < n; i++) {
		const struct sim_result *r = &results[i];
		yyjson_mut_val *run = yyjson_mut_arr_add_obj(doc, runs);

		yyjson_mut_obj_add_str(doc, run, "policy", r->policy->name);
		yyjson_mut_obj_add_str(doc, run, "state", r->state);
		yyjson_mut_obj_add_real(doc, run, "speed", r->speed);
		yyjson_mut_obj_add_uint(doc, run, "requests", r->requests);
		yyjson_mut_obj_add_real(doc, run, "seconds", r->seconds);
		yyjson_mut_obj_add_real(doc, run, "hit_rate", r->hit_rate);
		yyjson_mut_obj_add_real(doc, run, "hit_ceiling", r->hit_ceiling);
		yyjson_mut_obj_add_real(doc, run, "ttft_mean_s", r->ttft_mean);
		yyjson_mut_obj_add_real(doc, run, "ttft_p50_s", r->ttft_p50);
		yyjson_mut_obj_add_real(doc, run, "ttft_p90_s", r->ttft_p90);
		yyjson_mut_obj_add_real(doc, run, "ttft_p99_s", r->ttft_p99);
		yyjson_mut_obj_add_real(doc, run, "busiest_over_mean", r->busiest_over_mean);
		yyjson_mut_obj_add_real(doc, run, "over", r->over);
		yyjson_mut_obj_add_real(doc, run, "under", r->under);
		yyjson_mut_obj_add_uint(doc, run, "dead", r->dead);
		yyjson_mut_obj_add_uint(doc, run, "retried", r->retried);
		yyjson_mut_obj_add_uint(doc, run, "failed", r->failed);
		yyjson_mut_obj_add_uint(doc, run, "diverted", r->diverted);
		yyjson_mut_obj_add_uint(doc, run, "moves", r->moves);
		yyjson_mut_obj_add_uint(doc, run, "affinity_down", r->doubts);
		yyjson_mut_obj_add_uint(doc, run, "affinity_back", r->backs);
		yyjson_mut_obj_add_real(doc, run, "decisions_per_s", round(r->decisions_per_s));
		if (o->options.slice_s > 0)
			add_slices(doc, run, o, r);
	}
	return cli_print(cli, doc, root);
}

#define COLUMNS                                                                                    \
	"POLICY STATE >SPEED >HITS >MEAN >P50 >P90 >P99 >BUSIEST >DIVERTED >MOVES >GONE >UNKNOWN"

/* Of one core's time, all runs together. */
static double decisions_per_s(const struct sim_result *results, unsigned int n)
{
	double decisions = 0, seconds = 0;

	for (unsigned int i = 0; i < n; i++) {
		if (results[i].decisions_per_s <= 0)
			continue;
		decisions += results[i].requests;
		seconds += results[i].requests / results[i].decisions_per_s;
	}
	return seconds > 0 ? decisions / seconds : 0;
}

static bool was_any_lost(const struct sim_result *results, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		if (results[i].retried || results[i].failed)
			return true;
	return false;
}

void simulate_table(const struct simulate_order *o, const struct sim_result *results,
		    unsigned int n)
{
	bool lost = was_any_lost(results, n);
	struct table t = {.columns = lost ? COLUMNS " >RETRIED >FAILED" : COLUMNS};

	printf("%s: %llu requests, %.1f%% of their blocks seen before.\n"
	       "%u backends, each with a cache of %u blocks of %u tokens, prefill of %.0f "
	       "tokens/s.\n\n",
	       o->trace, (unsigned long long)results->requests, 100 * results->hit_ceiling,
	       o->options.backends, o->options.blocks, o->options.block_tokens, o->options.rate);
	for (unsigned int i = 0; i < n; i++) {
		const struct sim_result *r = &results[i];

		table_add(&t, "%s", r->policy->name);
		table_add(&t, "%s", r->state);
		table_add(&t, "x%g", r->speed);
		table_add(&t, "%.1f%%", 100 * r->hit_rate);
		table_add(&t, "%.2fs", r->ttft_mean);
		table_add(&t, "%.2fs", r->ttft_p50);
		table_add(&t, "%.2fs", r->ttft_p90);
		table_add(&t, "%.2fs", r->ttft_p99);
		table_add(&t, "%.2f", r->busiest_over_mean);
		table_add(&t, "%llu", (unsigned long long)r->diverted);
		table_add(&t, "%llu", (unsigned long long)r->moves);
		table_add(&t, "%.2f%%", 100 * r->over);
		table_add(&t, "%.2f%%", 100 * r->under);
		if (!lost)
			continue;
		table_add(&t, "%llu", (unsigned long long)r->retried);
		table_add(&t, "%llu", (unsigned long long)r->failed);
	}
	table_print(&t, stdout, "");
	fputs("\nHITS: of all blocks. MEAN to P99: time to the first token. BUSIEST: most prefill "
	      "work over the mean.\nDIVERTED: sent where less was believed cached than elsewhere; "
	      "MOVES: and the conversation stays there.\nGONE: blocks believed cached that were "
	      "not; UNKNOWN: the other way round.\n",
	      stdout);
	if (lost)
		fputs("RETRIED: sent again, as their engine was gone before it answered; FAILED: "
		      "never answered.\n",
		      stdout);
	printf("%.2f million decisions per second of one core.\n",
	       decisions_per_s(results, n) / 1e6);
}
