/* SPDX-License-Identifier: BSD-2-Clause */
/* From a finished chain of blocks to the ladder. */
#ifndef KVSTEER_LIB_RUNGS_H
#define KVSTEER_LIB_RUNGS_H

#include "lib/hash.h"

#pragma GCC visibility push(hidden)

/* Sets all of the prompt but domain. boundaries: in blocks, rising, at most 32. */
void kv_rungs(const struct kv_chain *chain, const uint32_t *boundaries, uint32_t n_boundaries,
	      struct kvsteer_prompt *ret_prompt);

#pragma GCC visibility pop

#endif /* KVSTEER_LIB_RUNGS_H */
