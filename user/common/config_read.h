/* SPDX-License-Identifier: BSD-2-Clause */
/* From the raw text of values to a checked struct kv_config. */
#ifndef KVSTEER_CONFIG_READ_H
#define KVSTEER_CONFIG_READ_H

#include "common/config.h"
#include "common/config_schema.h"
#include "common/config_tree.h"

/* What a value of a key must look like. */
struct kv_config_rule {
	const char *key;
	int (*parse)(const char *text, __u64 *ret); /* NULL: not a number */
	__u64 min;
	__u64 max;
	const char *expected;
};

/* NULL: there is no such key. */
const struct kv_config_rule *kv_config_rule(const char *key);
const char *kv_config_expected(const char *key);
/* Of a service or a backend. */
bool kv_config_name_ok(const char *name);
/* The last word of a path, without its index. */
void kv_config_key(const char *path, char *key, size_t size);

/* Fills config, which is all zero, with defaults and raw's values; 0, -EINVAL with the tree's err
 * written, or -ENOMEM. A tree that is not loaded stands for the command line: messages then name
 * options. */
int kv_config_read(struct kv_config *config, const struct kv_raw_config *raw, struct kv_tree *tree);

/* What no single value can tell: duplicates, listeners that exclude each other, sums. */
int kv_config_verify(const struct kv_config *config, struct kv_tree *tree);

/* As kv_tree_refuse; on the command line path becomes the option. */
int kv_config_refuse(struct kv_tree *tree, const char *path, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
