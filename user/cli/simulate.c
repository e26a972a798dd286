// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <libgen.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "common/cleanup.h"
#include "common/config.h"
#include "common/config_values.h"
#include "sim/plot.h"
#include "sim/sim.h"
#include "sim/workload.h"
#include "simulate_incidents.h"
#include "table.h"

#define RUNS_MAX 256
#define SPEEDS_MAX 64
#define CAPACITY_MAX (1ull << 36) /* tokens of a backend, as in the configuration */
#define BLOCKS_DEFAULT 2000
#define RATE_DEFAULT 16000
#define BACKENDS_DEFAULT 8
#define BLOCKS_MAX (1ull << 26) /* of all caches together: 3 GB of bookkeeping */

/* What is compared unless something else is asked for. */
#define POLICIES_DEFAULT "price,sticky,ttft,least,round-robin"

struct order {
	const char *trace; /* or the workload's name */
	const struct workload *workload;
	const char *plot;
	struct sim_options options;
	const struct sim_policy *policies[RUNS_MAX];
	double speeds[SPEEDS_MAX];
	unsigned int n_policies, n_speeds;
};

/* ---- options -------------------------------------------------------------------------- */

static int read_count(struct cli *cli, const char *option, const char *text, __u64 max,
		      uint32_t *ret)
{
	__u64 n;

	if (!text)
		return 0;
	if (kv_parse_count(text, &n) || !n || n > max)
		return cli_usage(cli, "%s: found \"%s\": expected a whole number from 1 to %llu",
				 option, text, (unsigned long long)max);
	*ret = n;
	return 0;
}

static int read_number(struct cli *cli, const char *option, const char *text, double min,
		       double max, const char *expected, double *ret)
{
	char *end;
	double x;

	if (!text)
		return 0;
	x = strtod(text, &end);
	if (end == text || *end || !(x >= min && x <= max))
		return cli_usage(cli, "%s: found \"%s\": expected %s", option, text, expected);
	*ret = x;
	return 0;
}

static int add_policy(struct cli *cli, struct order *o, const struct sim_policy *policy)
{
	for (unsigned int i = 0; i < o->n_policies; i++)
		if (o->policies[i] == policy)
			return cli_usage(cli, "--policy: \"%s\" stands there twice", policy->name);
	o->policies[o->n_policies++] = policy;
	return 0;
}

static int unknown_policy(struct cli *cli, const char *name)
{
	char names[512] = "all";

	for (const struct sim_policy *p = sim_policies; p->name; p++)
		snprintf(names + strlen(names), sizeof(names) - strlen(names), ", %s", p->name);
	return cli_usage(cli, "--policy: found \"%s\": expected one or more of %s", name, names);
}

static int read_policy(struct cli *cli, struct order *o, const char *name)
{
	const struct sim_policy *policy = sim_policy_find(name);
	int rc = 0;

	if (strcmp(name, "all"))
		return policy ? add_policy(cli, o, policy) : unknown_policy(cli, name);
	for (policy = sim_policies; policy->name && !rc; policy++)
		rc = add_policy(cli, o, policy);
	return rc;
}

static int read_workload(struct cli *cli, struct order *o, const char *name)
{
	char names[256] = "";

	o->workload = sim_workload_find(name);
	if (o->workload)
		return 0;
	for (const struct workload *w = sim_workloads; w->name; w++)
		snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s",
			 w == sim_workloads ? "" : ", ", w->name);
	return cli_usage(cli, "--workload: found \"%s\": expected one of %s", name, names);
}

static int read_speed(struct cli *cli, struct order *o, const char *word)
{
	if (o->n_speeds == SPEEDS_MAX)
		return cli_usage(cli, "--speed: more than %d", SPEEDS_MAX);
	return read_number(cli, "--speed", word, 1e-3, 1e6,
			   "factors from 0.001 to 1000000, separated by commas",
			   &o->speeds[o->n_speeds++]);
}

/* Words between commas, each read by itself. */
static int read_list(struct cli *cli, struct order *o, const char *text,
		     int (*read_word)(struct cli *cli, struct order *o, const char *word))
{
	_cleanup_free_ char *list = strdup(text);
	char *rest = list, *word;
	int rc = 0;

	if (!list)
		return cli_error(cli, "out of memory");
	while (!rc && (word = strsep(&rest, ",")))
		rc = read_word(cli, o, word);
	return rc;
}

static int check_sizes(struct cli *cli, const struct sim_options *s)
{
	if ((__u64)s->blocks * s->block_tokens > CAPACITY_MAX)
		return cli_usage(cli,
				 "caches of %u blocks of %u tokens: expected up to 2^36 tokens",
				 s->blocks, s->block_tokens);
	if ((__u64)s->blocks * s->backends > BLOCKS_MAX)
		return cli_usage(cli, "%u caches of %u blocks: expected up to 2^26 blocks in all",
				 s->backends, s->blocks);
	return 0;
}

static int read_affinity(struct cli *cli, const char *text, enum kv_affinity *ret)
{
	if (text && kv_affinity_parse(text, ret))
		return cli_usage(cli, "--affinity: found \"%s\": expected auto, full or off", text);
	return 0;
}

static int read_order(struct cli *cli, int argc, char **argv, struct order *o)
{
	const char *policy = POLICIES_DEFAULT, *speed = "1", *backends = NULL, *blocks = NULL;
	const char *block = NULL, *rate = NULL, *delay = NULL, *workload = NULL;
	const char *slice = NULL, *affinity = NULL, *warmup = NULL;
	struct incident_options incidents = {};
	bool learned = false;
	const struct cli_option options[] = {
		{"--workload", &workload, NULL},
		{"--policy", &policy, NULL},
		{"--speed", &speed, NULL},
		{"--backends", &backends, NULL},
		{"--blocks", &blocks, NULL},
		{"--block", &block, NULL},
		{"--rate", &rate, NULL},
		{"--metrics-delay", &delay, NULL},
		{"--plot", &o->plot, NULL},
		{"--events", NULL, &o->options.told},
		{"--learned", NULL, &learned},
		{"--slow", &incidents.slow, NULL},
		{"--restart", &incidents.restart, NULL},
		{"--agent-restart", &incidents.agent_restart, NULL},
		{"--no-cache", &incidents.no_cache, NULL},
		{"--affinity", &affinity, NULL},
		{"--slice", &slice, NULL},
		{"--warmup", &warmup, NULL},
		{"--learn-rates", NULL, &o->options.learn_rates},
		{"--no-sessions", NULL, &o->options.no_sessions},
		{0},
	};
	int rc = cli_arguments(cli, &argc, argv, options, 0, 1);

	if (!rc && workload)
		rc = read_workload(cli, o, workload);
	if (rc)
		return rc;
	if (!argc == !workload)
		return cli_usage(cli, "expected a trace or --workload NAME");
	o->trace = workload ?: argv[0];
	if (learned && o->options.told)
		return cli_usage(cli, "--events and --learned: expected one of them");
	rc = read_count(cli, "--backends", backends, KV_MAX_BACKENDS, &o->options.backends)
	     ?: read_count(cli, "--blocks", blocks, BLOCKS_MAX, &o->options.blocks)
	     ?: read_count(cli, "--block", block, 1 << 20, &o->options.block_tokens)
	     ?: read_number(cli, "--rate", rate, 1, 1e9, "tokens per second, from 1 to 1000000000",
			    &o->options.rate)
	     ?: read_number(cli, "--metrics-delay", delay, 0, 3600, "seconds from 0 to 3600",
			    &o->options.metrics_delay)
	     ?: read_number(cli, "--slice", slice, 1, 1e6, "seconds from 1 to 1000000",
			    &o->options.slice_s)
	     ?: read_number(cli, "--warmup", warmup, 0, 1e9, "seconds from 0 to 1000000000",
			    &o->options.warmup_s)
	     ?: read_affinity(cli, affinity, &o->options.affinity)
	     ?: simulate_incidents(cli, &incidents, &o->options.incidents)
	     ?: read_list(cli, o, speed, read_speed)
	     ?: read_list(cli, o, policy, read_policy);
	if (!rc && o->n_policies * o->n_speeds > RUNS_MAX)
		rc = cli_usage(cli, "%u runs: expected up to %d", o->n_policies * o->n_speeds,
			       RUNS_MAX);
	return rc;
}

/* ---- output --------------------------------------------------------------------------- */

static void add_slices(yyjson_mut_doc *doc, yyjson_mut_val *run, const struct order *o,
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

static int print_json(struct cli *cli, const struct order *o, const struct sim_result *results,
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

static void print_table(const struct order *o, const struct sim_result *results, unsigned int n)
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

/* ---- the verb ------------------------------------------------------------------------- */

struct all_runs {
	struct sim_run *run[RUNS_MAX];
	struct sim_result result[RUNS_MAX];
	unsigned int n;
};

static void free_runs(struct all_runs **all)
{
	for (unsigned int i = 0; *all && i < (*all)->n; i++)
		sim_run_free((*all)->run[i]);
	free(*all);
}

static void free_workload(struct workload_source **s)
{
	sim_workload_free(*s);
}

/* By speed, then by policy: what is to be compared stands together. */
static int prepare(struct cli *cli, const struct order *o, struct all_runs *all)
{
	for (unsigned int i = 0; i < o->n_speeds; i++) {
		for (unsigned int j = 0; j < o->n_policies; j++) {
			all->run[all->n] = sim_run_new(o->policies[j], o->speeds[i], &o->options);
			if (!all->run[all->n])
				return cli_error(cli, "out of memory");
			all->n++;
		}
	}
	return 0;
}

static uint64_t at_most(uint64_t n, uint64_t max)
{
	return n < max ? n : max;
}

/* What was not asked for is as the recording's own fleet was, or the default. */
static int fill_sizes(struct cli *cli, struct sim_options *s, const struct trace_reader *reader)
{
	static const struct trace_head none;
	const struct trace_head *head = reader ? trace_head(reader) : &none;

	if (!s->block_tokens)
		s->block_tokens = reader ? trace_block(reader) : TRACE_BLOCK_DEFAULT;
	if (!s->backends)
		s->backends = at_most(head->backends, KV_MAX_BACKENDS) ?: BACKENDS_DEFAULT;
	if (!s->blocks)
		s->blocks = at_most(head->cache_tokens / s->block_tokens, BLOCKS_MAX / s->backends)
				    ?: BLOCKS_DEFAULT;
	if (!s->rate)
		s->rate = head->rate ?: RATE_DEFAULT;
	return check_sizes(cli, s) ?: simulate_incidents_check(cli, &s->incidents, s->backends);
}

int do_simulate(struct cli *cli, int argc, char **argv)
{
	struct order o = {0};
	_cleanup_(free_runs) struct all_runs *all = calloc(1, sizeof(*all));
	_cleanup_(trace_cleanup) struct trace_reader *reader = NULL;
	_cleanup_(free_workload) struct workload_source *made = NULL;
	_cleanup_fclose_ FILE *plot = NULL;
	struct sim_source source;
	char err[TRACE_ERROR_LEN];
	int rc = all ? read_order(cli, argc, argv, &o) : cli_error(cli, "out of memory");

	if (rc)
		return rc;
	if (!o.workload && trace_open(o.trace, o.options.block_tokens, &reader, err))
		return cli_error(cli, "%s", err);
	rc = fill_sizes(cli, &o.options, reader);
	if (rc)
		return rc;
	if (o.workload)
		made = sim_workload_new(o.workload, o.options.block_tokens);
	if (!made && !reader)
		return cli_error(cli, "out of memory");
	if (o.plot && !(plot = fopen(o.plot, "we")))
		return cli_error(cli, "cannot write %s: %s", o.plot, strerror(errno));
	rc = prepare(cli, &o, all);
	if (rc)
		return rc;
	source = made ? (struct sim_source){sim_workload_next, made} : sim_source_of_trace(reader);
	rc = sim_pass(&source, &o.options, all->run, all->result, all->n, err);
	if (rc)
		return rc == -EINVAL ? cli_usage(cli, "%s", err) : cli_error(cli, "%s", err);
	if (!all->result->requests)
		return cli_usage(cli, "%s: expected at least one request", o.trace);
	if (plot && sim_plot(plot, basename((char *)o.trace), all->result, all->n))
		return cli_error(cli, "cannot write %s: %s", o.plot, strerror(errno));
	if (cli->json)
		return print_json(cli, &o, all->result, all->n);
	print_table(&o, all->result, all->n);
	return CLI_OK;
}
