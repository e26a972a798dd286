// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>
#include <zlib.h>
#include "trace.h"

#define LINE_MAX_BYTES (1 << 20)
#define ID_MAX (1u << 26) /* ids index a table: refuse a trace that would need gigabytes */
#define NO_SUCCESSOR UINT32_MAX
#define END_OF_REQUEST (UINT32_MAX - 1)

static int parse_line(const char *line, size_t len, struct trace_request *ret)
{
	yyjson_doc *doc = yyjson_read(line, len, 0);
	yyjson_val *root = yyjson_doc_get_root(doc);
	yyjson_val *at = yyjson_obj_get(root, "timestamp");
	yyjson_val *input = yyjson_obj_get(root, "input_length");
	yyjson_val *output = yyjson_obj_get(root, "output_length");
	yyjson_val *ids = yyjson_obj_get(root, "hash_ids");
	size_t n = yyjson_arr_size(ids), i, max;
	yyjson_val *id;
	int err = -EINVAL;

	if (!yyjson_is_num(at) || !yyjson_is_uint(input) || !yyjson_is_uint(output) || !n)
		goto out;
	*ret = (struct trace_request){
		.at_s = yyjson_get_num(at) / 1000.0,
		.input_tokens = yyjson_get_uint(input),
		.output_tokens = yyjson_get_uint(output),
		.n_ids = n,
		.ids = calloc(n, sizeof(*ret->ids)),
	};
	if (!ret->ids) {
		err = -ENOMEM;
		goto out;
	}
	err = 0;
	yyjson_arr_foreach (ids, i, max, id) {
		if (!yyjson_is_uint(id) || yyjson_get_uint(id) >= ID_MAX)
			err = -EINVAL;
		else
			ret->ids[i] = yyjson_get_uint(id);
	}
	if (err)
		free(ret->ids);
out:
	yyjson_doc_free(doc);
	return err;
}

static int by_time(const void *a, const void *b)
{
	const struct trace_request *x = a, *y = b;

	return (x->at_s > y->at_s) - (x->at_s < y->at_s);
}

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

static int read_lines(gzFile in, const char *file, size_t limit, struct trace *t)
{
	char *line = malloc(LINE_MAX_BYTES);
	size_t room = 0, number = 0;
	int err = line ? 0 : -ENOMEM;

	while (!err && (!limit || t->n < limit) && gzgets(in, line, LINE_MAX_BYTES)) {
		number++;
		if (t->n == room) {
			void *grown;

			room = room ? room * 2 : 1024;
			grown = reallocarray(t->requests, room, sizeof(*t->requests));
			if (!grown) {
				err = -ENOMEM;
				break;
			}
			t->requests = grown;
		}
		err = parse_line(line, strlen(line), &t->requests[t->n]);
		if (!err)
			t->n++;
		else
			fprintf(stderr,
				"kv-replay: %s:%zu: not a trace line: want timestamp, "
				"input_length, output_length, hash_ids\n",
				file, number);
	}
	free(line);
	return err;
}

int trace_load(const char *file, size_t limit, struct trace *ret_trace)
{
	struct trace t = {};
	gzFile in = gzopen(file, "rb"); /* reads plain files too */
	int err, gzerr = Z_OK;

	if (!in) {
		err = -errno;
		fprintf(stderr, "kv-replay: cannot open trace %s: %s\n", file, strerror(errno));
		return err;
	}
	err = read_lines(in, file, limit, &t);
	gzerror(in, &gzerr);
	if (!err && gzerr != Z_OK && gzerr != Z_STREAM_END) {
		fprintf(stderr, "kv-replay: trace %s is damaged or cut short\n", file);
		err = -EIO;
	}
	gzclose(in);
	if (!err && !t.n) {
		fprintf(stderr, "kv-replay: trace %s holds no request\n", file);
		err = -ENODATA;
	}
	if (!err) {
		qsort(t.requests, t.n, sizeof(*t.requests), by_time);
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
