/* SPDX-License-Identifier: BSD-2-Clause */
/* How services and backends are shown, by themselves and within each other. */
#ifndef KVSTEER_CLI_BACKEND_H
#define KVSTEER_CLI_BACKEND_H

#include <stdio.h>

#include "common/config_values.h"
#include "view.h"

yyjson_mut_val *service_json(yyjson_mut_doc *doc, const struct view *view, __u32 id);
void service_table(const struct view *view, FILE *f, const char *indent);

yyjson_mut_val *backend_json(yyjson_mut_doc *doc, const struct view *view, __u32 id);
/* service: its id, or KV_NONE for the backends of all. */
void backend_table(const struct view *view, __u32 service, FILE *f, const char *indent);

int backend_show(struct cli *cli, int argc, char **argv);

#endif
