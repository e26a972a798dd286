// SPDX-License-Identifier: BSD-2-Clause
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/options.h"
#include "common/log.h"
#include "common/version.h"

static const char usage[] =
	"usage: kvsteerd -c FILE\n"
	"       kvsteerd --listen ADDR:PORT --backend ADDR:PORT [--backend ADDR:PORT ...] [OPTION "
	"...]\n"
	"\n"
	"The gateway's agent. Stays in the foreground, logs to stderr. SIGTERM drains.\n"
	"\n"
	"  -c, --config FILE      services, backends and limits from a YAML file\n"
	"      --listen ADDR:PORT where clients connect; [::1]:80 for IPv6, :80 for any address\n"
	"      --backend ADDR:PORT an inference server\n"
	"      --policy POLICY    price (default), sticky, ttft, p2c, least, hash, round-robin\n"
	"      --interface IF     attach to these interfaces and lo, not to those found from "
	"routes\n"
	"      --pin DIR          where the maps are pinned (" KV_DEFAULT_PIN ")\n"
	"      --control PATH     control socket (" KV_DEFAULT_CONTROL ")\n"
	"      --log LEVEL        error, warning, info (default), debug\n"
	"      --check-takeover   tells whether it could follow the agent that asks, and ends\n"
	"  -h, --help\n"
	"  -V, --version\n"
	"\n"
	"--listen, --backend and --interface may be repeated.\n";

enum {
	OPTION_LISTEN = 256,
	OPTION_BACKEND,
	OPTION_POLICY,
	OPTION_INTERFACE,
	OPTION_PIN,
	OPTION_CONTROL,
	OPTION_LOG,
	OPTION_CHECK,
};

static const struct option options[] = {
	{"config", required_argument, NULL, 'c'},
	{"listen", required_argument, NULL, OPTION_LISTEN},
	{"backend", required_argument, NULL, OPTION_BACKEND},
	{"policy", required_argument, NULL, OPTION_POLICY},
	{"interface", required_argument, NULL, OPTION_INTERFACE},
	{"pin", required_argument, NULL, OPTION_PIN},
	{"control", required_argument, NULL, OPTION_CONTROL},
	{"log", required_argument, NULL, OPTION_LOG},
	{"check-takeover", no_argument, NULL, OPTION_CHECK},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{},
};

static bool repeated(const char **list, size_t *n, const char *name)
{
	if (*n == OPTIONS_REPEAT) {
		kv_err("--%s: more than %d of them", name, OPTIONS_REPEAT);
		return false;
	}
	list[(*n)++] = optarg;
	return true;
}

/* Exit code, or -1 to go on. */
static int parse(int argc, char **argv, struct options *p)
{
	enum kv_log_level level;
	bool ok = true;
	int c;

	while (ok && (c = getopt_long(argc, argv, "c:hV", options, NULL)) != -1) {
		switch (c) {
		case 'c':
			p->file = optarg;
			break;
		case OPTION_LISTEN:
			ok = repeated(p->listens, &p->form.n_listens, "listen");
			break;
		case OPTION_BACKEND:
			ok = repeated(p->backends, &p->form.n_backends, "backend");
			break;
		case OPTION_INTERFACE:
			ok = repeated(p->interfaces, &p->form.n_interfaces, "interface");
			break;
		case OPTION_POLICY:
			p->form.policy = optarg;
			break;
		case OPTION_PIN:
			p->form.pin = optarg;
			break;
		case OPTION_CONTROL:
			p->form.control = optarg;
			break;
		case OPTION_LOG:
			if (kv_log_level_parse(optarg, &level)) {
				kv_err("--log %s: expected error, warning, info or debug", optarg);
				return EXIT_USAGE;
			}
			kv_log_set_level(level);
			break;
		case OPTION_CHECK:
			p->check = true;
			break;
		case 'h':
			fputs(usage, stdout);
			return 0;
		case 'V':
			printf("kvsteerd %s\n", kv_version);
			return 0;
		default:
			fputs("kvsteerd: try --help\n", stderr);
			return EXIT_USAGE;
		}
	}
	return ok ? -1 : EXIT_USAGE;
}

int options_parse(int argc, char **argv, struct options *p)
{
	bool form;
	int ret;

	memset(p, 0, sizeof(*p));
	ret = parse(argc, argv, p);
	if (ret >= 0)
		return ret;
	if (optind < argc) {
		kv_err("%s: unexpected argument: try --help", argv[optind]);
		return EXIT_USAGE;
	}
	form = p->form.n_listens || p->form.n_backends || p->form.n_interfaces || p->form.policy;
	if (p->file && (form || p->form.pin || p->form.control)) {
		kv_err("-c %s: everything else belongs into the file: leave the other options out",
		       p->file);
		return EXIT_USAGE;
	}
	if (!p->file && !(p->form.n_listens && p->form.n_backends)) {
		kv_err("neither -c FILE nor --listen and --backend given: try --help");
		return EXIT_USAGE;
	}
	p->form.listens = p->listens;
	p->form.backends = p->backends;
	p->form.interfaces = p->interfaces;
	return -1;
}

struct kv_config *options_config(const struct options *p)
{
	struct kv_config *config = NULL;
	char err[KV_CONFIG_ERROR_LEN];

	if (p->file ? kv_config_load(p->file, &config, err, sizeof(err))
		    : kv_config_from_options(&p->form, &config, err, sizeof(err))) {
		kv_err("%s", err);
		return NULL;
	}
	return config;
}
