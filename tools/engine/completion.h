// SPDX-License-Identifier: BSD-2-Clause
/* Requests that generate: prompts, their way through the engine, and the answers' wire text. */
#ifndef ENGINE_COMPLETION_H
#define ENGINE_COMPLETION_H

#include <yyjson.h>

#include "engine.h"

enum api { API_CHAT, API_COMPLETIONS, API_MESSAGES, API_RESPONSES, API_GENERATE };

#define PROMPTS_MAX 64

/* Tokens of a prompt: real ids, or the text's bytes four at a time, zeros behind the last. */
struct prompt {
	struct buf tokens; /* u32, little-endian */
	bool ids;
};

struct prompts {
	struct prompt prompt[PROMPTS_MAX];
	uint32_t n;
};

/* What a body asks for. */
struct ask {
	struct prompts prompts;
	const char *model; /* NULL: not named */
	const char *salt;  /* cache_salt, NULL: none */
	uint64_t max_tokens;
	bool stream, usage, until_close;
	yyjson_doc *doc; /* of the strings */
};

/* Of zeroed memory; -1 and why. ask_free() in any case. */
int ask_read(struct ask *ask, struct slice body, int api, const char **ret_why);
void ask_free(struct ask *ask);
/* Only the two ends of a body are read: at 220 KB, JSON would be most of the time. */
void ask_glance(struct ask *ask, struct slice body);

uint32_t prompt_tokens(const struct prompt *p);
int prompts_read(yyjson_val *root, int api, struct prompts *ret, const char **ret_why);
void prompts_free(struct prompts *p);

struct answer {
	struct job job;
	struct conn *conn;
	struct engine *engine;
	TAILQ_ENTRY(answer) link;
	int api;
	bool stream, usage, waiting;
	char model[160]; /* as the inside of a JSON string */
	uint64_t seed;	 /* of the text: the hash of the prompt */
	uint32_t n_prompts;
	uint32_t *n_blocks;
	uint64_t *hashes;  /* all prompts' blocks, one after another */
	uint32_t *tokens;  /* of those; only for events */
	char *lora, *salt; /* for events; NULL: none */
	uint64_t prompt_tokens, cached, max_tokens, sent_tokens;
	double arrived, first; /* s, CLOCK_MONOTONIC */
};

/* wire.c: events go through emit, one by one */
void wire_whole(const struct answer *a, struct buf *out);
void wire_begin(const struct answer *a, void (*emit)(struct conn *, struct buf *));
void wire_token(const struct answer *a, uint64_t i, void (*emit)(struct conn *, struct buf *));
void wire_end(const struct answer *a, void (*emit)(struct conn *, struct buf *));

#endif
