/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The YAML text as a tree that knows lines: libcyaml loads values but tells neither where one
 * stood nor what was expected. Checked here by libcyaml's own schema, loaded there.
 */
#ifndef KVSTEER_CONFIG_TREE_H
#define KVSTEER_CONFIG_TREE_H

#include <cyaml/cyaml.h>
#include <stdbool.h>
#include <stddef.h>
#include <yaml.h>

struct kv_tree {
	const char *name; /* of the file, for messages */
	yaml_document_t document;
	bool loaded;
	bool *visited; /* by node */
	char *err;
	size_t errlen;
};

/* 0, -EINVAL with err written, or -ENOMEM. kv_tree_free in any case. */
int kv_tree_load(struct kv_tree *tree, const char *name, const char *text, size_t len, char *err,
		 size_t errlen);
void kv_tree_free(struct kv_tree *tree);

/* What a value of a key must look like, as text for messages. */
typedef const char *(*kv_tree_expected)(const char *key);

/* Unknown, repeated and missing keys; a mapping, list or single value where another is due. */
int kv_tree_check(struct kv_tree *tree, const cyaml_schema_value_t *schema,
		  kv_tree_expected expected);

/* "services[0].backends[2].rate": 1-based line of that value, or of the innermost thing on the way
 * to it that exists. */
size_t kv_tree_line(struct kv_tree *tree, const char *path);

/* A key at the top of the file, whatever its value: libcyaml does not tell an empty list from none.
 */
bool kv_tree_has(struct kv_tree *tree, const char *key);

/* Writes "name:line: path: message" to err and returns -EINVAL. */
int kv_tree_refuse(struct kv_tree *tree, const char *path, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The same where the line is known; line 0: none. */
int kv_tree_refuse_at(struct kv_tree *tree, size_t line, const char *path, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* Nodes: by libyaml's index; the value of a mapping's key, NULL if it has no such; a scalar's text.
 */
yaml_node_t *kv_tree_node(struct kv_tree *tree, int index);
yaml_node_t *kv_tree_child(struct kv_tree *tree, yaml_node_t *mapping, const char *key, size_t len);
const char *kv_tree_scalar(const yaml_node_t *node);

/* For messages: text in quotes, short, without control characters. */
char *kv_quote(const char *text, char *buf, size_t size);

#endif
