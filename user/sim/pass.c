// SPDX-License-Identifier: BSD-2-Clause
/* One pass over a source for many runs, in chunks of some thousand requests. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "kvsteer/ladder.h"
#include "sim/array.h"
#include "sim/run.h"
#include "sim/stats.h"

#define CHUNK 4096
#define CHUNK_IDS (1u << 17) /* a chunk ends with the request that reaches it */

static int next_of_trace(void *reader, struct trace_line *ret, char *err)
{
	return trace_next(reader, ret, err);
}

struct sim_source sim_source_of_trace(struct trace_reader *reader)
{
	return (struct sim_source){.next = next_of_trace, .ctx = reader};
}

struct chunk {
	struct sim_request requests[CHUNK];
	unsigned int n;
	/* all requests' together */
	uint64_t *ids;
	struct kv_rung *rungs;
	size_t n_ids, n_rungs, ids_room, rungs_room;
};

/* The ladder of its prompt. */
static uint32_t make_rungs(struct kv_rung *rungs, const struct trace_line *line, uint32_t block)
{
	uint32_t depths[KV_MAX_RUNGS], full[KV_MAX_RUNGS], n = 0;

	/* The latest count, if there are more than a ladder holds anyway. */
	for (uint32_t i = line->n_boundaries < KV_MAX_RUNGS ? 0 : line->n_boundaries - KV_MAX_RUNGS;
	     i < line->n_boundaries; i++)
		full[n++] = line->boundaries[i] / block;
	n = kv_ladder(line->n_ids, full, n, depths);
	for (uint32_t i = 0; i < n; i++)
		rungs[i] = (struct kv_rung){
			.hash = sim_block_hash(line->ids[depths[i] - 1]),
			.depth = depths[i] * block,
		};
	return n;
}

static int add(struct chunk *c, const struct trace_line *line, double at_s,
	       const struct sim_options *options)
{
	struct sim_request *r = &c->requests[c->n];

	if (sim_array_room((void **)&c->ids, &c->ids_room, c->n_ids + line->n_ids,
			   sizeof(*c->ids)) ||
	    sim_array_room((void **)&c->rungs, &c->rungs_room, c->n_rungs + KV_MAX_RUNGS,
			   sizeof(*c->rungs)))
		return -ENOMEM;
	if (line->n_ids)
		memcpy(c->ids + c->n_ids, line->ids, line->n_ids * sizeof(*c->ids));
	*r = (struct sim_request){
		.at_s = at_s,
		.tokens = line->input_tokens,
		.n_ids = line->n_ids,
	};
	if (!line->hidden)
		r->n_rungs = make_rungs(c->rungs + c->n_rungs, line, options->block_tokens);
	if (line->session && !options->no_sessions)
		r->session = kv_mix(line->session) ?: 1;
	c->n_ids += r->n_ids;
	c->n_rungs += r->n_rungs;
	c->n++;
	return 0;
}

/* The arrays move while they grow: where each request's part is, at the end. */
static void place(struct chunk *c)
{
	const struct kv_rung *rungs = c->rungs;
	const uint64_t *ids = c->ids;

	for (unsigned int i = 0; i < c->n; i++) {
		struct sim_request *r = &c->requests[i];

		r->ids = ids;
		r->rungs = rungs;
		ids += r->n_ids;
		rungs += r->n_rungs;
	}
}

/* The next requests, some thousands: 0 with n = 0 at the end. */
static int read_chunk(const struct sim_source *source, const struct sim_options *options,
		      double *first, struct sim_distinct *seen, struct chunk *c, char *err)
{
	struct trace_line line;
	int rc = 1;

	c->n = c->n_ids = c->n_rungs = 0;
	while (c->n < CHUNK && c->n_ids < CHUNK_IDS &&
	       (rc = source->next(source->ctx, &line, err)) > 0) {
		if (*first < 0)
			*first = line.at_s;
		rc = add(c, &line, line.at_s - *first, options);
		for (uint32_t i = 0; i < line.n_ids && !rc; i++)
			rc = sim_distinct_add(seen, sim_block_hash(line.ids[i]));
		if (rc) {
			snprintf(err, TRACE_ERROR_LEN, "out of memory");
			return rc;
		}
	}
	place(c);
	return rc < 0 ? rc : 0;
}

int sim_pass(const struct sim_source *source, const struct sim_options *options,
	     struct sim_run **runs, struct sim_result *results, unsigned int n, char *err)
{
	_cleanup_free_ struct chunk *c = calloc(1, sizeof(*c));
	struct sim_distinct seen = {0};
	uint64_t blocks = 0;
	double first = -1;
	int rc = c ? 0 : -ENOMEM;

	if (rc)
		snprintf(err, TRACE_ERROR_LEN, "out of memory");
	while (!rc) {
		rc = read_chunk(source, options, &first, &seen, c, err);
		if (rc || !c->n)
			break;
		blocks += c->n_ids;
		for (unsigned int i = 0; i < n && !rc; i++)
			rc = sim_run_requests(runs[i], c->requests, c->n);
		if (rc)
			snprintf(err, TRACE_ERROR_LEN, "out of memory");
	}
	for (unsigned int i = 0; i < n && !rc; i++) {
		sim_run_end(runs[i], &results[i]);
		if (blocks)
			results[i].hit_ceiling = 1 - sim_distinct_count(&seen) / blocks;
	}
	sim_distinct_free(&seen);
	if (c) {
		free(c->ids);
		free(c->rungs);
	}
	return rc;
}
