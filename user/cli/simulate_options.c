// SPDX-License-Identifier: BSD-2-Clause
/* What `kvsteer simulate` is asked for. */
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/config.h"
#include "common/config_values.h"
#include "simulate.h"
#include "simulate_incidents.h"

/* What is compared unless something else is asked for. */
#define POLICIES_DEFAULT "price,sticky,ttft,least,round-robin"

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

static int add_policy(struct cli *cli, struct simulate_order *o, const struct sim_policy *policy)
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

static int read_policy(struct cli *cli, struct simulate_order *o, const char *name)
{
	const struct sim_policy *policy = sim_policy_find(name);
	int rc = 0;

	if (strcmp(name, "all"))
		return policy ? add_policy(cli, o, policy) : unknown_policy(cli, name);
	for (policy = sim_policies; policy->name && !rc; policy++)
		rc = add_policy(cli, o, policy);
	return rc;
}

static int read_workload(struct cli *cli, struct simulate_order *o, const char *name)
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

static int read_speed(struct cli *cli, struct simulate_order *o, const char *word)
{
	if (o->n_speeds == SIMULATE_SPEEDS_MAX)
		return cli_usage(cli, "--speed: more than %d", SIMULATE_SPEEDS_MAX);
	return read_number(cli, "--speed", word, 1e-3, 1e6,
			   "factors from 0.001 to 1000000, separated by commas",
			   &o->speeds[o->n_speeds++]);
}

/* Words between commas, each read by itself. */
static int read_list(struct cli *cli, struct simulate_order *o, const char *text,
		     int (*read_word)(struct cli *cli, struct simulate_order *o, const char *word))
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

static int read_affinity(struct cli *cli, const char *text, enum kv_affinity *ret)
{
	if (text && kv_affinity_parse(text, ret))
		return cli_usage(cli, "--affinity: found \"%s\": expected auto, full or off", text);
	return 0;
}

int simulate_options(struct cli *cli, int argc, char **argv, struct simulate_order *o)
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
	     ?: read_count(cli, "--blocks", blocks, SIMULATE_BLOCKS_MAX, &o->options.blocks)
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
	if (!rc && o->n_policies * o->n_speeds > SIMULATE_RUNS_MAX)
		rc = cli_usage(cli, "%u runs: expected up to %d", o->n_policies * o->n_speeds,
			       SIMULATE_RUNS_MAX);
	return rc;
}
