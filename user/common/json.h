/* SPDX-License-Identifier: BSD-2-Clause */
/* Few helpers on yyjson's mutable documents. */
#ifndef KVSTEER_JSON_H
#define KVSTEER_JSON_H

#include <stdio.h>
#include <yyjson.h>

#include <linux/types.h>

/* One document, one line, to f. -ENOMEM or -EIO. */
int kv_json_print(FILE *f, const yyjson_mut_doc *doc);
/* The same as text with its newline, to be freed; NULL: no memory. */
char *kv_json_line(const yyjson_mut_doc *doc, size_t *ret_len);
/* 64-bit hashes are text: a double cannot hold them. */
void kv_json_add_hex(yyjson_mut_doc *doc, yyjson_mut_val *obj, const char *key, __u64 value);

#endif
