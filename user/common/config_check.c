// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/config_tree.h"

#define CHECK_PATH_LEN 160
#define CHECK_QUOTE_LEN 64

static const char *found(const yaml_node_t *node, char buf[CHECK_QUOTE_LEN])
{
	switch (node->type) {
	case YAML_MAPPING_NODE:
		return "a mapping";
	case YAML_SEQUENCE_NODE:
		return "a list";
	default:
		return *kv_tree_scalar(node) ? kv_quote(kv_tree_scalar(node), buf, CHECK_QUOTE_LEN)
					     : "nothing";
	}
}

static const char *known_keys(const cyaml_schema_field_t *fields, char *buf, size_t size)
{
	size_t n = 0;

	buf[0] = 0;
	for (; fields->key && n < size; fields++)
		n += snprintf(buf + n, size - n, "%s%s", n ? ", " : "", fields->key);
	return buf;
}

static int check_value(struct kv_tree *tree, yaml_node_t *node, const cyaml_schema_value_t *schema,
		       kv_tree_expected expected, const char *path, const char *key);

/* The tree has one node for an anchor and all its aliases: nothing here needs them, and they
 * would let a small text stand for a huge one. */
static int check_once(struct kv_tree *tree, const yaml_node_t *node, const char *path)
{
	size_t i = node - tree->document.nodes.start;

	if (tree->visited[i])
		return kv_tree_refuse_at(
			tree, node->start_mark.line + 1, path,
			"anchors and aliases are not used in this file: expected the "
			"value itself in each place");
	tree->visited[i] = true;
	return 0;
}

static int check_key(struct kv_tree *tree, yaml_node_t *mapping, yaml_node_pair_t *pair,
		     const cyaml_schema_field_t *fields, kv_tree_expected expected,
		     const char *path)
{
	yaml_node_t *name = kv_tree_node(tree, pair->key);
	char below[CHECK_PATH_LEN], keys[256], quoted[CHECK_QUOTE_LEN];
	const cyaml_schema_field_t *field;
	int err;

	err = check_once(tree, name, path);
	if (err)
		return err;
	if (name->type != YAML_SCALAR_NODE ||
	    name->data.scalar.length != strlen(kv_tree_scalar(name)))
		return kv_tree_refuse_at(tree, name->start_mark.line + 1, path,
					 "a key that is not a word: expected one of %s",
					 known_keys(fields, keys, sizeof(keys)));
	for (field = fields; field->key; field++)
		if (!strcmp(field->key, kv_tree_scalar(name)))
			break;
	if (!field->key)
		return kv_tree_refuse_at(tree, name->start_mark.line + 1, path,
					 "unknown key %s: expected one of %s",
					 kv_quote(kv_tree_scalar(name), quoted, sizeof(quoted)),
					 known_keys(fields, keys, sizeof(keys)));
	snprintf(below, sizeof(below), "%s%s%s", path, *path ? "." : "", field->key);
	if (kv_tree_child(tree, mapping, field->key, strlen(field->key)) !=
	    kv_tree_node(tree, pair->value))
		return kv_tree_refuse_at(tree, name->start_mark.line + 1, below,
					 "key given twice: expected it once");
	return check_value(tree, kv_tree_node(tree, pair->value), &field->value, expected, below,
			   field->key);
}

static int check_mapping(struct kv_tree *tree, yaml_node_t *node,
			 const cyaml_schema_value_t *schema, kv_tree_expected expected,
			 const char *path)
{
	const cyaml_schema_field_t *field = schema->mapping.fields;
	yaml_node_pair_t *pair = node->data.mapping.pairs.start;
	int err;

	for (; pair < node->data.mapping.pairs.top; pair++) {
		err = check_key(tree, node, pair, field, expected, path);
		if (err)
			return err;
	}
	for (; field->key; field++)
		if (!(field->value.flags & CYAML_FLAG_OPTIONAL) &&
		    !kv_tree_child(tree, node, field->key, strlen(field->key)))
			return kv_tree_refuse_at(tree, node->start_mark.line + 1, path,
						 "key \"%s\" is missing: expected %s", field->key,
						 expected(field->key));
	return 0;
}

static int check_sequence(struct kv_tree *tree, yaml_node_t *node,
			  const cyaml_schema_value_t *schema, kv_tree_expected expected,
			  const char *path, const char *key)
{
	yaml_node_item_t *items = node->data.sequence.items.start;
	size_t n = node->data.sequence.items.top - items;
	char below[CHECK_PATH_LEN];
	int err;

	if (n < schema->sequence.min || n > schema->sequence.max)
		return kv_tree_refuse_at(tree, node->start_mark.line + 1, path,
					 "a list of %zu: expected %u to %u entries", n,
					 schema->sequence.min, schema->sequence.max);
	for (size_t i = 0; i < n; i++) {
		snprintf(below, sizeof(below), "%s[%zu]", path, i);
		err = check_value(tree, kv_tree_node(tree, items[i]), schema->sequence.entry,
				  expected, below, key);
		if (err)
			return err;
	}
	return 0;
}

static int check_value(struct kv_tree *tree, yaml_node_t *node, const cyaml_schema_value_t *schema,
		       kv_tree_expected expected, const char *path, const char *key)
{
	size_t line = node->start_mark.line + 1;
	char buf[CHECK_QUOTE_LEN], keys[256];
	int err = check_once(tree, node, path);

	if (err)
		return err;
	switch (schema->type) {
	case CYAML_MAPPING:
		if (node->type != YAML_MAPPING_NODE)
			return kv_tree_refuse_at(
				tree, line, path, "found %s: expected keys and values: %s",
				found(node, buf),
				known_keys(schema->mapping.fields, keys, sizeof(keys)));
		return check_mapping(tree, node, schema, expected, path);
	case CYAML_SEQUENCE:
		if (node->type != YAML_SEQUENCE_NODE)
			return kv_tree_refuse_at(tree, line, path, "found %s: expected a list",
						 found(node, buf));
		return check_sequence(tree, node, schema, expected, path, key);
	default:
		if (node->type != YAML_SCALAR_NODE)
			return kv_tree_refuse_at(tree, line, path, "found %s: expected %s",
						 found(node, buf), expected(key));
		if (node->data.scalar.length != strlen(kv_tree_scalar(node)))
			return kv_tree_refuse_at(tree, line, path, "a NUL byte in it: expected %s",
						 expected(key));
		return 0;
	}
}

int kv_tree_check(struct kv_tree *tree, const cyaml_schema_value_t *schema,
		  kv_tree_expected expected)
{
	return check_value(tree, yaml_document_get_root_node(&tree->document), schema, expected, "",
			   "");
}
