// SPDX-License-Identifier: BSD-2-Clause
#include "common/config_tree.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TREE_PATH_LEN 160
#define TREE_QUOTE_LEN 64

static yaml_node_t *root_of(struct kv_tree *tree)
{
	return yaml_document_get_root_node(&tree->document);
}

static yaml_node_t *node_at(struct kv_tree *tree, int index)
{
	return yaml_document_get_node(&tree->document, index);
}

static const char *scalar(const yaml_node_t *node)
{
	return (const char *)node->data.scalar.value;
}

char *kv_quote(const char *text, char *buf, size_t size)
{
	size_t n = 0;

	buf[n++] = '"';
	for (; *text && n < size - 5; text++)
		buf[n++] = (unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text;
	if (*text) {
		memcpy(buf + n, "...", 3);
		n += 3;
	}
	buf[n++] = '"';
	buf[n] = 0;
	return buf;
}

/* ---- where things are ----------------------------------------------------------------- */

static yaml_node_t *child(struct kv_tree *tree, yaml_node_t *mapping, const char *key, size_t len)
{
	yaml_node_pair_t *pair = mapping->data.mapping.pairs.start;

	for (; pair < mapping->data.mapping.pairs.top; pair++) {
		yaml_node_t *name = node_at(tree, pair->key);

		if (name->type == YAML_SCALAR_NODE && name->data.scalar.length == len &&
		    !memcmp(name->data.scalar.value, key, len))
			return node_at(tree, pair->value);
	}
	return NULL;
}

size_t kv_tree_line(struct kv_tree *tree, const char *path)
{
	yaml_node_t *node = root_of(tree), *next;
	size_t line = node ? node->start_mark.line : 0;

	while (node && *path) {
		if (*path == '[') {
			long i = strtol(path + 1, NULL, 10);
			yaml_node_item_t *items = node->data.sequence.items.start;

			if (node->type != YAML_SEQUENCE_NODE ||
			    i >= node->data.sequence.items.top - items)
				break;
			next = node_at(tree, items[i]);
			path = strchr(path, ']') + 1;
		} else {
			size_t len;

			path += *path == '.';
			len = strcspn(path, ".[");
			if (node->type != YAML_MAPPING_NODE)
				break;
			next = child(tree, node, path, len);
			path += len;
		}
		node = next;
		if (node)
			line = node->start_mark.line;
	}
	return line + 1;
}

bool kv_tree_has(struct kv_tree *tree, const char *key)
{
	return tree->loaded && child(tree, root_of(tree), key, strlen(key));
}

static int refuse_line(struct kv_tree *tree, size_t line, const char *path, const char *format,
		       va_list args)
{
	int n;

	if (line)
		n = snprintf(tree->err, tree->errlen, "%s:%zu: ", tree->name, line);
	else
		n = snprintf(tree->err, tree->errlen, "%s: ", tree->name);
	if (*path && n >= 0 && (size_t)n < tree->errlen)
		n += snprintf(tree->err + n, tree->errlen - n, "%s: ", path);
	if (n >= 0 && (size_t)n < tree->errlen)
		vsnprintf(tree->err + n, tree->errlen - n, format, args);
	return -EINVAL;
}

static int __attribute__((format(printf, 4, 5)))
refuse_at(struct kv_tree *tree, size_t line, const char *path, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	refuse_line(tree, line, path, format, args);
	va_end(args);
	return -EINVAL;
}

int kv_tree_refuse(struct kv_tree *tree, const char *path, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	refuse_line(tree, tree->loaded ? kv_tree_line(tree, path) : 0, path, format, args);
	va_end(args);
	return -EINVAL;
}

/* ---- the schema ----------------------------------------------------------------------- */

static const char *found(const yaml_node_t *node, char buf[TREE_QUOTE_LEN])
{
	switch (node->type) {
	case YAML_MAPPING_NODE:
		return "a mapping";
	case YAML_SEQUENCE_NODE:
		return "a list";
	default:
		return *scalar(node) ? kv_quote(scalar(node), buf, TREE_QUOTE_LEN) : "nothing";
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
		return refuse_at(tree, node->start_mark.line + 1, path,
				 "anchors and aliases are not used in this file: expected the "
				 "value itself in each place");
	tree->visited[i] = true;
	return 0;
}

static int check_key(struct kv_tree *tree, yaml_node_t *mapping, yaml_node_pair_t *pair,
		     const cyaml_schema_field_t *fields, kv_tree_expected expected,
		     const char *path)
{
	yaml_node_t *name = node_at(tree, pair->key);
	char below[TREE_PATH_LEN], keys[256], quoted[TREE_QUOTE_LEN];
	const cyaml_schema_field_t *field;
	int err;

	err = check_once(tree, name, path);
	if (err)
		return err;
	if (name->type != YAML_SCALAR_NODE || name->data.scalar.length != strlen(scalar(name)))
		return refuse_at(tree, name->start_mark.line + 1, path,
				 "a key that is not a word: expected one of %s",
				 known_keys(fields, keys, sizeof(keys)));
	for (field = fields; field->key; field++)
		if (!strcmp(field->key, scalar(name)))
			break;
	if (!field->key)
		return refuse_at(tree, name->start_mark.line + 1, path,
				 "unknown key %s: expected one of %s",
				 kv_quote(scalar(name), quoted, sizeof(quoted)),
				 known_keys(fields, keys, sizeof(keys)));
	snprintf(below, sizeof(below), "%s%s%s", path, *path ? "." : "", field->key);
	if (child(tree, mapping, field->key, strlen(field->key)) != node_at(tree, pair->value))
		return refuse_at(tree, name->start_mark.line + 1, below,
				 "key given twice: expected it once");
	return check_value(tree, node_at(tree, pair->value), &field->value, expected, below,
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
		    !child(tree, node, field->key, strlen(field->key)))
			return refuse_at(tree, node->start_mark.line + 1, path,
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
	char below[TREE_PATH_LEN];
	int err;

	if (n < schema->sequence.min || n > schema->sequence.max)
		return refuse_at(tree, node->start_mark.line + 1, path,
				 "a list of %zu: expected %u to %u entries", n,
				 schema->sequence.min, schema->sequence.max);
	for (size_t i = 0; i < n; i++) {
		snprintf(below, sizeof(below), "%s[%zu]", path, i);
		err = check_value(tree, node_at(tree, items[i]), schema->sequence.entry, expected,
				  below, key);
		if (err)
			return err;
	}
	return 0;
}

static int check_value(struct kv_tree *tree, yaml_node_t *node, const cyaml_schema_value_t *schema,
		       kv_tree_expected expected, const char *path, const char *key)
{
	size_t line = node->start_mark.line + 1;
	char buf[TREE_QUOTE_LEN], keys[256];
	int err = check_once(tree, node, path);

	if (err)
		return err;
	switch (schema->type) {
	case CYAML_MAPPING:
		if (node->type != YAML_MAPPING_NODE)
			return refuse_at(tree, line, path, "found %s: expected keys and values: %s",
					 found(node, buf),
					 known_keys(schema->mapping.fields, keys, sizeof(keys)));
		return check_mapping(tree, node, schema, expected, path);
	case CYAML_SEQUENCE:
		if (node->type != YAML_SEQUENCE_NODE)
			return refuse_at(tree, line, path, "found %s: expected a list",
					 found(node, buf));
		return check_sequence(tree, node, schema, expected, path, key);
	default:
		if (node->type != YAML_SCALAR_NODE)
			return refuse_at(tree, line, path, "found %s: expected %s",
					 found(node, buf), expected(key));
		if (node->data.scalar.length != strlen(scalar(node)))
			return refuse_at(tree, line, path, "a NUL byte in it: expected %s",
					 expected(key));
		return 0;
	}
}

int kv_tree_check(struct kv_tree *tree, const cyaml_schema_value_t *schema,
		  kv_tree_expected expected)
{
	return check_value(tree, root_of(tree), schema, expected, "", "");
}

/* ---- loading -------------------------------------------------------------------------- */

static int load(struct kv_tree *tree, yaml_parser_t *parser)
{
	yaml_document_t second;
	bool more;

	if (!yaml_parser_load(parser, &tree->document))
		goto syntax;
	tree->loaded = true;
	if (!root_of(tree))
		return refuse_at(tree, 0, "", "empty: expected at least \"services\"");
	if (!yaml_parser_load(parser, &second))
		goto syntax;
	more = yaml_document_get_root_node(&second);
	yaml_document_delete(&second);
	if (more)
		return refuse_at(tree, root_of(tree)->end_mark.line + 1, "",
				 "a second document begins: expected one");
	tree->visited = calloc(tree->document.nodes.top - tree->document.nodes.start,
			       sizeof(*tree->visited));
	return tree->visited ? 0 : -ENOMEM;
syntax:
	if (parser->error == YAML_MEMORY_ERROR)
		return -ENOMEM;
	/* Reader errors (bad UTF-8) have an offset and no mark. */
	if (parser->error == YAML_READER_ERROR)
		return refuse_at(tree, 0, "", "not YAML: %s at byte %zu", parser->problem,
				 parser->problem_offset);
	return refuse_at(tree, parser->problem_mark.line + 1, "", "not YAML: %s%s%s",
			 parser->problem, parser->context ? ", " : "",
			 parser->context ? parser->context : "");
}

int kv_tree_load(struct kv_tree *tree, const char *name, const char *text, size_t len, char *err,
		 size_t errlen)
{
	yaml_parser_t parser;
	int ret;

	*tree = (struct kv_tree){.name = name, .err = err, .errlen = errlen};
	if (!yaml_parser_initialize(&parser))
		return -ENOMEM;
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
	ret = load(tree, &parser);
	yaml_parser_delete(&parser);
	return ret;
}

void kv_tree_free(struct kv_tree *tree)
{
	if (tree->loaded)
		yaml_document_delete(&tree->document);
	free(tree->visited);
}
