// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "events/cut.h"

enum {
	BEFORE, /* [ is to come */
	FIRST,	/* an element, or ] */
	NEXT,	/* an element */
	WITHIN, /* one */
	STRING, /* within one */
	BEHIND, /* one: a comma, or ] */
	WHOLE,
	BAD,
};

void kv_cut_init(struct kv_cut *c, size_t limit, void (*element)(void *ctx, char *text, size_t len),
		 void *ctx)
{
	*c = (struct kv_cut){.element = element, .ctx = ctx, .limit = limit};
}

void kv_cut_exit(struct kv_cut *c)
{
	free(c->text);
	c->text = NULL;
}

static void drop(struct kv_cut *c)
{
	free(c->text);
	c->text = NULL;
	c->len = c->capacity = 0;
}

static void keep(struct kv_cut *c, const char *data, size_t n)
{
	if (c->over)
		return;
	if (c->len + n > c->limit || c->len + n > c->capacity) {
		size_t capacity = 2 * (c->len + n);
		char *text = c->len + n > c->limit ? NULL : realloc(c->text, capacity);

		if (!text) {
			c->over = true;
			c->left_out++;
			drop(c);
			return;
		}
		c->text = text;
		c->capacity = capacity;
	}
	memcpy(c->text + c->len, data, n);
	c->len += n;
}

static void end_element(struct kv_cut *c)
{
	char *text = c->text;
	size_t len = c->len;

	c->text = NULL;
	c->len = c->capacity = 0;
	if (!c->over)
		c->element(c->ctx, text, len);
	c->over = false;
}

/* Within an element: what of the data belongs to it. */
static size_t within(struct kv_cut *c, const char *data, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char at = data[i];

		if (c->escaped) {
			c->escaped = false;
		} else if (c->state == STRING) {
			c->escaped = at == '\\';
			c->state = at == '"' ? WITHIN : STRING;
		} else if (at == '"') {
			c->state = STRING;
		} else if (at == '{' || at == '[') {
			c->depth++;
		} else if ((at == '}' || at == ']') && !--c->depth) {
			c->state = BEHIND;
			return i + 1;
		}
	}
	return n;
}

static void between(struct kv_cut *c, char at)
{
	if (at == ' ' || at == '\n' || at == '\r' || at == '\t')
		return;
	if (c->state == BEFORE && at == '[')
		c->state = FIRST;
	else if ((c->state == FIRST || c->state == BEHIND) && at == ']')
		c->state = WHOLE;
	else if (c->state == BEHIND && at == ',')
		c->state = NEXT;
	else if ((c->state == FIRST || c->state == NEXT) && at == '{')
		c->state = WITHIN;
	else
		c->state = BAD;
}

int kv_cut_feed(struct kv_cut *c, const char *data, size_t n)
{
	size_t some;

	for (; n && c->state != BAD; data += some, n -= some) {
		some = 1;
		if (c->state != WITHIN && c->state != STRING)
			between(c, *data);
		/* Its first bracket belongs to it. */
		if (c->state != WITHIN && c->state != STRING)
			continue;
		some = within(c, data, n);
		keep(c, data, some);
		if (c->state == BEHIND)
			end_element(c);
	}
	return c->state == BAD ? -EBADMSG : 0;
}

bool kv_cut_whole(const struct kv_cut *c)
{
	return c->state == WHOLE;
}
