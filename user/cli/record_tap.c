// SPDX-License-Identifier: BSD-2-Clause
#include "record_tap.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"

#define LEASE_NS 3000000000ull
#define SETTLE_NS 20000000 /* for programs that are running now */

struct record_tap {
	struct kv_recording *lease; /* NULL: not ours */
	__u64 lost;		    /* its count at the beginning */
	__u64 until_ns, deaf_ns;
	const char *dir;
	int recorders, ring_fd;
	struct ring_buffer *ring;
	tap_fn fn;
	void *context;
};

static int __attribute__((format(printf, 3, 4))) fail(char *err, int code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(err, TAP_ERROR_LEN, format, args);
	va_end(args);
	return code;
}

static int on_record(void *context, void *data, size_t len)
{
	const struct record_tap *tap = context;
	const size_t before = offsetof(struct kv_dispatch, query.rungs);
	struct kv_dispatch d;
	size_t n;

	if (len < before || len > sizeof(d))
		return 0;
	memcpy(&d, data, len);
	n = (len - before) / sizeof(struct kv_rung);
	if (d.query.n_rungs > n)
		d.query.n_rungs = n;
	return tap->fn(&d, tap->context);
}

static int map_lease(const struct kv_pins *pins, struct kv_recording **ret)
{
	void *memory;

	memory = mmap(NULL, sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE, MAP_SHARED,
		      pins->map[KV_PIN_kv_recording].fd, 0);
	if (memory == MAP_FAILED)
		return -errno;
	*ret = memory;
	return 0;
}

static void unmap_lease(struct kv_recording *lease)
{
	munmap(lease, sysconf(_SC_PAGESIZE));
}

/* One recording at a time: whoever has a lease that has not run out. */
static int take_lease(struct record_tap *tap, const struct kv_pins *pins, char *err)
{
	struct kv_recording *lease = NULL;
	__u32 owner;
	int rc = map_lease(pins, &lease);

	if (rc)
		return fail(err, rc, "cannot map kv_recording into memory: %s", strerror(-rc));
	owner = kv_read_once(lease->owner);
	if ((owner && kv_read_once(lease->until_ns) > kv_now_ns()) ||
	    kv_atomic_cas(&lease->owner, owner, (__u32)getpid()) != owner) {
		unmap_lease(lease);
		return fail(err, -EBUSY, "another recording is under way (process %u)", owner);
	}
	tap->lease = lease;
	tap->lost = lease->lost;
	return 0;
}

static int open_recorders(const char *dir)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/kv_recorders", dir);
	return bpf_obj_get(path);
}

static int open_tap(struct record_tap *tap, const struct tap_options *o, const struct kv_pins *pins,
		    char *err)
{
	__u32 zero = 0;
	int rc;

	tap->recorders = open_recorders(o->dir);
	if (tap->recorders < 0 || pins->map[KV_PIN_kv_recording].fd < 0)
		return fail(err, -ENOENT,
			    "%s/kv_recorders: %s: expected a kvsteerd that can be "
			    "recorded: kvsteer restart starts the one that is installed",
			    o->dir, strerror(tap->recorders < 0 ? errno : ENOENT));
	tap->ring_fd =
		bpf_map_create(BPF_MAP_TYPE_RINGBUF, "kv_record_ring", 0, 0, o->buffer, NULL);
	if (tap->ring_fd < 0)
		return fail(err, -errno, "cannot make a ring buffer: %s", strerror(errno));
	tap->ring = ring_buffer__new(tap->ring_fd, on_record, tap, NULL);
	if (!tap->ring)
		return fail(err, -errno, "cannot map the ring buffer: %s", strerror(errno));
	rc = take_lease(tap, pins, err);
	if (rc)
		return rc;
	tap->lease->service = o->service;
	if (bpf_map_update_elem(tap->recorders, &zero, &tap->ring_fd, BPF_ANY))
		return fail(err, -errno, "cannot hand the ring buffer to the gateway: %s",
			    strerror(errno));
	tap->until_ns = UINT64_MAX; /* not begun yet */
	rc = tap_renew(tap);
	return rc ? fail(err, rc, "another recording has begun") : 0;
}

int tap_open(const struct tap_options *options, const struct kv_pins *pins, struct record_tap **ret,
	     char *err)
{
	_cleanup_(tap_cleanup) struct record_tap *tap = calloc(1, sizeof(*tap));
	int rc;

	if (!tap)
		return fail(err, -ENOMEM, "out of memory");
	tap->recorders = tap->ring_fd = -1;
	tap->dir = options->dir;
	tap->fn = options->fn;
	tap->context = options->context;
	rc = open_tap(tap, options, pins, err);
	if (!rc)
		*ret = kv_take(tap);
	return rc;
}

int tap_hear(struct record_tap *tap)
{
	int rc = ring_buffer__consume(tap->ring);

	return rc > 0 ? 0 : rc;
}

static bool is_ours(const struct record_tap *tap)
{
	return kv_read_once(tap->lease->owner) == (__u32)getpid();
}

static __u32 map_id(int fd)
{
	struct bpf_map_info info = {0};
	__u32 len = sizeof(info);

	return fd >= 0 && !bpf_obj_get_info_by_fd(fd, &info, &len) ? info.id : 0;
}

/* An agent of another version may have made these maps anew. */
static bool is_replaced(const struct record_tap *tap)
{
	_cleanup_close_ int fd = open_recorders(tap->dir);

	return fd >= 0 && map_id(fd) != map_id(tap->recorders);
}

int tap_renew(struct record_tap *tap)
{
	__u64 now = kv_now_ns();

	if (!is_ours(tap))
		return -ESTALE;
	if (is_replaced(tap))
		return -ENOLINK;
	if (now > tap->until_ns)
		tap->deaf_ns += now - tap->until_ns;
	tap->until_ns = now + LEASE_NS;
	kv_write_once(tap->lease->until_ns, tap->until_ns);
	return 0;
}

void tap_shut(struct record_tap *tap)
{
	const struct timespec pause = {.tv_nsec = SETTLE_NS};

	if (!is_ours(tap))
		return;
	kv_write_once(tap->lease->until_ns, 0);
	nanosleep(&pause, NULL);
}

__u64 tap_lost(const struct record_tap *tap)
{
	return kv_read_once(tap->lease->lost) - tap->lost;
}

__u64 tap_deaf_ns(const struct record_tap *tap)
{
	return tap->deaf_ns;
}

void tap_close(struct record_tap *tap)
{
	__u32 zero = 0;

	if (!tap)
		return;
	if (tap->lease) {
		/* Before 6.7 a map inside another goes at once, under a program that looks at it.
		 */
		tap_shut(tap);
		if (is_ours(tap)) {
			bpf_map_delete_elem(tap->recorders, &zero);
			kv_write_once(tap->lease->owner, 0);
		}
		unmap_lease(tap->lease);
	}
	ring_buffer__free(tap->ring);
	if (tap->ring_fd >= 0)
		close(tap->ring_fd);
	if (tap->recorders >= 0)
		close(tap->recorders);
	free(tap);
}
