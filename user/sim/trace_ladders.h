/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From the ladders of recorded requests to the block ids of a trace. A ladder names some depths of
 * a prompt; two prompts are taken for equal up to the deepest rung that both have. Ids are numbers
 * in the order of appearance, as sessions are: nothing of a hash is in them, and a recording has
 * nothing in common with another one.
 */
#ifndef KVSTEER_SIM_TRACE_LADDERS_H
#define KVSTEER_SIM_TRACE_LADDERS_H

#include "kvsteer/shared.h"
#include "sim/trace.h"

struct trace_ladders;

/*
 * sample: 1 of so many conversations is kept. Who goes on where another request ended is of its
 * conversation; else lots are drawn, which seed decides. NULL: no memory.
 */
struct trace_ladders *trace_ladders_new(uint32_t block_tokens, uint32_t sample, uint64_t seed);
void trace_ladders_free(struct trace_ladders *l);

/*
 * Fills input_tokens, ids, boundaries and session of ret, until the next call. 1: it is of the
 * sample; 0: it is not; -ENODATA: it has no prompt; -E2BIG: its prompt has more than TRACE_IDS_MAX
 * blocks; -ENOMEM; -ENOBUFS: no more can be remembered.
 */
int trace_ladders_add(struct trace_ladders *l, const struct kv_query *query,
		      struct trace_line *ret);

#endif
