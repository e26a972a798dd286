/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The pinned maps: names, opening, and reading. Works without the agent; what was written by
 * another schema than ours is refused.
 */
#ifndef KVSTEER_PINS_H
#define KVSTEER_PINS_H

#include <stdbool.h>
#include <stddef.h>

#include <kvsteer/counters.h>
#include <kvsteer/shared.h>

#include "common/clock.h"

/* Name; size of a value (0: not looked at); whether it is an array mapped into memory. */
/* clang-format off */
#define KV_PINNED_MAPS(X)                                                                          \
	X(kv_meta, sizeof(struct kv_meta), false)                                                  \
	X(kv_service_ids, 0, false)                                                                \
	X(kv_services, sizeof(struct kv_service), true)                                            \
	X(kv_backends, sizeof(struct kv_backend), true)                                            \
	X(kv_upstreams, sizeof(struct kv_upstream), true)                                          \
	X(kv_dispatches, sizeof(struct kv_dispatch), true)                                         \
	X(kv_upstream_ids, 0, false)                                                               \
	X(kv_clients, sizeof(struct kv_client), false)                                             \
	X(kv_prefixes, sizeof(struct kv_prefix_set), false)                                        \
	X(kv_sessions, sizeof(struct kv_session), false)                                           \
	X(kv_counters, sizeof(__u64), false)                                                       \
	X(kv_agent_counters, sizeof(__u64), true)                                                  \
	X(kv_names, 0, false)                                                                      \
	X(kv_recording, sizeof(struct kv_recording), true)                                         \
	X(kv_tracing, sizeof(struct kv_tracing), true)                                             \
	X(kv_traces, sizeof(struct kv_trace), true)
/* clang-format on */

enum kv_pin {
#define KV_PIN_ENUM(name, size, mapped) KV_PIN_##name,
	KV_PINNED_MAPS(KV_PIN_ENUM)
#undef KV_PIN_ENUM
		KV_PIN_MAX,
};

struct kv_pinned_map {
	int fd; /* -1: not pinned */
	__u32 key_size;
	__u32 value_size;
	__u32 max_entries;
	void *memory; /* mapped arrays; elements are value_size rounded up to 8 apart */
	size_t memory_len;
};

static inline size_t kv_pinned_stride(const struct kv_pinned_map *map)
{
	return (map->value_size + 7) & ~7ul;
}

struct kv_pins {
	struct kv_meta meta; /* as read at opening; kv_pins_meta reads it anew */
	struct kv_pinned_map map[KV_PIN_MAX];
};

const char *kv_pin_name(enum kv_pin pin);

/* Opens the maps pinned in dir; one line in err when that fails: -ENOENT nothing is pinned there,
 * -EPROTO another schema or layout, -EACCES/-EPERM no permission.
 * *ret is heap memory, to be freed with kv_pins_close. */
int kv_pins_open(const char *dir, bool write, struct kv_pins **ret, char *err, size_t errlen);
void kv_pins_close(struct kv_pins *pins);
static inline void kv_pins_cleanup(struct kv_pins **pins)
{
	kv_pins_close(*pins);
}
#define _cleanup_pins_ __attribute__((cleanup(kv_pins_cleanup)))

int kv_pins_meta(const struct kv_pins *pins, struct kv_meta *ret);
/* The agent's heart beat in the last 3 s. */
bool kv_meta_alive(const struct kv_meta *meta, __u64 now_ns);

/* Elements of the mapped arrays; NULL if there is no such index. */
const struct kv_service *kv_pins_service(const struct kv_pins *pins, __u32 i);
const struct kv_backend *kv_pins_backend(const struct kv_pins *pins, __u32 i);
const struct kv_upstream *kv_pins_upstream(const struct kv_pins *pins, __u32 i);
const struct kv_dispatch *kv_pins_dispatch(const struct kv_pins *pins, __u32 i);
const struct kv_tracing *kv_pins_tracing(const struct kv_pins *pins);
const struct kv_trace *kv_pins_trace(const struct kv_pins *pins, __u32 i);

/* Kernel's (summed over CPUs) and agent's counters together. */
int kv_pins_counters(const struct kv_pins *pins, __u64 ret[KV_CNT_MAX]);

/* Copies one entry of a hash or an array (under its lock where it has one). -ENOENT: not there. */
int kv_pins_lookup(const struct kv_pins *pins, enum kv_pin pin, const void *key, void *value);

/* The set of kv_prefixes that a prefix is in, if it is known; its holders, 0: an empty place
 * (-ENOENT: it is not known). */
int kv_pins_prefix_set(const struct kv_pins *pins, __u64 hash, struct kv_prefix_set *ret);
int kv_pins_prefix(const struct kv_pins *pins, __u64 hash, struct kv_prefix *ret);

/* Calls fn for every entry of a hash or an array, in batches, until it returns non-zero, which is
 * returned. Entries that come and go meanwhile may be missed; none is seen twice unless it moved.
 */
typedef int (*kv_pins_fn)(const void *key, const void *value, void *context);
int kv_pins_each(const struct kv_pins *pins, enum kv_pin pin, kv_pins_fn fn, void *context);

#endif
