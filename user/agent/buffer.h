/* SPDX-License-Identifier: BSD-2-Clause */
/* Bytes held for a client; what is allocated is charged to one sum, limits.memory's. */
#ifndef AGENT_BUFFER_H
#define AGENT_BUFFER_H

#include <stddef.h>

#include <linux/types.h>

struct buffer {
	char *data;
	size_t len;
	size_t size;
};

/* Room for exactly size bytes in all, unless there is more already. */
int buffer_reserve(struct buffer *b, size_t size, __u64 *charged);
int buffer_append(struct buffer *b, const void *data, size_t len, __u64 *charged);
/* The first n bytes have been used. */
void buffer_consume(struct buffer *b, size_t n);
void buffer_free(struct buffer *b, __u64 *charged);

#endif
