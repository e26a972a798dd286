// SPDX-License-Identifier: BSD-2-Clause
#include "common/pins.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/cleanup.h"

#define HEARTBEAT_LATE_NS 3000000000ull

static const struct {
	const char *name;
	__u32 value_size;
	bool mapped;
} pins_table[] = {
#define PIN_ROW(name, size, mapped) [KV_PIN_##name] = {#name, size, mapped},
	KV_PINNED_MAPS(PIN_ROW)
#undef PIN_ROW
};

const char *kv_pin_name(enum kv_pin pin)
{
	return pins_table[pin].name;
}

bool kv_meta_alive(const struct kv_meta *meta, __u64 now_ns)
{
	/* The agent may beat between the caller's look at the clock and at the map. */
	return meta->agent_pid && meta->heartbeat_ns + HEARTBEAT_LATE_NS > now_ns;
}

static int map_memory(struct kv_pinned_map *map, bool write)
{
	size_t page = sysconf(_SC_PAGESIZE);
	size_t len = (kv_pinned_stride(map) * map->max_entries + page - 1) / page * page;
	void *memory =
		mmap(NULL, len, PROT_READ | (write ? PROT_WRITE : 0), MAP_SHARED, map->fd, 0);

	if (memory == MAP_FAILED)
		return -errno;
	map->memory = memory;
	map->memory_len = len;
	return 0;
}

static int open_one(const char *dir, enum kv_pin pin, bool write, struct kv_pinned_map *map,
		    char *err, size_t errlen)
{
	/* mmap of a read-only file is not a shared mapping for the kernel, and BPF maps have no
	 * other: what is mapped is opened for writing, and mapped for reading. */
	bool read_only = !write && !pins_table[pin].mapped;
	LIBBPF_OPTS(bpf_obj_get_opts, opts, .file_flags = read_only ? BPF_F_RDONLY : 0);
	const char *name = pins_table[pin].name;
	struct bpf_map_info info = {0};
	__u32 len = sizeof(info);
	char path[PATH_MAX];
	int ret;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, name) >= sizeof(path)) {
		snprintf(err, errlen, "%s: name too long", dir);
		return -ENAMETOOLONG;
	}
	map->fd = bpf_obj_get_opts(path, &opts);
	if (map->fd < 0) {
		ret = -errno;
		if (ret == -ENOENT && pin != KV_PIN_kv_meta)
			return 0;
		if (ret == -ENOENT || ret == -ENOTDIR)
			snprintf(err, errlen,
				 "%s: nothing of kvsteer is pinned there: start kvsteerd, or name "
				 "its directory with --pin",
				 dir);
		else if (ret == -EACCES || ret == -EPERM)
			snprintf(err, errlen, "%s: no permission: run as root", path);
		else
			snprintf(err, errlen, "%s: cannot open: %s", path, strerror(-ret));
		return ret;
	}
	if (bpf_obj_get_info_by_fd(map->fd, &info, &len)) {
		ret = -errno;
		snprintf(err, errlen, "%s: cannot look at map: %s", path, strerror(-ret));
		return ret;
	}
	map->key_size = info.key_size;
	map->value_size = info.value_size;
	map->max_entries = info.max_entries;
	return 0;
}

static int check_one(const char *dir, enum kv_pin pin, bool write, struct kv_pinned_map *map,
		     char *err, size_t errlen)
{
	__u32 want = pins_table[pin].value_size;
	int ret;

	if (map->fd < 0)
		return 0;
	if (want && map->value_size != want) {
		snprintf(err, errlen,
			 "%s/%s: values of %u bytes, not %u: pinned by another build of kvsteerd; "
			 "use its own kvsteer, or start this kvsteerd anew",
			 dir, pins_table[pin].name, map->value_size, want);
		return -EPROTO;
	}
	if (!pins_table[pin].mapped)
		return 0;
	ret = map_memory(map, write);
	if (ret)
		snprintf(err, errlen, "%s/%s: cannot map into memory: %s", dir,
			 pins_table[pin].name, strerror(-ret));
	return ret;
}

/* The schema is looked at before any size: it is what tells the user which side is older. */
static int check_meta(const char *dir, struct kv_pins *pins, char *err, size_t errlen)
{
	int ret;

	if (pins->map[KV_PIN_kv_meta].value_size < 2 * sizeof(__u32) ||
	    pins->map[KV_PIN_kv_meta].value_size > sizeof(pins->meta)) {
		snprintf(err, errlen, "%s/kv_meta: not kvsteer's", dir);
		return -EPROTO;
	}
	ret = kv_pins_meta(pins, &pins->meta);
	if (ret) {
		snprintf(err, errlen, "%s/kv_meta: cannot read: %s", dir, strerror(-ret));
		return ret;
	}
	if (pins->meta.magic != KV_MAGIC) {
		snprintf(err, errlen, "%s/kv_meta: not kvsteer's, or kvsteerd is still starting",
			 dir);
		return -EPROTO;
	}
	if (pins->meta.schema != KV_SCHEMA) {
		snprintf(err, errlen,
			 "%s: maps of schema %u, this program knows schema %u: use the kvsteer of "
			 "the %s version",
			 dir, pins->meta.schema, KV_SCHEMA,
			 pins->meta.schema > KV_SCHEMA ? "newer" : "older");
		return -EPROTO;
	}
	return 0;
}

int kv_pins_open(const char *dir, bool write, struct kv_pins **ret, char *err, size_t errlen)
{
	_cleanup_pins_ struct kv_pins *pins = calloc(1, sizeof(*pins));
	int rc = 0;

	if (!pins) {
		snprintf(err, errlen, "out of memory");
		return -ENOMEM;
	}
	for (int i = 0; i < KV_PIN_MAX; i++)
		pins->map[i].fd = -1;
	for (int i = 0; !rc && i < KV_PIN_MAX; i++)
		rc = open_one(dir, i, write, &pins->map[i], err, errlen);
	if (!rc)
		rc = check_meta(dir, pins, err, errlen);
	for (int i = 0; !rc && i < KV_PIN_MAX; i++)
		rc = check_one(dir, i, write, &pins->map[i], err, errlen);
	if (rc)
		return rc;
	*ret = kv_take(pins);
	return 0;
}

void kv_pins_close(struct kv_pins *pins)
{
	if (!pins)
		return;
	for (int i = 0; i < KV_PIN_MAX; i++) {
		if (pins->map[i].memory)
			munmap(pins->map[i].memory, pins->map[i].memory_len);
		if (pins->map[i].fd >= 0)
			close(pins->map[i].fd);
	}
	free(pins);
}

int kv_pins_meta(const struct kv_pins *pins, struct kv_meta *ret)
{
	struct kv_meta meta = {0};
	__u32 zero = 0;

	if (bpf_map_lookup_elem(pins->map[KV_PIN_kv_meta].fd, &zero, &meta))
		return -errno;
	*ret = meta;
	return 0;
}
