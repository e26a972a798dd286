/* SPDX-License-Identifier: BSD-2-Clause */
/* What else a body says that the agent wants to know: found while its prompt is. */
#ifndef KVSTEER_LIB_FACTS_H
#define KVSTEER_LIB_FACTS_H

#include <stdbool.h>

#include "kvsteer.h"

#define KV_FACTS_MODEL 255 /* bytes of a name that can be any engine's */

#pragma GCC visibility push(hidden)

struct kv_facts {
	bool salted;
	bool adapter;
	size_t model_len; /* 0: none is named; KV_FACTS_MODEL + 1: it is longer than that */
	char model[KV_FACTS_MODEL + 1];
};

/* As kvsteer_body; facts: NULL, or filled where the body is JSON, also if it has no prompt. */
int kv_body(const char *path, const void *body, size_t len, const struct kvsteer_options *opts,
	    struct kvsteer_prompt *ret_prompt, struct kv_facts *ret_facts);
/* Of a body whose prompt is known otherwise. */
void kv_body_facts(const void *body, size_t len, struct kv_facts *ret);

#pragma GCC visibility pop

#endif
