// SPDX-License-Identifier: BSD-2-Clause
/* Requests as RFC 9112 has them, read strictly: what is doubtful is refused. */
#ifndef ENGINE_HTTP_H
#define ENGINE_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HEAD_MAX 65536
#define BODY_MAX (256u << 20)

struct slice {
	const char *p;
	size_t n;
};

struct request {
	struct slice method, target, path, query;
	struct slice tag; /* X-Tag: a test's own name of the request, for the log */
	struct slice head;
	struct slice body;
	size_t head_len;
	uint64_t content_length;
	bool head_only, keep_alive, expect, chunked, has_length;
	bool follower; /* kvsteerd's own question, not a client's */
};

/* Returns 1 (head complete), 0 (more bytes needed) or a status code to refuse with, negated. */
int http_head(const char *p, size_t n, struct request *ret, const char **ret_why);

/* Decodes a chunked body in place, behind the head. */
struct chunks {
	size_t at;  /* next raw byte, from the head's start */
	size_t out; /* end of the decoded bytes, from the head's start */
	uint64_t left;
	int state;
};
int http_chunks(char *p, size_t n, struct chunks *c, const char **ret_why);

bool slice_is(struct slice s, const char *text);
/* Value of key in a query string, or an empty slice. */
struct slice query_get(struct slice query, const char *key);
uint64_t query_num(struct slice query, const char *key, uint64_t otherwise);

#endif
