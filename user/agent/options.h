/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AGENT_OPTIONS_H
#define AGENT_OPTIONS_H

#include "common/config.h"

#define EXIT_USAGE 2

#define OPTIONS_REPEAT KV_MAX_BACKENDS

struct options {
	const char *file;
	const char *listens[OPTIONS_REPEAT];
	const char *backends[OPTIONS_REPEAT];
	const char *interfaces[OPTIONS_REPEAT];
	struct kv_config_options form;
	bool check; /* --check-takeover */
};

/* The code to exit with (help and version: 0), or -1 to go on. Prints. */
int options_parse(int argc, char **argv, struct options *ret);
/* The configuration that they say or name; NULL: a mistake, which has been told. */
struct kv_config *options_config(const struct options *options);

#endif
