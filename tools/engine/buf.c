// SPDX-License-Identifier: BSD-2-Clause
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"

char *buf_room(struct buf *b, size_t n)
{
	if (b->off && b->off + b->len + n > b->cap) {
		memmove(b->data, b->data + b->off, b->len);
		b->off = 0;
	}
	if (b->len + n > b->cap) {
		size_t cap = b->cap ? b->cap : 4096;

		while (cap < b->len + n)
			cap *= 2;
		b->data = realloc(b->data, cap);
		if (!b->data) {
			fprintf(stderr, "kv-engine: out of memory (%zu bytes)\n", cap);
			exit(1);
		}
		b->cap = cap;
	}
	return b->data + b->off + b->len;
}

void buf_add(struct buf *b, const void *data, size_t n)
{
	if (!n)
		return;
	memcpy(buf_room(b, n), data, n);
	b->len += n;
}

void buf_str(struct buf *b, const char *s)
{
	buf_add(b, s, strlen(s));
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	size_t room = 512;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(buf_room(b, room), room, fmt, ap);
	va_end(ap);
	if (n >= (int)room) {
		va_start(ap, fmt);
		vsnprintf(buf_room(b, n + 1), n + 1, fmt, ap);
		va_end(ap);
	}
	b->len += n;
}

void buf_json(struct buf *b, const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		unsigned char c = s[i];

		if (c == '"' || c == '\\') {
			char esc[2] = {'\\', c};

			buf_add(b, esc, 2);
		} else if (c < 0x20) {
			buf_printf(b, "\\u%04x", c);
		} else {
			buf_add(b, &c, 1);
		}
	}
}

void buf_drop(struct buf *b, size_t n)
{
	b->off += n;
	b->len -= n;
	if (!b->len)
		b->off = 0;
}

void buf_free(struct buf *b)
{
	free(b->data);
	memset(b, 0, sizeof(*b));
}
