/* SPDX-License-Identifier: BSD-2-Clause */
/* Limits that were reached: which, how often, and what comes of it. */
#ifndef KVSTEER_CLI_REACHED_H
#define KVSTEER_CLI_REACHED_H

#include <stdio.h>

#include "view.h"

void reached_lines(const struct view *view, FILE *f);
/* A list, empty where none was. */
yyjson_mut_val *reached_json(yyjson_mut_doc *doc, const struct view *view);

#endif
