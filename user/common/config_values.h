/* SPDX-License-Identifier: BSD-2-Clause */
/* Single values of the configuration: text to number and back. */
#ifndef KVSTEER_CONFIG_VALUES_H
#define KVSTEER_CONFIG_VALUES_H

#include <stddef.h>

#include <linux/types.h>

#define KV_VALUE_TEXT 32 /* room for any number with its unit */

/* Each returns 0, -EINVAL (not such a value) or -ERANGE (does not fit 64 bits). */
int kv_parse_count(const char *text, __u64 *ret);
int kv_parse_bytes(const char *text, __u64 *ret);    /* 1000, 64MiB, 2GB */
int kv_parse_duration(const char *text, __u64 *ret); /* 500ms, 60s, 5min, 2h → milliseconds */
int kv_parse_capacity(const char *text, __u64 *ret); /* 131072, or blocks x block size: 8192x16 */

/* The shortest exact text; returns buf. */
char *kv_format_count(__u64 n, char buf[KV_VALUE_TEXT]);
char *kv_format_bytes(__u64 bytes, char buf[KV_VALUE_TEXT]);
char *kv_format_duration(__u64 ms, char buf[KV_VALUE_TEXT]);

#endif
