// SPDX-License-Identifier: BSD-2-Clause
#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>

#include "agent/steer.h"
#include "common/log.h"

_Static_assert(sizeof(((struct kv_call *)0)->mask) == sizeof(struct model_set), "as it is");

static int call_kernel(struct dataplane *dp)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts);
	int err = bpf_prog_test_run_opts(dp->call_fd, &opts);

	if (!err && (int)opts.retval < 0)
		err = (int)opts.retval;
	if (err)
		kv_err("kernel program kv_agent_call, op %u: %s", dp->call->op, strerror(-err));
	return err;
}

__u32 steer_decide(struct dataplane *dp, struct kv_dispatch *dispatch, const struct model_set *of,
		   const struct kv_trace_from *from, struct kv_choice *ret)
{
	dp->call->op = KV_CALL_DECIDE;
	dp->call->slot = KV_NONE;
	dp->call->dispatch = *dispatch;
	dp->call->masked = !!of;
	dp->call->from = *from;
	/* Decided again, or the kernel's own attempt came to nothing. */
	if (dispatch->trace)
		dp->call->from.again = dispatch->trace;
	if (of)
		memcpy(dp->call->mask, of->words, sizeof(dp->call->mask));
	if (call_kernel(dp))
		return KV_NONE;
	*dispatch = dp->call->dispatch;
	*ret = dp->call->choice;
	return ret->backend;
}

void steer_undo(struct dataplane *dp, const struct kv_dispatch *dispatch)
{
	dp->call->op = KV_CALL_UNDO;
	dp->call->slot = KV_NONE;
	dp->call->dispatch = *dispatch;
	call_kernel(dp);
}

void steer_settle_answer(struct dataplane *dp, __u32 slot, enum kv_call_op op, __u32 status)
{
	dp->call->op = op;
	dp->call->slot = slot;
	dp->call->status = status;
	call_kernel(dp);
}

void steer_settle(struct dataplane *dp, __u32 slot, enum kv_call_op op)
{
	steer_settle_answer(dp, slot, op, 0);
}

void steer_trace_end(struct dataplane *dp, __u64 number, const struct steer_end *end)
{
	if (!number || number == KV_TRACE_SKIPPED)
		return;
	dp->call->op = KV_CALL_TRACE_END;
	dp->call->slot = KV_NONE;
	dp->call->dispatch.trace = number;
	dp->call->end = end->end;
	dp->call->status = end->status;
	dp->call->bytes = end->bytes;
	dp->call->closed = end->closed;
	call_kernel(dp);
}

void steer_trace_refused(struct dataplane *dp, const struct kv_query *query,
			 const struct kv_trace_from *from, __u32 status)
{
	if (!kv_read_once(dp->tracing->sample))
		return;
	dp->call->op = KV_CALL_TRACE_END;
	dp->call->slot = KV_NONE;
	dp->call->dispatch.trace = 0;
	dp->call->dispatch.query = *query;
	dp->call->from = *from;
	dp->call->status = status;
	call_kernel(dp);
}
