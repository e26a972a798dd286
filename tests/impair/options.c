// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "options.h"

enum {
	SEED,
	LOSS,
	REORDER,
	DUPLICATE,
	CORRUPT,
	DELAY,
	JITTER,
	HOLD,
	CUT,
	ZERO_WINDOW,
	TCP_ONLY,
	SPARE_SYN
};

static const struct option longs[] = {
	{"seed", required_argument, NULL, SEED},
	{"loss", required_argument, NULL, LOSS},
	{"reorder", required_argument, NULL, REORDER},
	{"duplicate", required_argument, NULL, DUPLICATE},
	{"corrupt", required_argument, NULL, CORRUPT},
	{"delay-us", required_argument, NULL, DELAY},
	{"jitter-us", required_argument, NULL, JITTER},
	{"hold-us", required_argument, NULL, HOLD},
	{"cut", required_argument, NULL, CUT},
	{"zero-window", required_argument, NULL, ZERO_WINDOW},
	{"tcp-only", no_argument, NULL, TCP_ONLY},
	{"spare-syn", no_argument, NULL, SPARE_SYN},
	{},
};

static int bad(int which)
{
	fprintf(stderr, "kv-impair: --%s: cannot use \"%s\"\n", longs[which].name, optarg);
	return -EINVAL;
}

static int percent(int which, __u32 *ret_chance)
{
	char *end;
	double v = strtod(optarg, &end);

	if (end == optarg || *end || v < 0 || v > 100)
		return bad(which);
	*ret_chance = v / 100 * UINT32_MAX;
	return 0;
}

/* A number, or two that sep divides. */
static int numbers(int which, char sep, __u32 *ret_a, __u32 *ret_b)
{
	char *end;
	unsigned long a = strtoul(optarg, &end, 10), b = 0;

	if (end == optarg || *end != (ret_b ? sep : 0) || a > 1000000000)
		return bad(which);
	if (ret_b) {
		char *second = end + 1;

		b = strtoul(second, &end, 10);
		if (end == second || *end || b > 1000000000)
			return bad(which);
		*ret_b = b;
	}
	*ret_a = a;
	return 0;
}

static int one(int which, struct impair_config *c)
{
	switch (which) {
	case SEED:
		c->seed = strtoull(optarg, NULL, 0);
		return 0;
	case LOSS:
		return percent(which, &c->loss);
	case REORDER:
		return percent(which, &c->reorder);
	case DUPLICATE:
		return percent(which, &c->duplicate);
	case CORRUPT:
		return percent(which, &c->corrupt);
	case DELAY:
		return numbers(which, 0, &c->delay_us, NULL);
	case JITTER:
		return numbers(which, 0, &c->jitter_us, NULL);
	case HOLD:
		return numbers(which, 0, &c->hold_us, NULL);
	case CUT:
		if (numbers(which, '-', &c->cut_min, &c->cut_max))
			return -EINVAL;
		return c->cut_min && c->cut_min <= c->cut_max ? 0 : bad(which);
	case ZERO_WINDOW:
		return numbers(which, '/', &c->closed_ms, &c->open_ms);
	case TCP_ONLY:
		c->tcp_only = 1;
		return 0;
	case SPARE_SYN:
		c->spare_syn = 1;
		return 0;
	}
	return -EINVAL;
}

int options_parse(int argc, char **argv, struct impair_config *ret_config)
{
	struct impair_config c = {.seed = 1, .hold_us = 1000};
	int which;

	while ((which = getopt_long(argc, argv, "", longs, NULL)) != -1)
		if (one(which, &c))
			return -EINVAL;
	if (optind != argc) {
		fprintf(stderr, "kv-impair: what is \"%s\"?\n", argv[optind]);
		return -EINVAL;
	}
	*ret_config = c;
	return 0;
}
