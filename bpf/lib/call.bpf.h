/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The agent's way into the steering code (BPF_PROG_RUN): decisions, and what engines have told. */
#ifndef KVSTEER_CALL_BPF_H
#define KVSTEER_CALL_BPF_H

#include "record.bpf.h"
#include "trace.bpf.h"

KV_MAP(kv_agent_steer, BPF_MAP_TYPE_ARRAY, 1, __u32, struct kv_steer, 0);

SEC("syscall")
int kv_agent_call(void *ctx)
{
	__u32 zero = 0, slot;
	struct kv_call *call = bpf_map_lookup_elem(&kv_call, &zero);
	struct kv_steer *steer = bpf_map_lookup_elem(&kv_agent_steer, &zero);
	struct kv_dispatch *d;

	if (!call || !steer)
		return 1;
	if (call->op == KV_CALL_DECIDE) {
		steer->query = call->dispatch.query;
		steer->masked = call->masked;
		__builtin_memcpy(steer->mask, call->mask, sizeof(steer->mask));
		if (!kv_steer_decide(steer)) {
			call->dispatch.trace = kv_trace_decided(steer, &call->from);
			kv_steer_commit(steer, &call->dispatch);
			kv_record(&call->dispatch);
		}
		call->choice = steer->choice;
		return 0;
	}
	if (call->op == KV_CALL_TRACE_END) {
		if (call->dispatch.trace)
			kv_trace_ended(call->dispatch.trace, call->end, call->status, call->bytes,
				       call->closed);
		else
			kv_trace_refused(&call->from, &call->dispatch.query, call->status);
		return 0;
	}
	if (call->op == KV_CALL_UNDO) {
		kv_trace_ended(call->dispatch.trace, KV_TRACE_AGAIN, 0, 0, 0);
		kv_dispatch_failed(&call->dispatch);
		kv_record(&call->dispatch);
		return 0;
	}
	slot = call->slot;
	d = bpf_map_lookup_elem(&kv_dispatches, &slot);
	if (!d)
		return 1;
	if (call->op == KV_CALL_SETTLE_ANSWERED || call->op == KV_CALL_SETTLE_REFUSED)
		kv_trace_answered(d->trace, call->status);
	if (call->op == KV_CALL_SETTLE_ANSWERED) {
		kv_dispatch_answered(d);
	} else if (call->op == KV_CALL_SETTLE_REFUSED) {
		kv_dispatch_refused(d);
	} else if (call->op == KV_CALL_SETTLE_FINISHED) {
		kv_dispatch_finished(d);
	} else {
		kv_trace_ended(d->trace, KV_TRACE_AGAIN, 0, 0, 0);
		kv_dispatch_failed(d);
		kv_record(d);
	}
	return 0;
}

/* Scratch of its own: engines may be heard by another thread than the one that decides. */
KV_MAP(kv_tell_steer, BPF_MAP_TYPE_ARRAY, 1, __u32, struct kv_steer, 0);

SEC("syscall")
int kv_agent_tell(void *ctx)
{
	__u32 zero = 0;
	struct kv_telling *telling = bpf_map_lookup_elem(&kv_telling, &zero);
	struct kv_steer *steer = bpf_map_lookup_elem(&kv_tell_steer, &zero);

	return telling && steer ? kv_tell(steer, telling) : 1;
}

#endif
