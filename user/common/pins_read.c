// SPDX-License-Identifier: BSD-2-Clause
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/pins.h"

#define BATCH 1024
/* A batch that cannot hold one hash bucket is refused by the kernel (ENOSPC): then twice as much.
 */
#define BATCH_MAX (BATCH << 8)

static const void *element(const struct kv_pins *pins, enum kv_pin pin, __u32 i)
{
	const struct kv_pinned_map *map = &pins->map[pin];

	if (!map->memory || i >= map->max_entries)
		return NULL;
	return (const char *)map->memory + kv_pinned_stride(map) * i;
}

const struct kv_service *kv_pins_service(const struct kv_pins *pins, __u32 i)
{
	return element(pins, KV_PIN_kv_services, i);
}

const struct kv_backend *kv_pins_backend(const struct kv_pins *pins, __u32 i)
{
	return element(pins, KV_PIN_kv_backends, i);
}

const struct kv_upstream *kv_pins_upstream(const struct kv_pins *pins, __u32 i)
{
	return element(pins, KV_PIN_kv_upstreams, i);
}

const struct kv_dispatch *kv_pins_dispatch(const struct kv_pins *pins, __u32 i)
{
	return element(pins, KV_PIN_kv_dispatches, i);
}

const struct kv_tracing *kv_pins_tracing(const struct kv_pins *pins)
{
	return element(pins, KV_PIN_kv_tracing, 0);
}

const struct kv_trace *kv_pins_trace(const struct kv_pins *pins, __u32 i)
{
	return element(pins, KV_PIN_kv_traces, i);
}

int kv_pins_counters(const struct kv_pins *pins, __u64 ret[KV_CNT_MAX])
{
	const struct kv_pinned_map *map = &pins->map[KV_PIN_kv_counters];
	int cpus = libbpf_num_possible_cpus();
	_cleanup_free_ __u64 *values = NULL;

	if (cpus < 0)
		return cpus;
	values = calloc(cpus, sizeof(*values));
	if (!values)
		return -ENOMEM;
	for (__u32 i = 0; i < KV_CNT_MAX; i++) {
		const __u64 *agent = element(pins, KV_PIN_kv_agent_counters, i);

		ret[i] = agent ? kv_read_once(*agent) : 0;
		if (map->fd < 0 || i >= map->max_entries)
			continue;
		if (bpf_map_lookup_elem(map->fd, &i, values))
			return -errno;
		for (int cpu = 0; cpu < cpus; cpu++)
			ret[i] += values[cpu];
	}
	return 0;
}

/* Entries that hold a lock are copied under it. */
static __u64 lock_flag(enum kv_pin pin)
{
	return pin == KV_PIN_kv_clients ? BPF_F_LOCK : 0;
}

int kv_pins_lookup(const struct kv_pins *pins, enum kv_pin pin, const void *key, void *value)
{
	if (pins->map[pin].fd < 0)
		return -ENOENT;
	if (bpf_map_lookup_elem_flags(pins->map[pin].fd, key, value, lock_flag(pin)))
		return -errno;
	return 0;
}

int kv_pins_each(const struct kv_pins *pins, enum kv_pin pin, kv_pins_fn fn, void *context)
{
	LIBBPF_OPTS(bpf_map_batch_opts, opts, .elem_flags = lock_flag(pin));
	const struct kv_pinned_map *map = &pins->map[pin];
	_cleanup_free_ char *keys = NULL, *values = NULL;
	__u32 cursor, size = BATCH, count;
	bool first = true;
	int err, rc;

	if (map->fd < 0)
		return 0;
	for (;;) {
		if (!keys) {
			keys = calloc(size, map->key_size);
			values = calloc(size, map->value_size);
			if (!keys || !values)
				return -ENOMEM;
		}
		count = size;
		err = bpf_map_lookup_batch(map->fd, first ? NULL : &cursor, &cursor, keys, values,
					   &count, &opts)
			      ? -errno
			      : 0;
		if (err == -ENOSPC && !count && size < BATCH_MAX) {
			size *= 2;
			free(kv_take(keys));
			free(kv_take(values));
			continue;
		}
		if (err && err != -ENOENT)
			return err;
		for (__u32 i = 0; i < count; i++) {
			rc = fn(keys + (size_t)i * map->key_size,
				values + (size_t)i * map->value_size, context);
			if (rc)
				return rc;
		}
		if (err)
			return 0;
		first = false;
	}
}
