/* SPDX-License-Identifier: BSD-2-Clause */
/* Prompts on stdin, for hash and prefix lookup. */
#ifndef KVSTEER_CLI_HASH_H
#define KVSTEER_CLI_HASH_H

#include <kvsteer.h>

#include "cli.h"

struct hash_options {
	const char *from; /* what data came from; NULL: stdin */
	const char *path;
	const char *block;
	const char *model;
	const char *lora;
	const char *salt;
	const char *tenant;
	bool tokens;
};

/* Rows of an option table: the members of a struct hash_options called o. */
/* clang-format off */
#define HASH_OPTIONS(o)                                                                            \
	{"--path", &(o).path, NULL},                                                               \
	{"--block", &(o).block, NULL},                                                             \
	{"--model", &(o).model, NULL},                                                             \
	{"--lora", &(o).lora, NULL},                                                               \
	{"--salt", &(o).salt, NULL},                                                               \
	{"--tenant", &(o).tenant, NULL},                                                           \
	{"--tokens", NULL, &(o).tokens}
/* clang-format on */

/* 0, or an exit code after the error was told. */
int hash_prompt(struct cli *cli, const struct hash_options *o, const char *data, size_t len,
		struct kvsteer_prompt *ret);

#endif
