/* SPDX-License-Identifier: BSD-2-Clause */
/* From libkvsteer's prompt to the query of a steering decision. */
#ifndef KVSTEER_LIB_QUERY_H
#define KVSTEER_LIB_QUERY_H

#include "kvsteer.h"
#include "kvsteer/shared.h"

_Static_assert(sizeof(struct kvsteer_rung) == sizeof(struct kv_rung) &&
		       KVSTEER_MAX_RUNGS == KV_MAX_RUNGS,
	       "kvsteer.h is installed without shared.h and repeats its rung");

/* Fills total and rungs; the caller fills service, session, body_len and exclude. */
static inline void kv_query_set_prompt(struct kv_query *query, const struct kvsteer_prompt *prompt)
{
	query->total = prompt->total;
	query->n_rungs = prompt->n_rungs;
	memcpy(query->rungs, prompt->rungs, prompt->n_rungs * sizeof(query->rungs[0]));
}

#endif /* KVSTEER_LIB_QUERY_H */
