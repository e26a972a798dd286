/* SPDX-License-Identifier: BSD-2-Clause */
/* Decisions, taken by the kernel's own program: one implementation for both lanes. */
#ifndef AGENT_STEER_H
#define AGENT_STEER_H

#include "agent/dataplane.h"
#include "engines/models.h"

/* dispatch->query in, its charges out; of: those backends only, NULL: all. Returns the backend,
 * KV_NONE: none takes requests, and ret is not written. */
__u32 steer_decide(struct dataplane *dp, struct kv_dispatch *dispatch, const struct model_set *of,
		   const struct kv_trace_from *from, struct kv_choice *ret);
/* The decision never got a slot. */
void steer_undo(struct dataplane *dp, const struct kv_dispatch *dispatch);
/* What became of the request on a slot; op is one of KV_CALL_SETTLE_*. */
void steer_settle(struct dataplane *dp, __u32 slot, enum kv_call_op op);
/* The same of an answer whose status is known. */
void steer_settle_answer(struct dataplane *dp, __u32 slot, enum kv_call_op op, __u32 status);

struct steer_end {
	enum kv_trace_end end;
	__u32 status; /* 0: as answered */
	__u64 bytes;
	bool closed; /* the client had closed its side */
};
/* A request has ended; what the kernel does not see of it is written into its record. */
void steer_trace_end(struct dataplane *dp, __u64 number, const struct steer_end *end);
/* The gateway has answered it before anybody was chosen. */
void steer_trace_refused(struct dataplane *dp, const struct kv_query *query,
			 const struct kv_trace_from *from, __u32 status);

#endif
