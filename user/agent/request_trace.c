// SPDX-License-Identifier: BSD-2-Clause
/* What the agent tells the flight recorder (kvsteer/trace.h): whose request it is, and its end. */
#include <string.h>

#include "agent/request.h"
#include "agent/request_private.h"
#include "agent/steer.h"

void request_trace_begin(struct client *c)
{
	const struct kv_entry_call *taken = c->agent->dp.entry_call;
	struct request *r = c->request;

	r->dispatch.query.service = c->service;
	r->from = (struct kv_trace_from){
		.again = taken->trace,
		.port = c->key.peer_port,
		.reason = taken->left,
		.flags = KV_TRACE_AGENT,
	};
	memcpy(r->from.client, c->key.peer, sizeof(r->from.client));
}

__u64 request_trace_number(const struct request *r)
{
	return r->traced || r->dispatch.trace == KV_TRACE_SKIPPED ? 0 : r->dispatch.trace;
}

void request_trace_end(struct client *c, enum kv_trace_end end, __u32 status)
{
	struct request *r = c->request;
	struct dataplane *dp = &c->agent->dp;

	if (!r || r->traced)
		return;
	r->traced = true;
	if (r->dispatch.trace)
		steer_trace_end(dp, r->dispatch.trace,
				&(struct steer_end){end, status, r->answer_len, c->eof});
	else if (end == KV_TRACE_REFUSED)
		steer_trace_refused(dp, &r->dispatch.query, &r->from, status);
}
