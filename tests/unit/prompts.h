/* SPDX-License-Identifier: BSD-2-Clause */
/* Bodies as tests write them, and what they have in common. */
#ifndef UNIT_PROMPTS_H
#define UNIT_PROMPTS_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "lib/query.h"

#define CHAT "/v1/chat/completions"

/* 1,000 bytes without white space or escapes, a block of its own anywhere. */
static inline const char *filler(void)
{
	static char text[1001];

	for (int i = 0; i < 1000; i++)
		text[i] = 'a' + (i * i + i / 26) % 26;
	return text;
}

/* Bodies are written with ' for ", and ~ for the filler. */
static inline char *body(const char *pattern)
{
	char *text = malloc(strlen(pattern) * 1000 + 1), *p = text;

	for (; *pattern; pattern++)
		if (*pattern == '~')
			p = stpcpy(p, filler());
		else
			*p++ = *pattern == '\'' ? '"' : *pattern;
	*p = '\0';
	return text;
}

static inline int hash_with(const char *path, const char *pattern,
			    const struct kvsteer_options *opts, struct kvsteer_prompt *ret)
{
	char *text = body(pattern);
	size_t len = strlen(text);
	char *exact = malloc(len + !len); /* no byte behind it: the sanitizer sees every overrun */
	int err;

	memcpy(exact, text, len);
	err = kvsteer_body(path, exact, len, opts, ret);
	free(exact);
	free(text);
	return err;
}

static inline int hash(const char *path, const char *pattern, struct kvsteer_prompt *ret)
{
	return hash_with(path, pattern, NULL, ret);
}

static inline int equal(const struct kvsteer_prompt *a, const struct kvsteer_prompt *b)
{
	return a->total == b->total && a->block == b->block && a->domain == b->domain &&
	       a->seed == b->seed && a->n_rungs == b->n_rungs && a->n_rungs &&
	       !memcmp(a->rungs, b->rungs, a->n_rungs * sizeof(a->rungs[0]));
}

static inline int same(const char *path, const char *a, const char *b)
{
	struct kvsteer_prompt x, y;

	return !hash(path, a, &x) && !hash(path, b, &y) && equal(&x, &y);
}

/* Not one rung in common. The patterns differ before their fillers. */
static inline int apart(const char *path, const char *a, const char *b)
{
	struct kvsteer_prompt x, y;

	if (hash(path, a, &x) || hash(path, b, &y) || !x.n_rungs || !y.n_rungs)
		return 0;
	for (uint32_t i = 0; i < x.n_rungs; i++)
		for (uint32_t j = 0; j < y.n_rungs; j++)
			if (x.rungs[i].hash == y.rungs[j].hash)
				return 0;
	return 1;
}

static inline uint32_t common_depth(const struct kvsteer_prompt *x, const struct kvsteer_prompt *y)
{
	uint32_t depth = 0;

	for (uint32_t i = 0; i < x->n_rungs; i++)
		for (uint32_t j = 0; j < y->n_rungs; j++)
			if (x->rungs[i].hash == y->rungs[j].hash && x->rungs[i].depth > depth)
				depth = x->rungs[i].depth;
	return depth;
}

#define ONE "{'model':'m','messages':[{'role':'user','content':'~'}]}"

#endif
