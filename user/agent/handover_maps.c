// SPDX-License-Identifier: BSD-2-Clause
/*
 * Pinned maps of the agent before. They are used again only as a whole, and only if every one of
 * them is laid out as ours would be. Counters are the exception, which a version that knows more of
 * them begins anew, and so is what recordings and traces need.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/handover.h"
#include "agent/pin.h"
#include "common/log.h"

#define MAP_PATH (KV_CONFIG_PATH_LEN + 64)

static int open_pin(const char *dir, const char *name)
{
	char path[MAP_PATH];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return bpf_obj_get(path);
}

static bool same_sizes(const struct kv_meta *meta, const struct kv_config *config)
{
	return meta->upstreams_per_backend == config->upstreams_per_backend &&
	       meta->max_backends == config->max_backends &&
	       meta->max_clients == config->max_clients &&
	       meta->max_prefixes == config->max_prefixes &&
	       meta->max_sessions == config->max_sessions;
}

int handover_maps_meta(const struct kv_config *config)
{
	int fd = open_pin(config->pin, "kv_meta"), ret = -EPROTO;
	struct bpf_map_info info = {};
	__u32 zero = 0, len = sizeof(info);
	struct kv_meta meta = {};

	if (fd < 0)
		return -ENOENT;
	if (bpf_obj_get_info_by_fd(fd, &info, &len) || info.value_size > sizeof(meta) ||
	    bpf_map_lookup_elem(fd, &zero, &meta) || meta.magic != KV_MAGIC)
		kv_info("%s: not kvsteer's: replaced", config->pin);
	else if (meta.schema != KV_SCHEMA || info.value_size != sizeof(meta))
		kv_info("%s: maps of schema %u, ours is %u: not taken over", config->pin,
			meta.schema, KV_SCHEMA);
	else if (!same_sizes(&meta, config))
		kv_info("%s: maps of other sizes than configured: not taken over", config->pin);
	else
		ret = 0;
	close(fd);
	return ret;
}

static bool is_counters(const char *name)
{
	return !strcmp(name, "kv_counters") || !strcmp(name, "kv_agent_counters");
}

/* No request depends on them: recordings, traces. */
static bool is_recording(const char *name)
{
	return !strncmp(name, "kv_record", strlen("kv_record")) ||
	       !strncmp(name, "kv_trac", strlen("kv_trac"));
}

static bool fits(const struct bpf_map *map, int fd)
{
	struct bpf_map_info info = {};
	__u32 len = sizeof(info);

	return !bpf_obj_get_info_by_fd(fd, &info, &len) && info.type == bpf_map__type(map) &&
	       info.key_size == bpf_map__key_size(map) &&
	       info.value_size == bpf_map__value_size(map) &&
	       info.max_entries == bpf_map__max_entries(map) &&
	       info.map_flags == bpf_map__map_flags(map);
}

/* One map: 0, -ENOENT if it has to be made anew, -EPROTO if none can be taken over. */
static int take_one(struct bpf_map *map, const char *dir, bool reuse)
{
	const char *name = bpf_map__name(map);
	int fd = open_pin(dir, name), ret = 0;

	if (fd >= 0 && !fits(map, fd)) {
		if (!is_counters(name) && !is_recording(name)) {
			kv_info("%s/%s: laid out otherwise: not taken over", dir, name);
			ret = -EPROTO;
		} else {
			if (reuse && is_counters(name))
				kv_info("%s/%s: of a version with other counters: they begin anew",
					dir, name);
			ret = -ENOENT;
		}
	} else if (fd < 0) {
		ret = is_recording(name) ? -ENOENT : -EPROTO;
	}
	/* libbpf makes a descriptor of its own */
	if (!ret && reuse)
		ret = bpf_map__reuse_fd(map, fd);
	if (fd >= 0)
		close(fd);
	return ret;
}

int handover_maps(struct bpf_object *object, const struct kv_config *config, bool *ret_taken)
{
	struct bpf_map *map;
	int err = handover_maps_meta(config);

	*ret_taken = false;
	if (err)
		return 0;
	for (int reuse = 0; reuse < 2; reuse++)
		bpf_object__for_each_map (map, object) {
			if (!pin_wanted(map))
				continue;
			err = take_one(map, config->pin, reuse);
			if (err && err != -ENOENT)
				return reuse ? err : 0;
		}
	*ret_taken = true;
	return 0;
}
