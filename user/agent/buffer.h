/* SPDX-License-Identifier: BSD-2-Clause */
/* Bytes held for a client; what is allocated is charged to its address, and so to the agent. */
#ifndef AGENT_BUFFER_H
#define AGENT_BUFFER_H

#include <stddef.h>

#include <linux/types.h>

/* Bytes allocated; those of a part are also those of the whole. */
struct account {
	__u64 used;
	struct account *above;
};

struct buffer {
	char *data;
	size_t len;
	size_t size;
};

/* Room for exactly size bytes in all, unless there is more already. */
int buffer_reserve(struct buffer *b, size_t size, struct account *account);
int buffer_append(struct buffer *b, const void *data, size_t len, struct account *account);
/* The first n bytes have been used. */
void buffer_consume(struct buffer *b, size_t n);
/* What from holds goes to the empty one, and to its account. */
void buffer_move(struct buffer *to, struct account *account, struct buffer *from,
		 struct account *former);
void buffer_free(struct buffer *b, struct account *account);

#endif
