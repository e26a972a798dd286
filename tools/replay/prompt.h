/* SPDX-License-Identifier: BSD-2-Clause */
/* Request bodies out of block ids: equal ids give equal text, so equal prefixes are equal bytes. */
#ifndef REPLAY_PROMPT_H
#define REPLAY_PROMPT_H

#include "trace.h"

struct prompt_shape {
	const char *model;
	bool chat;	     /* else one prompt string for /v1/completions */
	double scale;	     /* of the prompt's tokens */
	double answer_scale; /* of the answer's tokens */
};

/* Tokens the answer to r is asked to have. */
uint32_t prompt_answer_tokens(const struct prompt_shape *shape, const struct trace_request *r);

/* The JSON body, to be freed by the caller; NULL when memory is short. */
char *prompt_body(const struct prompt_shape *shape, const struct trace *t,
		  const struct trace_request *r, size_t *ret_len);

#endif
