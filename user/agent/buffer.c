// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/buffer.h"

static void charge(struct account *account, __u64 bytes)
{
	for (; account; account = account->above)
		account->used += bytes;
}

int buffer_reserve(struct buffer *b, size_t size, struct account *account)
{
	char *data;

	if (size <= b->size)
		return 0;
	data = realloc(b->data, size);
	if (!data)
		return -ENOMEM;
	charge(account, size - b->size);
	b->data = data;
	b->size = size;
	return 0;
}

int buffer_append(struct buffer *b, const void *data, size_t len, struct account *account)
{
	int err = buffer_reserve(b, b->len + len, account);

	if (err)
		return err;
	memcpy(b->data + b->len, data, len);
	b->len += len;
	return 0;
}

void buffer_consume(struct buffer *b, size_t n)
{
	b->len -= n;
	memmove(b->data, b->data + n, b->len);
}

void buffer_move(struct buffer *to, struct account *account, struct buffer *from,
		 struct account *former)
{
	charge(former, -from->size);
	charge(account, from->size);
	*to = *from;
	*from = (struct buffer){};
}

void buffer_free(struct buffer *b, struct account *account)
{
	charge(account, -b->size);
	free(b->data);
	*b = (struct buffer){};
}
