// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sim/trace.h"
#include "trace.h"

#define ID_MAX (1u << 26) /* ids index a table: refuse a trace that would need gigabytes */
#define NO_SUCCESSOR UINT32_MAX
#define END_OF_REQUEST (UINT32_MAX - 1)

/* A block with two different successors, one of which may be the end of a request. */
static int find_turn_ends(struct trace *t)
{
	uint32_t top = 0, *successor;

	for (size_t i = 0; i < t->n; i++)
		for (uint32_t j = 0; j < t->requests[i].n_ids; j++)
			if (t->requests[i].ids[j] > top)
				top = t->requests[i].ids[j];
	t->turn_ends = calloc(top + 1, sizeof(*t->turn_ends));
	successor = malloc((top + 1) * sizeof(*successor));
	if (!t->turn_ends || !successor) {
		free(successor);
		return -ENOMEM;
	}
	memset(successor, 0xff, (top + 1) * sizeof(*successor));
	for (size_t i = 0; i < t->n; i++) {
		const struct trace_request *r = &t->requests[i];

		for (uint32_t j = 0; j < r->n_ids; j++) {
			uint32_t next = j + 1 < r->n_ids ? r->ids[j + 1] : END_OF_REQUEST;
			uint32_t *known = &successor[r->ids[j]];

			if (*known == NO_SUCCESSOR)
				*known = next;
			else if (*known != next)
				t->turn_ends[r->ids[j]] = true;
		}
	}
	free(successor);
	return 0;
}

static int copy_line(const struct trace_line *line, const char *file, struct trace_request *ret)
{
	*ret = (struct trace_request){
		.at_s = line->at_s,
		.input_tokens = line->input_tokens,
		.output_tokens = line->output_tokens,
		.n_ids = line->n_ids,
		.ids = calloc(line->n_ids, sizeof(*ret->ids)),
	};
	if (!ret->ids)
		return -ENOMEM;
	for (uint32_t i = 0; i < line->n_ids; i++) {
		if (line->ids[i] >= ID_MAX) {
			fprintf(stderr, "kv-replay: %s: hash id %llu: expected ids below 2^26\n",
				file, (unsigned long long)line->ids[i]);
			free(ret->ids);
			return -EINVAL;
		}
		ret->ids[i] = line->ids[i];
	}
	return 0;
}

static int read_lines(struct trace_reader *in, const char *file, size_t limit, struct trace *t)
{
	char why[TRACE_ERROR_LEN];
	struct trace_line line;
	size_t room = 0;
	int err = 0;

	while (!err && (!limit || t->n < limit)) {
		err = trace_next(in, &line, why);
		if (err < 0)
			fprintf(stderr, "kv-replay: %s\n", why);
		if (err <= 0)
			break;
		err = 0;
		if (t->n == room) {
			void *grown;

			room = room ? room * 2 : 1024;
			grown = reallocarray(t->requests, room, sizeof(*t->requests));
			if (!grown)
				return -ENOMEM;
			t->requests = grown;
		}
		err = copy_line(&line, file, &t->requests[t->n]);
		if (!err)
			t->n++;
	}
	return err;
}

int trace_load(const char *file, size_t limit, struct trace *ret_trace)
{
	struct trace_reader *in = NULL;
	char why[TRACE_ERROR_LEN];
	struct trace t = {};
	int err = trace_open(file, TRACE_BLOCK_TOKENS, &in, why);

	if (err) {
		fprintf(stderr, "kv-replay: %s\n", why);
		return err;
	}
	err = read_lines(in, file, limit, &t);
	trace_close(in);
	if (!err && !t.n) {
		fprintf(stderr, "kv-replay: trace %s holds no request\n", file);
		err = -ENODATA;
	}
	if (!err) {
		for (size_t i = t.n; i-- > 0;)
			t.requests[i].at_s -= t.requests[0].at_s;
		err = find_turn_ends(&t);
	}
	if (err)
		trace_free(&t);
	else
		*ret_trace = t;
	return err;
}

void trace_free(struct trace *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->requests[i].ids);
	free(t->requests);
	free(t->turn_ends);
	*t = (struct trace){};
}
