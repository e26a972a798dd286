/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef KVSTEER_TESTS_IMPAIR_OPTIONS_H
#define KVSTEER_TESTS_IMPAIR_OPTIONS_H

#include "impair.h"

/* attach's options, argv after DEV and direction; prints what is wrong. */
int options_parse(int argc, char **argv, struct impair_config *ret_config);

#endif
