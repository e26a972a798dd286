/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One GET or POST to an engine: a connection of its own, a time for all of it, a limit of bytes.
 * Never more than that, whatever the other side sends or does not send.
 */
#ifndef ENGINES_FETCH_H
#define ENGINES_FETCH_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/addr.h"

enum fetch_result {
	FETCH_ANSWERED,	   /* a whole answer, of whatever status */
	FETCH_REFUSED,	   /* nobody listens */
	FETCH_UNREACHABLE, /* no route, or the host says so */
	FETCH_TIMEOUT,
	FETCH_BROKEN,  /* the connection ended before its answer did */
	FETCH_GARBAGE, /* not HTTP */
	FETCH_TLS,     /* TLS where plain HTTP is expected */
	FETCH_TOO_LARGE,
	FETCH_LOCAL, /* our own fault: out of files, memory, ports */
	FETCH_RESULTS,
};

struct fetch;

struct fetch_request {
	const char *path;
	uint32_t timeout_ms;
	size_t limit;	  /* bytes of the body */
	const char *body; /* JSON to be posted, the caller's until the end; NULL: GET */
	size_t body_len;
	/* Each piece of the body; false: no more is wanted, the result is FETCH_TOO_LARGE. NULL:
	 * passed over. */
	bool (*data)(void *arg, const char *data, size_t n);
	/* The last call, never from within fetch_start; the fetch is gone by then. status: of
	 * FETCH_ANSWERED. */
	void (*done)(void *arg, enum fetch_result result, int status);
	void *arg;
};

/* NULL: no memory. */
struct fetch *fetch_start(struct event_base *base, const struct kv_addr *to,
			  const struct fetch_request *request);
/* Not from within data. done is not called. NULL is allowed. */
void fetch_cancel(struct fetch *f);

/* "connection refused: …": what it is, and what to look at. */
const char *fetch_result_text(enum fetch_result result);

#endif
