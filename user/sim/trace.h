/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Traces, read one request at a time (a trace may be larger than memory), plain or gzip:
 *
 *  - Mooncake's form: JSON lines of timestamp (ms), input_length, output_length (tokens), hash_ids.
 *    An id names a block of the prompt together with everything before it; the last block may be
 *    partial. boundaries, if there, are the depths in tokens at which messages end; session, if
 *    there, is a number that requests with the same session key have in common;
 *  - recordings (kvsteer record): the same behind a first line that says what it is (trace_head.h),
 *    with ids of full blocks only, and without output_length where that is not known;
 *  - Azure's CSV: TIMESTAMP,ContextTokens,GeneratedTokens. Nothing is known of the prompts, so
 *    nothing is shared: every block has an id of its own.
 */
#ifndef KVSTEER_SIM_TRACE_H
#define KVSTEER_SIM_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/trace_head.h"

#define TRACE_BLOCK_DEFAULT 512 /* Mooncake's */
#define TRACE_ERROR_LEN 512
#define TRACE_TOKENS_MAX (1u << 30) /* of one prompt */

struct trace_line {
	double at_s; /* as the trace has it: since an instant of its own */
	uint32_t input_tokens;
	uint32_t output_tokens;
	uint32_t n_ids;
	uint32_t n_boundaries;
	const uint64_t *ids;	    /* until the next line is read */
	const uint32_t *boundaries; /* tokens, rising */
	uint64_t session;	    /* a number that stands for its key; 0: it has none */
	bool hidden;		    /* its blocks are too small for the gateway to see */
};

struct trace_reader;

/* file: - is standard input. 0, or -errno and what is wrong in err (TRACE_ERROR_LEN). Lines are
 * checked against blocks of block_tokens; 0: as the trace says, TRACE_BLOCK_DEFAULT where it does
 * not. */
int trace_open(const char *file, uint32_t block_tokens, struct trace_reader **ret, char *err);
const struct trace_head *trace_head(const struct trace_reader *r);
uint32_t trace_block(const struct trace_reader *r);
/* 1: a request; 0: the end; -errno: err says where and what was expected. */
int trace_next(struct trace_reader *r, struct trace_line *ret, char *err);
void trace_close(struct trace_reader *r);

static inline void trace_cleanup(struct trace_reader **r)
{
	trace_close(*r);
}

#endif
