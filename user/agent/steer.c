// SPDX-License-Identifier: BSD-2-Clause
#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>

#include "agent/steer.h"
#include "common/log.h"

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

__u32 steer_decide(struct dataplane *dp, struct kv_dispatch *dispatch, const __u64 *mask,
		   __u32 *ret_matched)
{
	dp->call->op = KV_CALL_DECIDE;
	dp->call->slot = KV_NONE;
	dp->call->dispatch = *dispatch;
	dp->call->masked = !!mask;
	if (mask)
		memcpy(dp->call->mask, mask, sizeof(dp->call->mask));
	if (call_kernel(dp))
		return KV_NONE;
	*dispatch = dp->call->dispatch;
	*ret_matched = dp->call->choice.matched;
	return dp->call->choice.backend;
}

void steer_undo(struct dataplane *dp, const struct kv_dispatch *dispatch)
{
	dp->call->op = KV_CALL_UNDO;
	dp->call->slot = KV_NONE;
	dp->call->dispatch = *dispatch;
	call_kernel(dp);
}

void steer_settle(struct dataplane *dp, __u32 slot, enum kv_call_op op)
{
	dp->call->op = op;
	dp->call->slot = slot;
	call_kernel(dp);
}
