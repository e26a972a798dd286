// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "common/cleanup.h"
#include "sim/plot.h"
#include "simulate.h"
#include "simulate_incidents.h"

#define CAPACITY_MAX (1ull << 36) /* tokens of a backend, as in the configuration */
#define BLOCKS_DEFAULT 2000
#define RATE_DEFAULT 16000
#define BACKENDS_DEFAULT 8

struct all_runs {
	struct sim_run *run[SIMULATE_RUNS_MAX];
	struct sim_result result[SIMULATE_RUNS_MAX];
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
static int prepare(struct cli *cli, const struct simulate_order *o, struct all_runs *all)
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

static int check_sizes(struct cli *cli, const struct sim_options *s)
{
	if ((__u64)s->blocks * s->block_tokens > CAPACITY_MAX)
		return cli_usage(cli,
				 "caches of %u blocks of %u tokens: expected up to 2^36 tokens",
				 s->blocks, s->block_tokens);
	if ((__u64)s->blocks * s->backends > SIMULATE_BLOCKS_MAX)
		return cli_usage(cli, "%u caches of %u blocks: expected up to 2^26 blocks in all",
				 s->backends, s->blocks);
	return 0;
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
		s->blocks = at_most(head->cache_tokens / s->block_tokens,
				    SIMULATE_BLOCKS_MAX / s->backends)
				    ?: BLOCKS_DEFAULT;
	if (!s->rate)
		s->rate = head->rate ?: RATE_DEFAULT;
	return check_sizes(cli, s) ?: simulate_incidents_check(cli, &s->incidents, s->backends);
}

int do_simulate(struct cli *cli, int argc, char **argv)
{
	struct simulate_order o = {0};
	_cleanup_(free_runs) struct all_runs *all = calloc(1, sizeof(*all));
	_cleanup_(trace_cleanup) struct trace_reader *reader = NULL;
	_cleanup_(free_workload) struct workload_source *made = NULL;
	_cleanup_fclose_ FILE *plot = NULL;
	struct sim_source source;
	char err[TRACE_ERROR_LEN];
	int rc = all ? simulate_options(cli, argc, argv, &o) : cli_error(cli, "out of memory");

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
		return simulate_json(cli, &o, all->result, all->n);
	simulate_table(&o, all->result, all->n);
	return CLI_OK;
}
