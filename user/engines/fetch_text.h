/* SPDX-License-Identifier: BSD-2-Clause */
/* The body of an answer, put together as it comes. */
#ifndef ENGINES_FETCH_TEXT_H
#define ENGINES_FETCH_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct fetch_text {
	char *p; /* NULL: nothing */
	size_t len, size;
};

/* For fetch_request.data: false: no memory, and what has come stays. */
static inline bool fetch_text_add(struct fetch_text *t, const char *data, size_t n)
{
	if (t->len + n > t->size) {
		size_t size = 2 * t->size + n;
		char *grown = realloc(t->p, size);

		if (!grown)
			return false;
		t->p = grown;
		t->size = size;
	}
	memcpy(t->p + t->len, data, n);
	t->len += n;
	return true;
}

static inline void fetch_text_free(struct fetch_text *t)
{
	free(t->p);
	*t = (struct fetch_text){NULL, 0, 0};
}

#endif
