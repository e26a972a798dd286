/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The maps. Their values are laid out in include/kvsteer/shared.h; sizes given here as 1 are set by
 * the agent before load, from its configuration. All hashes are preallocated: memory is bounded and
 * known, and sleepable programs accept nothing else before 6.6.
 */
#ifndef KVSTEER_MAPS_BPF_H
#define KVSTEER_MAPS_BPF_H

#include <kvsteer/counters.h>
#include <kvsteer/request.h>
#include <kvsteer/shared.h>

/* Set by the agent before load, constant for the verifier. */
const volatile struct {
	__u32 upstreams_per_backend;
	__u32 lo_ifindex;
	__u32 prefix_sets;
	__u32 zero;
	__u64 prefix_key;
} kv_config = {
	.upstreams_per_backend = 1,
	.lo_ifindex = 1,
	.prefix_sets = 1,
};

/*
 * A global function: the verifier checks it once, for any arguments, and not anew on every path
 * that leads to it. So pointers may be NULL for all it knows, and must be checked; what they point
 * to must be initialised by the caller (before 6.3). Weak, lest clang sees the callers and drops
 * those checks.
 */
#define KV_GLOBAL __weak __noinline

#define KV_MAP(name, kind, n, key_type, value_type, bits)                                          \
	struct {                                                                                   \
		__uint(type, kind);                                                                \
		__uint(max_entries, n);                                                            \
		__uint(map_flags, bits);                                                           \
		__type(key, key_type);                                                             \
		__type(value, value_type);                                                         \
	} name SEC(".maps")

KV_MAP(kv_meta, BPF_MAP_TYPE_ARRAY, 1, __u32, struct kv_meta, BPF_F_MMAPABLE);
KV_MAP(kv_service_ids, BPF_MAP_TYPE_HASH, KV_MAX_SERVICES * 64, struct kv_listen, __u32, 0);
KV_MAP(kv_services, BPF_MAP_TYPE_ARRAY, KV_MAX_SERVICES, __u32, struct kv_service, BPF_F_MMAPABLE);
KV_MAP(kv_backends, BPF_MAP_TYPE_ARRAY, KV_MAX_BACKENDS, __u32, struct kv_backend, BPF_F_MMAPABLE);
KV_MAP(kv_upstreams, BPF_MAP_TYPE_ARRAY, 1, __u32, struct kv_upstream, BPF_F_MMAPABLE);
KV_MAP(kv_dispatches, BPF_MAP_TYPE_ARRAY, 1, __u32, struct kv_dispatch, BPF_F_MMAPABLE);
KV_MAP(kv_offers, BPF_MAP_TYPE_ARRAY, 1, __u32, struct kv_offer, BPF_F_MMAPABLE);
KV_MAP(kv_upstream_ids, BPF_MAP_TYPE_HASH, 1, struct kv_tuple, __u32, 0);
KV_MAP(kv_clients, BPF_MAP_TYPE_HASH, 1, struct kv_tuple, struct kv_client, 0);
/* To be mapped, so that it begins at a page and its sets at a cache line. */
KV_MAP(kv_prefixes, BPF_MAP_TYPE_ARRAY, 1, __u32, struct kv_prefix_set, BPF_F_MMAPABLE);
KV_MAP(kv_sessions, BPF_MAP_TYPE_LRU_HASH, 1, __u64, struct kv_session, 0);
KV_MAP(kv_counters, BPF_MAP_TYPE_PERCPU_ARRAY, KV_CNT_MAX, __u32, __u64, 0);
KV_MAP(kv_agent_counters, BPF_MAP_TYPE_ARRAY, KV_CNT_MAX, __u32, __u64, BPF_F_MMAPABLE);
KV_MAP(kv_call, BPF_MAP_TYPE_ARRAY, 1, __u32, struct kv_call, BPF_F_MMAPABLE);
KV_MAP(kv_entry_call, BPF_MAP_TYPE_ARRAY, 1, __u32, struct kv_entry_call, BPF_F_MMAPABLE);
KV_MAP(kv_telling, BPF_MAP_TYPE_ARRAY, 1, __u32, struct kv_telling, BPF_F_MMAPABLE);
KV_MAP(kv_names, BPF_MAP_TYPE_ARRAY, 1, __u32, struct kv_names, 0);

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024);
} kv_events SEC(".maps");

KV_INLINE void kv_bump_n(enum kv_counter counter, __u64 n)
{
	__u32 key = counter;
	__u64 *value = bpf_map_lookup_elem(&kv_counters, &key);

	if (value)
		*value += n; /* per CPU, and tc runs with bottom halves off */
}

KV_INLINE void kv_bump(enum kv_counter counter)
{
	kv_bump_n(counter, 1);
}

#endif /* KVSTEER_MAPS_BPF_H */
