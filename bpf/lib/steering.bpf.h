/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The world of kvsteer/steer.h over BPF maps. */
#ifndef KVSTEER_STEERING_BPF_H
#define KVSTEER_STEERING_BPF_H

#include "maps.bpf.h"
#include <kvsteer/steer.h>
#include <kvsteer/tell.h>

static const struct kv_session kv_no_session;

static __always_inline struct kv_prefix_set *kv_world_prefix_set(__u64 hash)
{
	__u32 at = kv_prefix_set_of(hash, kv_config.prefix_key, kv_config.prefix_sets);

	return bpf_map_lookup_elem(&kv_prefixes, &at);
}

static __always_inline struct kv_session *kv_world_session(__u64 key)
{
	return bpf_map_lookup_elem(&kv_sessions, &key);
}

static __always_inline struct kv_session *kv_world_session_create(__u64 key)
{
	bpf_map_update_elem(&kv_sessions, &key, &kv_no_session, BPF_NOEXIST);
	return bpf_map_lookup_elem(&kv_sessions, &key);
}

static __always_inline struct kv_backend *kv_world_backend(__u32 id)
{
	return bpf_map_lookup_elem(&kv_backends, &id);
}

static __always_inline struct kv_service *kv_world_service(__u32 id)
{
	return bpf_map_lookup_elem(&kv_services, &id);
}

static __always_inline __u64 kv_world_ns(void)
{
	return bpf_ktime_get_ns();
}

static __always_inline __u32 kv_world_random(void)
{
	return bpf_get_prandom_u32();
}

/* Atomic: the syscall program can be interrupted by a tc program on its CPU. */
static __always_inline void kv_world_count(enum kv_counter counter)
{
	__u32 key = counter;
	__u64 *value = bpf_map_lookup_elem(&kv_counters, &key);

	if (value)
		kv_atomic_add(value, 1);
}

#endif /* KVSTEER_STEERING_BPF_H */
