/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From prompts given as text to the token blocks that engines' events speak of. After a request has
 * gone to an engine, the engine is asked for its tokens (POST /tokenize), and the prompt's rungs
 * are tied to the blocks that they cover: what is told of those holds for the text from then on.
 *
 *	tokenize	requests that wait to be asked about, one at a time per engine
 *	tokenize_tie	a thread: from an engine's answer to ties
 *
 * Nothing waits for it. What there is no room for is not asked about, and counted.
 */
#ifndef AGENT_TOKENIZE_H
#define AGENT_TOKENIZE_H

#include "agent/client.h"

struct tokenizer;
struct told;

struct tokenizer *tokenizer_new(struct told *t); /* NULL: no memory */
void tokenizer_free(struct tokenizer *z);

/* A request with a prompt in the text domain, about to go to this backend. */
void tokenize_take(struct client *c, __u32 backend);
/* Its engine is followed no more. */
void tokenize_forget(struct tokenizer *z, __u32 backend);

#endif
