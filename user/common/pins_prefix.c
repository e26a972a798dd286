// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>

#include <kvsteer/prefixes.h>

#include "common/pins.h"

int kv_pins_prefix_set(const struct kv_pins *pins, __u64 hash, struct kv_prefix_set *ret)
{
	__u32 at = kv_prefix_set_of(hash, pins->meta.prefix_key,
				    pins->map[KV_PIN_kv_prefixes].max_entries);

	return kv_pins_lookup(pins, KV_PIN_kv_prefixes, &at, ret);
}

int kv_pins_prefix(const struct kv_pins *pins, __u64 hash, struct kv_prefix *ret)
{
	struct kv_prefix_set set;
	int err = kv_pins_prefix_set(pins, hash, &set);

	if (err)
		return err;
	return kv_prefix_read(ret->holder, &set, hash) ? 0 : -ENOENT;
}
