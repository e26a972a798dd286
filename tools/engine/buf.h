// SPDX-License-Identifier: BSD-2-Clause
/* A growing byte buffer that is consumed from the front. */
#ifndef ENGINE_BUF_H
#define ENGINE_BUF_H

#include <stdarg.h>
#include <stddef.h>

struct buf {
	char *data;
	size_t off; /* first live byte */
	size_t len; /* live bytes */
	size_t cap;
};

/* Room for n more bytes behind the live ones. Out of memory ends the process: it is a test tool. */
char *buf_room(struct buf *b, size_t n);
void buf_add(struct buf *b, const void *data, size_t n);
void buf_str(struct buf *b, const char *s);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* s as the inside of a JSON string */
void buf_json(struct buf *b, const char *s, size_t n);
void buf_drop(struct buf *b, size_t n);
void buf_free(struct buf *b);

static inline char *buf_head(const struct buf *b)
{
	return b->data + b->off;
}

#endif
