// SPDX-License-Identifier: BSD-2-Clause
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load.h"

static const char usage[] =
	"usage: kv-load [OPTION…] --target ADDR:PORT [--target ADDR:PORT…]\n"
	"Sends requests one after another on each connection, checks every answer, prints JSON.\n"
	"\n"
	"  --connections N    (1), spread over the targets in turn\n"
	"  --seconds S        length of the measured window (3)\n"
	"  --requests N       stop after N requests instead; no warm-up\n"
	"  --warmup S         before the window (0.5) …\n"
	"  --warmup-requests N  … and at least N requests (0)\n"
	"  --timeout S        of one request (30)\n"
	"request\n"
	"  --method M         (POST with a body, else GET)\n"
	"  --path P           (/v1/chat/completions with a body, else /health)\n"
	"  --header 'K: V'    may be repeated\n"
	"  --body-file FILE   send this body\n"
	"  --prompt-bytes N   send chat requests with a prompt of N bytes …\n"
	"  --prompts K        … K distinct ones (1) …\n"
	"  --tail-bytes N     … each followed by a tail of its own (64)\n"
	"  --tails N          distinct tails made ahead (4096)\n"
	"  --seed N           of the tails (1)\n"
	"  --stream           ask for server-sent events, and check them\n"
	"  --max-tokens N     (1)\n"
	"  --chunked          send the body, or an empty one, chunked\n"
	"  --hint             send KV-Prefix, made ahead\n"
	"check\n"
	"  --expect-bytes N   length of every answer's body\n"
	"  --expect-events N  events of every stream, [DONE] included\n"
	"  --hash             XXH3-64 of every body: all must be equal\n"
	"measure\n"
	"  --watch PID        count CPU time of this process and its children; may be repeated\n";

enum {
	OPT_TARGET = 1,
	OPT_CONNECTIONS,
	OPT_SECONDS,
	OPT_REQUESTS,
	OPT_WARMUP,
	OPT_WARMUP_REQUESTS,
	OPT_TIMEOUT,
	OPT_METHOD,
	OPT_PATH,
	OPT_HEADER,
	OPT_BODY_FILE,
	OPT_PROMPT_BYTES,
	OPT_PROMPTS,
	OPT_TAIL_BYTES,
	OPT_TAILS,
	OPT_SEED,
	OPT_STREAM,
	OPT_MAX_TOKENS,
	OPT_CHUNKED,
	OPT_HINT,
	OPT_EXPECT_BYTES,
	OPT_EXPECT_EVENTS,
	OPT_HASH,
	OPT_WATCH,
	OPT_HELP,
};

static const struct option names[] = {
	{"target", required_argument, NULL, OPT_TARGET},
	{"connections", required_argument, NULL, OPT_CONNECTIONS},
	{"seconds", required_argument, NULL, OPT_SECONDS},
	{"requests", required_argument, NULL, OPT_REQUESTS},
	{"warmup", required_argument, NULL, OPT_WARMUP},
	{"warmup-requests", required_argument, NULL, OPT_WARMUP_REQUESTS},
	{"timeout", required_argument, NULL, OPT_TIMEOUT},
	{"method", required_argument, NULL, OPT_METHOD},
	{"path", required_argument, NULL, OPT_PATH},
	{"header", required_argument, NULL, OPT_HEADER},
	{"body-file", required_argument, NULL, OPT_BODY_FILE},
	{"prompt-bytes", required_argument, NULL, OPT_PROMPT_BYTES},
	{"prompts", required_argument, NULL, OPT_PROMPTS},
	{"tail-bytes", required_argument, NULL, OPT_TAIL_BYTES},
	{"tails", required_argument, NULL, OPT_TAILS},
	{"seed", required_argument, NULL, OPT_SEED},
	{"stream", no_argument, NULL, OPT_STREAM},
	{"max-tokens", required_argument, NULL, OPT_MAX_TOKENS},
	{"chunked", no_argument, NULL, OPT_CHUNKED},
	{"hint", no_argument, NULL, OPT_HINT},
	{"expect-bytes", required_argument, NULL, OPT_EXPECT_BYTES},
	{"expect-events", required_argument, NULL, OPT_EXPECT_EVENTS},
	{"hash", no_argument, NULL, OPT_HASH},
	{"watch", required_argument, NULL, OPT_WATCH},
	{"help", no_argument, NULL, OPT_HELP},
	{0},
};

/* ADDR:PORT or [ADDR]:PORT, numeric. */
static int add_target(struct load_options *o, const char *arg)
{
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
				 .ai_socktype = SOCK_STREAM};
	const char *colon = strrchr(arg, ':');
	struct addrinfo *found;
	char host[64];
	size_t len;

	if (!colon || o->n_targets == LOAD_MAX_TARGETS)
		return -EINVAL;
	len = colon - arg;
	if (len > 2 && arg[0] == '[' && arg[len - 1] == ']') {
		arg++;
		len -= 2;
	}
	if (len >= sizeof(host))
		return -EINVAL;
	memcpy(host, arg, len);
	host[len] = 0;
	if (getaddrinfo(host, colon + 1, &hints, &found))
		return -EINVAL;
	memcpy(&o->targets[o->n_targets++], found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return 0;
}

static int number(const char *arg, double most, double *ret)
{
	char *end;

	*ret = strtod(arg, &end);
	return end == arg || *end || !(*ret >= 0) || *ret > most ? -EINVAL : 0;
}

static int set_number(struct load_options *o, int opt, const char *arg)
{
	double v;
	int err = number(arg, opt == OPT_SEED || opt == OPT_EXPECT_BYTES ? 1e15 : 1e9, &v);

	if (err)
		return err;
	switch (opt) {
	case OPT_CONNECTIONS:
		o->connections = v;
		return v >= 1 && v <= 10000 ? 0 : -EINVAL;
	case OPT_SECONDS:
		o->seconds = v;
		return v > 0 ? 0 : -EINVAL;
	case OPT_REQUESTS:
		o->requests = v;
		return 0;
	case OPT_WARMUP:
		o->warmup = v;
		return 0;
	case OPT_WARMUP_REQUESTS:
		o->warmup_requests = v;
		return 0;
	case OPT_TIMEOUT:
		o->timeout = v;
		return v > 0 ? 0 : -EINVAL;
	case OPT_PROMPT_BYTES:
		o->prompt_bytes = v;
		return 0;
	case OPT_PROMPTS:
		o->prompts = v;
		return v >= 1 ? 0 : -EINVAL;
	case OPT_TAIL_BYTES:
		o->tail_bytes = v;
		return 0;
	case OPT_TAILS:
		o->tails = v;
		return v >= 1 && v <= 1e6 ? 0 : -EINVAL;
	case OPT_SEED:
		o->seed = v;
		return 0;
	case OPT_MAX_TOKENS:
		o->max_tokens = v;
		return 0;
	case OPT_EXPECT_BYTES:
		o->expect_bytes = v;
		return 0;
	case OPT_EXPECT_EVENTS:
		o->expect_events = v;
		return 0;
	default: /* OPT_WATCH */
		if (o->n_watch == LOAD_MAX_WATCHED)
			return -EINVAL;
		o->watch[o->n_watch++] = v;
		return 0;
	}
}

static int set(struct load_options *o, int opt, const char *arg)
{
	switch (opt) {
	case OPT_TARGET:
		return add_target(o, arg);
	case OPT_METHOD:
		o->method = arg;
		return 0;
	case OPT_PATH:
		o->path = arg;
		return 0;
	case OPT_HEADER:
		if (o->n_headers == LOAD_MAX_HEADERS || !strchr(arg, ':'))
			return -EINVAL;
		o->headers[o->n_headers++] = arg;
		return 0;
	case OPT_BODY_FILE:
		o->body_file = arg;
		return 0;
	case OPT_STREAM:
		o->stream = true;
		return 0;
	case OPT_CHUNKED:
		o->chunked = true;
		return 0;
	case OPT_HINT:
		o->hint = true;
		return 0;
	case OPT_HASH:
		o->hash = true;
		return 0;
	default:
		return set_number(o, opt, arg);
	}
}

int load_parse_options(int argc, char **argv, struct load_options *ret)
{
	struct load_options o = {
		.connections = 1,
		.seconds = 3,
		.warmup = 0.5,
		.timeout = 30,
		.prompts = 1,
		.tail_bytes = 64,
		.tails = 4096,
		.seed = 1,
		.max_tokens = 1,
	};
	int opt, index = 0;
	bool body;

	while ((opt = getopt_long(argc, argv, "", names, &index)) != -1) {
		if (opt == OPT_HELP) {
			fputs(usage, stdout);
			exit(0);
		}
		if (opt == '?')
			return -EINVAL;
		if (set(&o, opt, optarg)) {
			fprintf(stderr, "kv-load: --%s does not take '%s': see kv-load --help\n",
				names[index].name, optarg ? optarg : "");
			return -EINVAL;
		}
	}
	if (optind < argc || !o.n_targets) {
		fputs(usage, stderr);
		return -EINVAL;
	}
	body = o.body_file || o.prompt_bytes;
	if (o.body_file && o.prompt_bytes) {
		fputs("kv-load: --body-file and --prompt-bytes exclude each other\n", stderr);
		return -EINVAL;
	}
	if (o.hint && !body) {
		fputs("kv-load: --hint needs a body\n", stderr);
		return -EINVAL;
	}
	if (!o.method)
		o.method = body ? "POST" : "GET";
	if (!o.path)
		o.path = body ? "/v1/chat/completions" : "/health";
	*ret = o;
	return 0;
}
