// SPDX-License-Identifier: BSD-2-Clause
#include "engines/expose.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_SIZE 16384

static bool room(struct expose *e, size_t more)
{
	size_t size = e->size ? e->size : FIRST_SIZE;
	char *grown;

	while (size < e->len + more + 1)
		size *= 2;
	if (size == e->size)
		return !e->failed;
	grown = e->failed ? NULL : realloc(e->text, size);
	if (!grown) {
		e->failed = true;
		return false;
	}
	e->text = grown;
	e->size = size;
	return true;
}

static void add(struct expose *e, const char *text, size_t len)
{
	if (!room(e, len))
		return;
	memcpy(e->text + e->len, text, len);
	e->len += len;
	e->text[e->len] = 0;
}

static void add_text(struct expose *e, const char *text)
{
	add(e, text, strlen(text));
}

/* Escapes of label values; of help texts without the quote. */
static void add_escaped(struct expose *e, const char *text, bool quoted)
{
	for (; *text; text++) {
		if (*text == '\n')
			add(e, "\\n", 2);
		else if (*text == '\\' || (quoted && *text == '"'))
			add(e, (char[]){'\\', *text}, 2);
		else
			add(e, text, 1);
	}
}

static void add_labels(struct expose *e, struct expose_labels labels)
{
	const char *before = "{";

	for (size_t i = 0; i < labels.n; i++) {
		if (!labels.labels[i].value)
			continue;
		add_text(e, before);
		add_text(e, labels.labels[i].name);
		add_text(e, "=\"");
		add_escaped(e, labels.labels[i].value, true);
		add_text(e, "\"");
		before = ",";
	}
	if (*before == ',')
		add_text(e, "}");
}

void expose_family(struct expose *e, const char *name, const char *type, const char *help)
{
	add_text(e, "# HELP ");
	add_text(e, name);
	add_text(e, " ");
	add_escaped(e, help, false);
	add_text(e, "\n# TYPE ");
	add_text(e, name);
	add_text(e, " ");
	add_text(e, type);
	add_text(e, "\n");
}

static void sample(struct expose *e, const char *name, struct expose_labels labels,
		   const char *value)
{
	add_text(e, name);
	add_labels(e, labels);
	add_text(e, " ");
	add_text(e, value);
	add_text(e, "\n");
}

void expose_count(struct expose *e, const char *name, struct expose_labels labels, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	sample(e, name, labels, text);
}

void expose_number(struct expose *e, const char *name, struct expose_labels labels, double value)
{
	char text[32];

	snprintf(text, sizeof(text), "%.9g", value);
	sample(e, name, labels, text);
}
