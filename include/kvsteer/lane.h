/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a request's head alone says: does it keep to the express lane, and what it asks the steering
 * core there. */
#ifndef KVSTEER_LANE_H
#define KVSTEER_LANE_H

#include "counters.h"
#include "request.h"
#include "shared.h"

/* What keeps a request out of the express lane; KV_CNT_MAX: nothing. payload_len: of the packet
 * that it begins with, the first segment of which has segment bytes. */
KV_INLINE enum kv_counter kv_refusal(const struct kv_request *r, int lane, __u32 payload_len,
				     const struct kv_service *service, __u32 segment)
{
	if (lane != KV_LANE_EXPRESS)
		return r->reason == KV_REASON_head_incomplete ? KV_CNT_agent_head_split
							      : KV_CNT_agent_head_odd;
	/* In one wire segment, so that its retransmission is whole too and can be compared
	 * (client.bpf.h). */
	if (r->head_len > segment)
		return KV_CNT_agent_head_split;
	if (r->body_len > service->body_limit)
		return KV_CNT_agent_too_large;
	if (payload_len > r->head_len + r->body_len)
		return KV_CNT_agent_pipelined;
	if (service->flags & KV_SERVICE_DRAINING)
		return KV_CNT_agent_draining;
	if (service->flags & KV_SERVICE_MODELS && r->completion)
		return KV_CNT_agent_models;
	if (r->completion && r->hint_state != KV_HINT_OK && !r->session)
		return KV_CNT_agent_no_hint;
	return KV_CNT_MAX;
}

KV_INLINE void kv_query_from(struct kv_query *q, const struct kv_request *r, __u32 service)
{
	bool hinted = r->hint_state == KV_HINT_OK;

	q->service = service;
	q->session = r->session;
	q->exclude = KV_NONE;
	q->total = hinted ? r->hint.total : 0;
	q->n_rungs = hinted ? r->hint.n : 0;
	/* What is not a completion has no prompt to cache. */
	q->body_len = r->completion ? r->body_len : 0;
	if (hinted)
		__builtin_memcpy(q->rungs, r->hint.rungs, sizeof(q->rungs));
}

#endif /* KVSTEER_LANE_H */
