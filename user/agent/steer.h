/* SPDX-License-Identifier: BSD-2-Clause */
/* Decisions, taken by the kernel's own program: one implementation for both lanes. */
#ifndef AGENT_STEER_H
#define AGENT_STEER_H

#include "agent/dataplane.h"

/* dispatch->query in, its charges out; mask: of those backends only, NULL: of all. Returns the
 * backend, KV_NONE: none takes requests. ret_matched: tokens believed cached there. */
__u32 steer_decide(struct dataplane *dp, struct kv_dispatch *dispatch, const __u64 *mask,
		   __u32 *ret_matched);
/* The decision never got a slot. */
void steer_undo(struct dataplane *dp, const struct kv_dispatch *dispatch);
/* What became of the request on a slot; op is one of KV_CALL_SETTLE_*. */
void steer_settle(struct dataplane *dp, __u32 slot, enum kv_call_op op);

#endif
