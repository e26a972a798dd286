// SPDX-License-Identifier: BSD-2-Clause
#include "common/config_tree.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static yaml_node_t *root_of(struct kv_tree *tree)
{
	return yaml_document_get_root_node(&tree->document);
}

yaml_node_t *kv_tree_node(struct kv_tree *tree, int index)
{
	return yaml_document_get_node(&tree->document, index);
}

const char *kv_tree_scalar(const yaml_node_t *node)
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

yaml_node_t *kv_tree_child(struct kv_tree *tree, yaml_node_t *mapping, const char *key, size_t len)
{
	yaml_node_pair_t *pair = mapping->data.mapping.pairs.start;

	for (; pair < mapping->data.mapping.pairs.top; pair++) {
		yaml_node_t *name = kv_tree_node(tree, pair->key);

		if (name->type == YAML_SCALAR_NODE && name->data.scalar.length == len &&
		    !memcmp(name->data.scalar.value, key, len))
			return kv_tree_node(tree, pair->value);
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
			next = kv_tree_node(tree, items[i]);
			path = strchr(path, ']') + 1;
		} else {
			size_t len;

			path += *path == '.';
			len = strcspn(path, ".[");
			if (node->type != YAML_MAPPING_NODE)
				break;
			next = kv_tree_child(tree, node, path, len);
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
	return tree->loaded && kv_tree_child(tree, root_of(tree), key, strlen(key));
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

int kv_tree_refuse_at(struct kv_tree *tree, size_t line, const char *path, const char *format, ...)
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

/* ---- loading -------------------------------------------------------------------------- */

static int load(struct kv_tree *tree, yaml_parser_t *parser)
{
	yaml_document_t second;
	bool more;

	if (!yaml_parser_load(parser, &tree->document))
		goto syntax;
	tree->loaded = true;
	if (!root_of(tree))
		return kv_tree_refuse_at(tree, 0, "", "empty: expected at least \"services\"");
	if (!yaml_parser_load(parser, &second))
		goto syntax;
	more = yaml_document_get_root_node(&second);
	yaml_document_delete(&second);
	if (more)
		return kv_tree_refuse_at(tree, root_of(tree)->end_mark.line + 1, "",
					 "a second document begins: expected one");
	tree->visited = calloc(tree->document.nodes.top - tree->document.nodes.start,
			       sizeof(*tree->visited));
	return tree->visited ? 0 : -ENOMEM;
syntax:
	if (parser->error == YAML_MEMORY_ERROR)
		return -ENOMEM;
	/* Reader errors (bad UTF-8) have an offset and no mark. */
	if (parser->error == YAML_READER_ERROR)
		return kv_tree_refuse_at(tree, 0, "", "not YAML: %s at byte %zu", parser->problem,
					 parser->problem_offset);
	return kv_tree_refuse_at(tree, parser->problem_mark.line + 1, "", "not YAML: %s%s%s",
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
