// SPDX-License-Identifier: BSD-2-Clause
/* kv-engine: options, listeners, the loop. */
#include <errno.h>
#include <event2/util.h>
#include <getopt.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "engine.h"
#include "events.h"

#define SWEEP_MS 100
#define ENGINES_MAX 256

static const char usage[] =
	"usage: kv-engine --listen ADDR:PORT [--listen ADDR:PORT ...] [options]\n"
	"An emulated inference engine, OpenAI-compatible; each --listen is one with its own "
	"cache.\n"
	"  --name NAME          name of the engine of the same place (first --name, first "
	"--listen)\n"
	"  --model NAME         model (emulated)\n"
	"  --also NAME          serves this name too (an adapter of the model)\n"
	"  --metrics DIALECT    vllm, vllm-old, sglang or trtllm (vllm)\n"
	"  --blocks N           blocks of the prefix cache (4096)\n"
	"  --block-size N       tokens per block (16)\n"
	"  --rate N             prefill tokens per second, 0: no time (0)\n"
	"  --decode-ms MS       time per generated token (0)\n"
	"  --keep-alive-s S     idle connections are closed after this, 0: never (5)\n"
	"  --instant            no cache, no JSON: answers at once, for benches\n"
	"  --log FILE           what happened, one JSON object a line\n"
	"  --raw DIR            bytes of every connection: NAME-CONNECTION.in and .out\n"
	"  --fault NAME=JSON    a fault from the start (see POST /fault)\n"
	"  --kv-events NAME=JSON\n"
	"                       publishes KV events: endpoint, replay_endpoint, topic, form (map,\n"
	"                       array, sglang, trtllm, sim, polled: none published, POST\n"
	"                       /kv_cache_events answers with them), replay (new, old), hashes "
	"(int,\n"
	"                       bytes), buffer_steps, dp_rank; faults on them: POST /events\n"
	"  --control ADDR:PORT  answers /fault?engine=NAME and /events?engine=NAME only\n"
	"Prints \"ready\" when all listen.\n";

struct engines engines = LIST_HEAD_INITIALIZER(engines);

static int fail(const char *what, const char *name, int err)
{
	fprintf(stderr, "kv-engine: %s %s%s%s\n", what, name, err ? ": " : "",
		err ? strerror(err) : "");
	return 1;
}

int engine_listen(struct engine *e)
{
	int one = 1, fd = socket(e->addr.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (e->addr.ss_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&e->addr, e->addr_len) || listen(fd, 4096)) {
		int err = errno;

		close(fd);
		return -err;
	}
	e->fd = fd;
	event_assign(&e->accept_ev, e->base, fd, EV_READ | EV_PERSIST, conn_accept, e);
	event_add(&e->accept_ev, NULL);
	return 0;
}

void engine_unlisten(struct engine *e)
{
	event_del(&e->accept_ev);
	close(e->fd);
	e->fd = -1;
}

static void sweep(evutil_socket_t fd, short what, void *arg)
{
	struct engine *e;

	(void)fd;
	(void)what;
	(void)arg;
	LIST_FOREACH(e, &engines, link)
	conn_sweep(e);
}

static void stop(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	event_base_loopbreak(arg);
}

static struct engine *engine_new(struct event_base *base, struct options *opt, const char *listen)
{
	struct engine *e = calloc(1, sizeof(*e));
	int len = sizeof(e->addr);

	if (!e)
		return NULL;
	e->base = base;
	e->opt = opt;
	e->fd = -1;
	e->cache = cache_new(opt->blocks);
	TAILQ_INIT(&e->queue);
	LIST_INIT(&e->conns);
	fault_clear(&e->fault);
	snprintf(e->listen, sizeof(e->listen), "%s", listen);
	if (!e->cache || evutil_parse_sockaddr_port(listen, (struct sockaddr *)&e->addr, &len)) {
		fail("not an address and port:", listen, 0);
		return NULL;
	}
	e->addr_len = len;
	LIST_INSERT_HEAD(&engines, e, link);
	return e;
}

/* NAME=JSON: the engine of that name, and the JSON. */
static struct engine *split(const char *text, const char **ret_json)
{
	const char *eq = strchr(text, '=');
	struct engine *e;

	if (!eq)
		return NULL;
	*ret_json = eq + 1;
	LIST_FOREACH(e, &engines, link)
	if (strlen(e->name) == (size_t)(eq - text) && !memcmp(e->name, text, eq - text))
		return e;
	return NULL;
}

typedef int set_fn(struct engine *e, const char *json, const char **ret_why);

static int set_fault(struct engine *e, const char *json, const char **ret_why)
{
	enum fault_now now;

	return fault_parse(json, strlen(json), &e->fault, &now, ret_why);
}

static int set_events(struct engine *e, const char *json, const char **ret_why)
{
	struct events_config config;
	int err = events_config(json, strlen(json), &config, ret_why);

	return err ? err : events_start(e, &config, ret_why);
}

static int set_each(const char *option, const char *const *list, int n, set_fn *set)
{
	for (int i = 0; i < n; i++) {
		const char *json, *why = "NAME=JSON with an engine's name is needed";
		struct engine *e = split(list[i], &json);

		if (!e || set(e, json, &why)) {
			fprintf(stderr, "kv-engine: %s: %s: %s\n", option, why, list[i]);
			return 1;
		}
	}
	return 0;
}

enum {
	O_MODEL = 256,
	O_BLOCKS,
	O_SIZE,
	O_RATE,
	O_DECODE,
	O_KEEP,
	O_INSTANT,
	O_LOG,
	O_RAW,
	O_FAULT,
	O_EVENTS,
	O_CONTROL,
	O_ALSO,
	O_METRICS
};

static const struct option longs[] = {
	{"listen", required_argument, NULL, 'l'},
	{"name", required_argument, NULL, 'n'},
	{"help", no_argument, NULL, 'h'},
	{"model", required_argument, NULL, O_MODEL},
	{"blocks", required_argument, NULL, O_BLOCKS},
	{"block-size", required_argument, NULL, O_SIZE},
	{"rate", required_argument, NULL, O_RATE},
	{"decode-ms", required_argument, NULL, O_DECODE},
	{"keep-alive-s", required_argument, NULL, O_KEEP},
	{"instant", no_argument, NULL, O_INSTANT},
	{"log", required_argument, NULL, O_LOG},
	{"raw", required_argument, NULL, O_RAW},
	{"fault", required_argument, NULL, O_FAULT},
	{"kv-events", required_argument, NULL, O_EVENTS},
	{"control", required_argument, NULL, O_CONTROL},
	{"also", required_argument, NULL, O_ALSO},
	{"metrics", required_argument, NULL, O_METRICS},
	{0},
};

struct lists {
	const char *listen[ENGINES_MAX], *name[ENGINES_MAX], *fault[ENGINES_MAX], *control;
	const char *events[ENGINES_MAX];
	int n_listen, n_name, n_fault, n_events;
};

static void add(const char **list, int *n)
{
	if (*n == ENGINES_MAX)
		exit(fail("too many:", optarg, 0));
	list[(*n)++] = optarg;
}

static int parse(int argc, char **argv, struct options *opt, struct lists *l)
{
	int o;

	while ((o = getopt_long(argc, argv, "l:n:h", longs, NULL)) != -1) {
		switch (o) {
		case 'l':
			add(l->listen, &l->n_listen);
			break;
		case 'n':
			add(l->name, &l->n_name);
			break;
		case 'h':
			fputs(usage, stdout);
			exit(0);
		case O_MODEL:
			opt->model = optarg;
			break;
		case O_ALSO:
			if (opt->n_also == MODELS_MAX)
				return fail("too many:", optarg, 0);
			opt->also[opt->n_also++] = optarg;
			break;
		case O_METRICS:
			opt->dialect = metrics_dialect(optarg);
			if (opt->dialect < 0)
				return fail("--metrics: no such dialect:", optarg, 0);
			break;
		case O_BLOCKS:
			opt->blocks = strtoul(optarg, NULL, 10);
			break;
		case O_SIZE:
			opt->block_size = strtoul(optarg, NULL, 10);
			break;
		case O_RATE:
			opt->rate = strtod(optarg, NULL);
			break;
		case O_DECODE:
			opt->decode_ms = strtod(optarg, NULL);
			break;
		case O_KEEP:
			opt->keep_alive_s = strtod(optarg, NULL);
			break;
		case O_INSTANT:
			opt->instant = true;
			break;
		case O_LOG:
			opt->log = fopen(optarg, "a");
			if (!opt->log)
				return fail("cannot write", optarg, errno);
			break;
		case O_RAW:
			opt->raw_dir = optarg;
			break;
		case O_FAULT:
			add(l->fault, &l->n_fault);
			break;
		case O_EVENTS:
			add(l->events, &l->n_events);
			break;
		case O_CONTROL:
			l->control = optarg;
			break;
		default:
			fputs(usage, stderr);
			return 2;
		}
	}
	if (optind < argc || !l->n_listen || !opt->blocks || !opt->block_size) {
		fputs(usage, stderr);
		return 2;
	}
	return 0;
}

static int start(struct event_base *base, struct options *opt, struct lists *l)
{
	struct engine *e;

	for (int i = 0; i < l->n_listen; i++) {
		e = engine_new(base, opt, l->listen[i]);
		if (!e)
			return 1;
		if (i < l->n_name)
			snprintf(e->name, sizeof(e->name), "%s", l->name[i]);
		else
			snprintf(e->name, sizeof(e->name), "e%d", i + 1);
	}
	if (set_each("--fault", l->fault, l->n_fault, set_fault) ||
	    set_each("--kv-events", l->events, l->n_events, set_events))
		return 1;
	if (l->control) {
		e = engine_new(base, opt, l->control);
		if (!e)
			return 1;
		strcpy(e->name, "control");
		e->control = true;
	}
	LIST_FOREACH(e, &engines, link)
	{
		int err = e->fault.refuse ? 0 : engine_listen(e);

		if (err)
			return fail("cannot listen on", e->listen, -err);
	}
	return 0;
}

static double wall_clock(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	struct options opt = {.model = "emulated",
			      .blocks = 4096,
			      .block_size = 16,
			      .max_model_len = 1048576,
			      .started = wall_clock(),
			      .keep_alive_s = 5};
	struct rlimit files = {1 << 16, 1 << 16};
	struct timeval every = {0, SWEEP_MS * 1000};
	struct event_config *cfg = event_config_new();
	struct event_base *base;
	struct event *tick, *term, *intr;
	struct lists l = {0};
	int err = parse(argc, argv, &opt, &l);

	if (err)
		return err;
	setrlimit(RLIMIT_NOFILE, &files);
	signal(SIGPIPE, SIG_IGN);
	/* decode intervals and prefills are shorter than epoll's millisecond */
	event_config_set_flag(cfg, EVENT_BASE_FLAG_PRECISE_TIMER);
	base = event_base_new_with_config(cfg);
	event_config_free(cfg);
	if (!base)
		return fail("no event loop", "", errno);
	err = start(base, &opt, &l);
	if (err)
		return err;
	tick = event_new(base, -1, EV_PERSIST, sweep, NULL);
	event_add(tick, &every);
	term = evsignal_new(base, SIGTERM, stop, base);
	intr = evsignal_new(base, SIGINT, stop, base);
	event_add(term, NULL);
	event_add(intr, NULL);
	puts("ready");
	fflush(stdout);
	event_base_dispatch(base);
	return 0;
}
