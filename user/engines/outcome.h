/* SPDX-License-Identifier: BSD-2-Clause */
/* What an attempt to use an engine says about the engine, and about nothing else. */
#ifndef ENGINES_OUTCOME_H
#define ENGINES_OUTCOME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum outcome {
	OUTCOME_NEUTRAL, /* says nothing about its health: a client that left */
	OUTCOME_SUCCESS,
	OUTCOME_BUSY,	 /* back-pressure: well, and full */
	OUTCOME_FAILURE, /* 5xx, or the connection ended before a byte of the answer */
	OUTCOME_REFUSED, /* nobody listens */
};

/* By the status of its final answer. 4xx is the client's doing, of an engine that is well. */
enum outcome outcome_of_status(int status);
/* By the errno of connect(), 0 for success: our own lack of something says nothing. */
enum outcome outcome_of_connect(int err);

/* When an engine that says 429 or 503 is worth asking again. */
#define BUSY_MS 1000	   /* where it does not say */
#define BUSY_MOST_MS 60000 /* where it says more */

struct busy {
	uint64_t until_ns;
};

/* retry_after: the field's value, NULL: it has none. A date counts as none. */
void busy_note(struct busy *b, const char *retry_after, size_t len, uint64_t now_ns);

static inline bool busy_is(const struct busy *b, uint64_t now_ns)
{
	return now_ns < b->until_ns;
}

/* What to do with a request whose answer is 429 or 503. */
struct busy_case {
	unsigned int tries; /* engines asked so far, this one included */
	unsigned int tries_most;
	bool begun;	   /* a byte of an answer has gone to the client */
	bool request_kept; /* it can be sent again */
	bool peer;	   /* another engine takes requests and is not busy itself */
};
/* true: to a peer; false: the answer is the client's. */
bool busy_pass_on(const struct busy_case *c);

#endif
