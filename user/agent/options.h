/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef AGENT_OPTIONS_H
#define AGENT_OPTIONS_H

#include "common/config.h"

#define EXIT_USAGE 2

/* The configuration; or NULL, and the code to exit with (help and version: 0). Prints. */
struct kv_config *options_read(int argc, char **argv, int *ret_exit);

#endif
