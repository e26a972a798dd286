/* SPDX-License-Identifier: BSD-2-Clause */
/* Open-loop replay: requests leave at the trace's times, whether earlier ones are answered or not.
 */
#ifndef REPLAY_REPLAY_H
#define REPLAY_REPLAY_H

#include "clients.h"
#include "prompt.h"
#include "trace.h"

#define ENGINE_NAME_LEN 48

struct replay_options {
	const char *to;
	struct prompt_shape shape;
	double speed;
	bool hint;   /* send KV-Prefix */
	bool merged; /* an event of the answer may carry several tokens */
	int timeout_s;
	struct source sources[MAX_SOURCES];
	unsigned int n_sources;
};

/* What became of one request. Times in seconds since it was due: a late start counts. */
struct outcome {
	double due_s; /* since the run began */
	double late_s;
	double ttft_s;
	double total_s;
	uint32_t prompt_tokens;
	uint32_t cached_tokens;
	uint32_t answer_tokens;
	int status;
	const char *error; /* NULL: complete and right */
	char engine[ENGINE_NAME_LEN];
};

/* Replays all of t; ret_outcomes has t->n entries, in the trace's order. ret_connections: how
 * many connections that took. */
int replay_run(const struct replay_options *o, const struct trace *t, struct outcome *ret_outcomes,
	       unsigned int *ret_connections);

#endif
