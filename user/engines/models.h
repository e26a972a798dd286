/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which engine serves which models: what each last said at /v1/models, adapters included. An
 * engine that has not said anything yet may serve any. One that is gone for a while is remembered
 * as it was; once it is back it is unsure, until it has been asked again: it may be another
 * process.
 */
#ifndef ENGINES_MODELS_H
#define ENGINES_MODELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODELS_ENGINES 256
#define MODELS_PER_ENGINE 1024
#define MODELS_NAME_MAX 255
#define MODELS_LIST_MAX (1u << 20) /* bytes of an engine's answer */

struct model_set {
	uint64_t words[MODELS_ENGINES / 64];
};

static inline void model_set_add(struct model_set *s, uint32_t id)
{
	s->words[id / 64] |= 1ull << id % 64;
}

static inline void model_set_remove(struct model_set *s, uint32_t id)
{
	s->words[id / 64] &= ~(1ull << id % 64);
}

static inline bool model_set_has(const struct model_set *s, uint32_t id)
{
	return s->words[id / 64] >> id % 64 & 1;
}

static inline bool model_set_empty(const struct model_set *s)
{
	for (unsigned int i = 0; i < MODELS_ENGINES / 64; i++)
		if (s->words[i])
			return false;
	return true;
}

struct models;

struct models *models_new(void); /* NULL: no memory */
void models_free(struct models *m);

/* An engine's answer, as text. 0; -EBADMSG: no such list, what was known stays; -ENOMEM.
 * *ret_changed: its names are others than before. */
int models_told(struct models *m, uint32_t id, const char *json, size_t len, bool *ret_changed);
/* It was asked, and has no list to tell: what was known stays. */
void models_asked(struct models *m, uint32_t id);
/* It may serve others than before: to be asked. */
void models_unsure(struct models *m, uint32_t id);
/* Its id may be another engine's from now on. */
void models_forget(struct models *m, uint32_t id);
bool models_known(const struct models *m, uint32_t id);
/* Names of an engine, by their order; NULL: it has no more. */
const char *models_name(const struct models *m, uint32_t id, uint32_t i);

/* Those of a pool that serve this model, or might; unsure ones only where there is no other. An
 * empty result: none does, 404. */
struct model_set models_serving(const struct models *m, const struct model_set *pool,
				const char *name, size_t len);

enum models_alike {
	MODELS_ALIKE,  /* all that have said anything serve the same … */
	MODELS_DIFFER, /* … or not; or one of those that take requests is unsure */
	MODELS_OPEN,   /* one of those that take requests has not been asked yet */
};
enum models_alike models_alike(const struct models *m, const struct model_set *pool,
			       const struct model_set *taking);

/* The 404's body, in the form that OpenAI's clients read. NULL: no memory. To be freed. */
char *models_not_found(const char *name, size_t len, size_t *ret_len);

#endif
