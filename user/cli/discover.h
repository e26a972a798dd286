/* SPDX-License-Identifier: BSD-2-Clause */
/* Services whose engines a DNS name stands for, and whether it does. */
#ifndef KVSTEER_CLI_DISCOVER_H
#define KVSTEER_CLI_DISCOVER_H

#include <stdio.h>
#include <yyjson.h>

#include "view.h"

/* service: its id, or KV_NONE for all; begin: written before the first line, if there is one. */
void discover_lines(const struct view *view, __u32 service, FILE *f, const char *begin);
/* Adds to list, if this service's engines are found so. */
void discover_add_json(yyjson_mut_doc *doc, yyjson_mut_val *list, const struct view *view,
		       __u32 service);

#endif
