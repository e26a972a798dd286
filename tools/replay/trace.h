/* SPDX-License-Identifier: BSD-2-Clause */
/* A trace as a whole, for requests that are sent by many hands. */
#ifndef REPLAY_TRACE_H
#define REPLAY_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRACE_BLOCK_TOKENS 512

struct trace_request {
	double at_s; /* since the first request */
	uint32_t input_tokens;
	uint32_t output_tokens;
	uint32_t n_ids;
	uint32_t *ids; /* an id names its block together with everything before it */
};

struct trace {
	struct trace_request *requests;
	size_t n;
	/* By block id: the requests of this trace part behind this block, so that is where a
	 * conversation's turn ended. */
	bool *turn_ends;
};

/* Reads FILE (user/sim/trace.h says in which forms), at most limit requests (0 = all). Prints what
 * is wrong itself. */
int trace_load(const char *file, size_t limit, struct trace *ret_trace);
void trace_free(struct trace *t);

#endif
