/* SPDX-License-Identifier: BSD-2-Clause */
/* For the agent: what kvsteer_body() hashes, and the same prompt's other domain. */
#ifndef KVSTEER_LIB_BODY_H
#define KVSTEER_LIB_BODY_H

#include "lib/text.h"

#pragma GCC visibility push(hidden)

/* As kvsteer_body; of a prompt in the text domain tap has its canonical text, to be freed. */
int kv_body_text(const char *path, const void *body, size_t len, const struct kvsteer_options *opts,
		 struct kvsteer_prompt *ret_prompt, struct kv_tap *tap);

/* Seed of the token domain, for the model, salt and so on of that one of the text domain. */
uint64_t kv_token_seed(uint64_t text_seed);

#pragma GCC visibility pop

#endif
