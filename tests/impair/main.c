// SPDX-License-Identifier: BSD-2-Clause
/*
 * kv-impair: loss, reordering and the like on one interface, by a tc program (impair.bpf.c); this
 * kernel may have no netem, and netem knows neither cuts nor closed windows.
 *
 *	kv-impair attach DEV ingress|egress --seed N [OPTION…]
 *	kv-impair show DEV [-j]
 *	kv-impair detach DEV
 */
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "place.h"

static const char usage[] =
	"usage: kv-impair attach DEV ingress|egress --seed N [--loss %] [--reorder %]\n"
	"                 [--duplicate %] [--corrupt %] [--delay-us N] [--jitter-us N]\n"
	"                 [--hold-us N] [--cut MIN-MAX] [--zero-window MS/MS] [--tcp-only]\n"
	"                 [--spare-syn]\n"
	"       kv-impair show DEV [-j]\n"
	"       kv-impair detach DEV\n"
	"What is decided follows from the seed and the packet's number.\n"
	"--hold-us: a reordered packet is held for up to this long (1000).\n"
	"--zero-window: closed for so long, open for so long, in turn.\n"
	"--spare-syn: a lost SYN costs a second and more, beside which nothing else is seen.\n"
	"attach prints the pid of the process that holds packets, where one is needed.\n";

static const char *const kinds[IMPAIR_KINDS] = {
	"packets", "bytes",  "lost",	  "duplicated",	 "reordered", "delayed",
	"cut",	   "pieces", "corrupted", "zero_window", "carried",   "overflow",
};

static int attach(const char *device, int argc, char **argv)
{
	struct impair_config config;
	bool ingress = argc > 3 && !strcmp(argv[3], "ingress");

	if (argc < 4 || (!ingress && strcmp(argv[3], "egress"))) {
		fputs(usage, stderr);
		return -EINVAL;
	}
	argv[3] = argv[0];
	if (options_parse(argc - 3, argv + 3, &config))
		return -EINVAL;
	return place_attach(device, ingress, &config);
}

static int show(const char *device, bool json)
{
	const char *sep = "";

	if (json)
		printf("{");
	for (int ingress = 0; ingress < 2; ingress++) {
		struct impair_state s;

		if (place_state(device, ingress, &s))
			continue;
		printf(json ? "%s\"%s\":{" : "%s%s:", sep, ingress ? "ingress" : "egress");
		for (int i = 0; i < IMPAIR_KINDS; i++)
			printf(json ? "%s\"%s\":%llu" : "%s %s %llu", i ? "," : "", kinds[i],
			       (unsigned long long)s.counts[i]);
		printf(json ? "}" : "\n");
		sep = json ? "," : "";
	}
	if (json)
		printf("}\n");
	return 0;
}

int main(int argc, char **argv)
{
	int err;

	if (argc < 3) {
		fputs(usage, stderr);
		return 2;
	}
	if (!strcmp(argv[1], "attach")) {
		err = attach(argv[2], argc, argv);
	} else if (!strcmp(argv[1], "show")) {
		err = show(argv[2], argc > 3 && !strcmp(argv[3], "-j"));
	} else if (!strcmp(argv[1], "detach")) {
		place_detach(argv[2], false);
		place_detach(argv[2], true);
		err = 0;
	} else {
		fputs(usage, stderr);
		return 2;
	}
	return err ? 1 : 0;
}
