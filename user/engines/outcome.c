// SPDX-License-Identifier: BSD-2-Clause
#include "engines/outcome.h"

#include <errno.h>

#include <kvsteer/answer.h>

enum outcome outcome_of_status(int status)
{
	static const enum outcome outcomes[] = {
		[KV_ANSWER_GOOD] = OUTCOME_SUCCESS,
		[KV_ANSWER_BUSY] = OUTCOME_BUSY,
		[KV_ANSWER_FAULT] = OUTCOME_FAILURE,
	};

	return outcomes[kv_answer_of(status)];
}

enum outcome outcome_of_connect(int err)
{
	switch (err) {
	case 0:
		return OUTCOME_NEUTRAL; /* the kernel accepts for an engine that hangs, too */
	case EMFILE:
	case ENFILE:
	case ENOMEM:
	case ENOBUFS:
	case EADDRNOTAVAIL:
	case EADDRINUSE:
		return OUTCOME_NEUTRAL;
	case ECONNREFUSED:
		return OUTCOME_REFUSED;
	default:
		return OUTCOME_FAILURE;
	}
}

void busy_note(struct busy *b, const char *retry_after, size_t len, uint64_t now_ns)
{
	uint64_t ms = 0, until_ns;

	for (size_t i = 0; retry_after && i < len; i++) {
		if (retry_after[i] < '0' || retry_after[i] > '9') {
			ms = 0;
			break;
		}
		ms = ms * 10 + (retry_after[i] - '0') * 1000;
		if (ms > BUSY_MOST_MS)
			ms = BUSY_MOST_MS;
	}
	until_ns = now_ns + (ms ? ms : BUSY_MS) * 1000000ull;
	if (until_ns > b->until_ns)
		b->until_ns = until_ns;
}

bool busy_pass_on(const struct busy_case *c)
{
	return !c->begun && c->request_kept && c->peer && c->tries < c->tries_most;
}
