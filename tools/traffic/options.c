// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <event2/util.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "traffic.h"

static const char usage[] =
	"usage: kv-traffic [OPTION…] ADDR:PORT [ADDR:PORT…]\n"
	"Requests of all kinds to kv-engine's /tagged; checks every byte of every answer.\n"
	"Ranges are A-B, taken evenly over the orders of magnitude; all chance follows from "
	"--seed.\n"
	"\n"
	"  -n, --requests N       in all (1000, or no limit with -d)\n"
	"  -d, --seconds S        for so long\n"
	"  -c, --connections N    at once (32)\n"
	"      --seed N           1 to 1048575 (1)\n"
	"      --rate R           requests a second in all (as fast as it goes)\n"
	"      --timeout S        an answer that takes longer is hung (60)\n"
	"requests\n"
	"      --request-bytes A-B  (0-4096)\n"
	"      --answer-bytes A-B   (0-65536)\n"
	"      --framing LIST     of length,chunked,sse,close (all)\n"
	"      --hinted PERCENT   carry KV-Prefix (50); the others are the agent's\n"
	"      --groups N         different prefixes (64)\n"
	"      --path-prefix P    in front of /tagged/…; then all are the kernel's but chunked "
	"ones\n"
	"      --delay-us A-B     between pieces of the answer (0-0)\n"
	"      --first-us A-B     before its head (0-0)\n"
	"      --early PERCENT    are answered before their body has come (0)\n"
	"      --twice PERCENT    get a second answer behind the first: only with a gateway "
	"between (0)\n"
	"connections\n"
	"      --keep-alive N     mean requests of a connection (20)\n"
	"      --pipeline PERCENT of requests are followed by the next before their answer is "
	"whole (0)\n"
	"      --abort PERCENT    give up at some moment, half by FIN, half by RST (0)\n"
	"      --half-close PERCENT  close their side behind the request (0)\n"
	"      --slow PERCENT     of connections read 100 KB/s (0)\n"
	"      --source ADDR,…    this side's addresses\n"
	"      --ports A-B        this side's ports, bound again at once "
	"(net.ipv4.tcp_tw_reuse=1)\n"
	"result\n"
	"  -j, --json             on one line\n"
	"  -v, --verbose          say of every broken, refused or hung request what it was\n"
	"  -x, --expect-all       broken, refused or unconnected requests are a failure too\n"
	"Exit code 1 when an answer or a request was foreign or wrong, or hung.\n";

enum {
	OPT_SEED = 256,
	OPT_RATE,
	OPT_TIMEOUT,
	OPT_REQUEST_BYTES,
	OPT_ANSWER_BYTES,
	OPT_FRAMING,
	OPT_HINTED,
	OPT_GROUPS,
	OPT_PATH_PREFIX,
	OPT_DELAY,
	OPT_FIRST,
	OPT_EARLY,
	OPT_TWICE,
	OPT_KEEP_ALIVE,
	OPT_PIPELINE,
	OPT_ABORT,
	OPT_HALF_CLOSE,
	OPT_SLOW,
	OPT_SOURCE,
	OPT_PORTS,
};

static const struct option names[] = {
	{"requests", required_argument, NULL, 'n'},
	{"seconds", required_argument, NULL, 'd'},
	{"connections", required_argument, NULL, 'c'},
	{"seed", required_argument, NULL, OPT_SEED},
	{"rate", required_argument, NULL, OPT_RATE},
	{"timeout", required_argument, NULL, OPT_TIMEOUT},
	{"request-bytes", required_argument, NULL, OPT_REQUEST_BYTES},
	{"answer-bytes", required_argument, NULL, OPT_ANSWER_BYTES},
	{"framing", required_argument, NULL, OPT_FRAMING},
	{"hinted", required_argument, NULL, OPT_HINTED},
	{"groups", required_argument, NULL, OPT_GROUPS},
	{"path-prefix", required_argument, NULL, OPT_PATH_PREFIX},
	{"delay-us", required_argument, NULL, OPT_DELAY},
	{"first-us", required_argument, NULL, OPT_FIRST},
	{"early", required_argument, NULL, OPT_EARLY},
	{"twice", required_argument, NULL, OPT_TWICE},
	{"keep-alive", required_argument, NULL, OPT_KEEP_ALIVE},
	{"pipeline", required_argument, NULL, OPT_PIPELINE},
	{"abort", required_argument, NULL, OPT_ABORT},
	{"half-close", required_argument, NULL, OPT_HALF_CLOSE},
	{"slow", required_argument, NULL, OPT_SLOW},
	{"source", required_argument, NULL, OPT_SOURCE},
	{"ports", required_argument, NULL, OPT_PORTS},
	{"json", no_argument, NULL, 'j'},
	{"verbose", no_argument, NULL, 'v'},
	{"expect-all", no_argument, NULL, 'x'},
	{"help", no_argument, NULL, 'h'},
	{0},
};

static int add_address(struct sockaddr_storage *list, unsigned int *n, unsigned int most,
		       const char *text, bool port)
{
	struct sockaddr *a = (struct sockaddr *)&list[*n];
	int len = sizeof(*list);
	bool has_port;

	if (*n == most || evutil_parse_sockaddr_port(text, a, &len))
		return -EINVAL;
	has_port = a->sa_family == AF_INET6 ? ((struct sockaddr_in6 *)a)->sin6_port != 0
					    : ((struct sockaddr_in *)a)->sin_port != 0;
	if (port != has_port)
		return -EINVAL;
	(*n)++;
	return 0;
}

static int set_sources(struct traffic_options *o, char *list)
{
	char *save, *one;
	int err = 0;

	for (one = strtok_r(list, ",", &save); one && !err; one = strtok_r(NULL, ",", &save))
		err = add_address(o->sources, &o->n_sources, TRAFFIC_MAX_SOURCES, one, false);
	return err;
}

static int set_framings(struct traffic_options *o, char *list)
{
	char *save, *one;
	int f;

	memset(o->framings, 0, sizeof(o->framings));
	for (one = strtok_r(list, ",", &save); one; one = strtok_r(NULL, ",", &save)) {
		for (f = 0; f < TAGGED_FRAMINGS && strcmp(one, tagged_framing_names[f]); f++)
			;
		if (f == TAGGED_FRAMINGS)
			return -EINVAL;
		o->framings[f] = true;
	}
	return 0;
}

static int set_range(struct traffic_range *ret, const char *text, uint64_t most)
{
	char *end;

	ret->from = ret->to = strtoull(text, &end, 10);
	if (end != text && *end == '-') {
		text = end + 1;
		ret->to = strtoull(text, &end, 10);
	}
	return end == text || *end || ret->from > ret->to || ret->to > most ? -EINVAL : 0;
}

static int set_number(double *ret, const char *text, double least, double most)
{
	char *end;

	*ret = strtod(text, &end);
	return end == text || *end || !(*ret >= least && *ret <= most) ? -EINVAL : 0;
}

static int set_count(struct traffic_options *o, int opt, const char *text)
{
	double v = 0;
	int err;

	err = set_number(&v, text, 1, opt == 'n' ? 2e8 : opt == OPT_SEED ? 0xfffff : 60000);
	if (opt == 'n')
		o->requests = v;
	else if (opt == 'c')
		o->connections = v;
	else if (opt == OPT_SEED)
		o->seed = v;
	else
		o->groups = v;
	return err;
}

static int set(struct traffic_options *o, int opt, char *arg)
{
	switch (opt) {
	case 'n':
	case 'c':
	case OPT_SEED:
	case OPT_GROUPS:
		return set_count(o, opt, arg);
	case 'd':
		return set_number(&o->seconds, arg, 0.01, 1e6);
	case OPT_RATE:
		return set_number(&o->rate, arg, 0.01, 1e6);
	case OPT_TIMEOUT:
		return set_number(&o->timeout, arg, 0.01, 1e6);
	case OPT_KEEP_ALIVE:
		return set_number(&o->keep_alive, arg, 1, 1e6);
	case OPT_REQUEST_BYTES:
		return set_range(&o->request_bytes, arg, 64 << 20);
	case OPT_ANSWER_BYTES:
		return set_range(&o->answer_bytes, arg, 1 << 30);
	case OPT_DELAY:
		return set_range(&o->delay_us, arg, 1 << 30);
	case OPT_FIRST:
		return set_range(&o->first_us, arg, 1 << 30);
	case OPT_PORTS:
		return set_range(&o->ports, arg, 65535) || !o->ports.from ? -EINVAL : 0;
	case OPT_FRAMING:
		return set_framings(o, arg);
	case OPT_SOURCE:
		return set_sources(o, arg);
	case OPT_PATH_PREFIX:
		o->path_prefix = arg;
		return *arg == '/' && strlen(arg) < 1024 ? 0 : -EINVAL;
	case OPT_HINTED:
		return set_number(&o->hinted, arg, 0, 100);
	case OPT_EARLY:
		return set_number(&o->early, arg, 0, 100);
	case OPT_TWICE:
		return set_number(&o->twice, arg, 0, 100);
	case OPT_PIPELINE:
		return set_number(&o->pipelined, arg, 0, 100);
	case OPT_ABORT:
		return set_number(&o->aborted, arg, 0, 100);
	case OPT_HALF_CLOSE:
		return set_number(&o->half_closed, arg, 0, 100);
	case OPT_SLOW:
		return set_number(&o->slow, arg, 0, 100);
	case 'j':
		o->json = true;
		return 0;
	case 'v':
		o->verbose = true;
		return 0;
	default: /* 'x' */
		o->expect_all = true;
		return 0;
	}
}

int traffic_parse_options(int argc, char **argv, struct traffic_options *ret)
{
	struct traffic_options o = {
		.connections = 32,
		.seed = 1,
		.request_bytes = {0, 4096},
		.answer_bytes = {0, 65536},
		.framings = {true, true, true, true},
		.hinted = 50,
		.groups = 64,
		.keep_alive = 20,
		.timeout = 60,
	};
	int opt;

	while ((opt = getopt_long(argc, argv, "n:d:c:jvxh", names, NULL)) != -1) {
		if (opt == 'h') {
			fputs(usage, stdout);
			exit(0);
		}
		if (opt == '?')
			return -EINVAL;
		if (set(&o, opt, optarg)) {
			fprintf(stderr,
				"kv-traffic: '%s' is not a value of its option: see --help\n",
				optarg);
			return -EINVAL;
		}
	}
	for (; optind < argc; optind++) {
		if (add_address(o.targets, &o.n_targets, TRAFFIC_MAX_TARGETS, argv[optind], true)) {
			fprintf(stderr, "kv-traffic: not an address and port: %s\n", argv[optind]);
			return -EINVAL;
		}
	}
	if (!o.n_targets) {
		fputs(usage, stderr);
		return -EINVAL;
	}
	if (!o.requests && !o.seconds)
		o.requests = 1000;
	*ret = o;
	return 0;
}
