/* SPDX-License-Identifier: BSD-2-Clause */
/* The first line of a recording, which says what the rest is of. */
#ifndef KVSTEER_SIM_TRACE_HEAD_H
#define KVSTEER_SIM_TRACE_HEAD_H

#include <stdint.h>

#define TRACE_HEAD_KEY "kvsteer_trace" /* its value is the form's version */
#define TRACE_HEAD_VERSION 1
#define TRACE_BLOCK_MAX (1u << 20)
#define TRACE_IDS_MAX (1u << 18) /* of one line, so that it fits the reader's */

/* Ids of a recorded prompt: its full blocks'. Of what is behind them nothing is known, and no
 * engine keeps it. A prompt of less than a block has one, which nobody else has. */
static inline uint64_t trace_recorded_blocks(uint64_t tokens, uint32_t block_tokens)
{
	return tokens < block_tokens ? 1 : tokens / block_tokens;
}

/* Of a trace without one all is 0. */
struct trace_head {
	uint32_t block_tokens;
	/* the fleet that served: 0 where it is not known */
	uint32_t backends;
	uint64_t cache_tokens; /* of each */
	double rate;	       /* tokens of prefill per second, each */
};

#endif
