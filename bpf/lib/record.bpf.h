/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What kvsteer record hears: every dispatch that is made or taken back, while its lease runs.
 * Nobody records: one look-up in an array of one, which is no call, and a comparison; no ring
 * buffer is there at all.
 */
#ifndef KVSTEER_RECORD_BPF_H
#define KVSTEER_RECORD_BPF_H

#include "steering.bpf.h"

KV_MAP(kv_recording, BPF_MAP_TYPE_ARRAY, 1, __u32, struct kv_recording, BPF_F_MMAPABLE);

/* The recorder makes the real one, of its own size. */
struct kv_record_ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct kv_record_ring);
} kv_recorders SEC(".maps");

static __noinline int kv_record_now(struct kv_dispatch *d, struct kv_recording *r)
{
	__u32 zero = 0, n = kv_read_once(d->query.n_rungs);
	void *ring = bpf_map_lookup_elem(&kv_recorders, &zero);

	if (!ring || (r->service != KV_NONE && r->service != d->query.service))
		return 0;
	if (n > KV_MAX_RUNGS)
		n = KV_MAX_RUNGS;
	/* To wake the recorder would be the packet's work: it looks by itself. */
	if (bpf_ringbuf_output(
		    ring, d, offsetof(struct kv_dispatch, query.rungs) + n * sizeof(struct kv_rung),
		    BPF_RB_NO_WAKEUP))
		kv_atomic_add(&r->lost, 1);
	return 0;
}

KV_INLINE void kv_record(struct kv_dispatch *d)
{
	__u32 zero = 0;
	struct kv_recording *r = bpf_map_lookup_elem(&kv_recording, &zero);

	if (r && d->at_ns < kv_read_once(r->until_ns))
		kv_record_now(d, r);
}

#endif /* KVSTEER_RECORD_BPF_H */
