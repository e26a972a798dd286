// SPDX-License-Identifier: BSD-2-Clause
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "agent/pin.h"
#include "common/cleanup.h"
#include "common/log.h"
#include "common/pins.h"

#define PIN_PATH 512

int pin_prepare(const char *dir)
{
	char parent[PIN_PATH];
	struct statfs fs;
	char *slash;
	int err;

	snprintf(parent, sizeof(parent), "%s", dir);
	slash = strrchr(parent, '/');
	if (!slash || slash == parent) {
		kv_err("pin directory %s: must be a path inside a BPF file system", dir);
		return -EINVAL;
	}
	*slash = 0;
	if (mkdir(parent, 0755) < 0 && errno != EEXIST) {
		err = -errno;
		kv_err("pin directory %s: cannot create %s: %s", dir, parent, strerror(-err));
		return err;
	}
	if (statfs(parent, &fs) < 0) {
		err = -errno;
		kv_err("pin directory %s: %s: %s", dir, parent, strerror(-err));
		return err;
	}
	if (fs.f_type == BPF_FS_MAGIC)
		return 0;
	/* The usual place is ours to mount; over anything else we mount nothing. */
	if (!strcmp(parent, "/sys/fs/bpf") && !mount("bpf", parent, "bpf", 0, "mode=0700")) {
		kv_info("mounted a BPF file system on %s", parent);
		return 0;
	}
	kv_err("pin directory %s: %s is not a BPF file system: mount -t bpf bpf %s", dir, parent,
	       parent);
	return -ENOTSUP;
}

void pin_remove(const char *dir)
{
	_cleanup_closedir_ DIR *d = opendir(dir);
	const struct dirent *entry;

	if (!d)
		return;
	while ((entry = readdir(d)))
		if (entry->d_name[0] != '.')
			unlinkat(dirfd(d), entry->d_name, 0);
	if (rmdir(dir) < 0)
		kv_warn("pin directory %s: cannot remove: %s", dir, strerror(errno));
}

/* Scratch, kv_call, kv_entry_call, kv_offers and the programs' constants each agent makes for
 * itself. */
bool pin_wanted(const struct bpf_map *map)
{
	const char *name = bpf_map__name(map);

	for (int i = 0; i < KV_PIN_MAX; i++)
		if (!strcmp(name, kv_pin_name(i)))
			return true;
	return !strcmp(name, "kv_events") || !strcmp(name, "kv_recorders");
}

static __u32 map_id(int fd)
{
	struct bpf_map_info info = {};
	__u32 len = sizeof(info);

	return fd >= 0 && !bpf_obj_get_info_by_fd(fd, &info, &len) ? info.id : 0;
}

int pin_maps_again(struct bpf_object *object, const char *dir)
{
	char fresh[PIN_PATH + 80], path[PIN_PATH + 64];
	struct bpf_map *map;

	bpf_object__for_each_map (map, object) {
		_cleanup_close_ int pinned = -1;

		if (!pin_wanted(map))
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, bpf_map__name(map));
		pinned = bpf_obj_get(path);
		if (map_id(pinned) == map_id(bpf_map__fd(map)))
			continue;
		snprintf(fresh, sizeof(fresh), "%s-new", path);
		unlink(fresh);
		if (bpf_obj_pin(bpf_map__fd(map), fresh) || rename(fresh, path) < 0) {
			int err = -errno;

			kv_err("map %s: cannot pin: %s", path, strerror(-err));
			return err;
		}
	}
	return 0;
}

int pin_maps(struct bpf_object *object, const char *dir)
{
	char fresh[PIN_PATH], path[PIN_PATH + 64];
	struct bpf_map *map;
	int err;

	/* bpffs takes no dots in names. */
	snprintf(fresh, sizeof(fresh), "%s-new", dir);
	pin_remove(fresh);
	if (mkdir(fresh, 0700) < 0) {
		err = -errno;
		kv_err("pin directory %s: cannot create: %s%s", fresh, strerror(-err),
		       err == -EACCES || err == -EPERM ? ": run as root" : "");
		return err;
	}
	bpf_object__for_each_map (map, object) {
		if (!pin_wanted(map))
			continue;
		snprintf(path, sizeof(path), "%s/%s", fresh, bpf_map__name(map));
		err = bpf_map__pin(map, path);
		if (err) {
			kv_err("map %s: cannot pin: %s", path, strerror(-err));
			goto undo;
		}
	}
	pin_remove(dir);
	if (rename(fresh, dir) < 0) {
		err = -errno;
		kv_err("pin directory %s: cannot put in place: %s", dir, strerror(-err));
		goto undo;
	}
	return 0;
undo:
	pin_remove(fresh);
	return err;
}
