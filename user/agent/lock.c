// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/lock.h"
#include "agent/supervisor.h"
#include "common/log.h"

/* First line: pid. Then one line per qdisc: its interface's index. */
static void lock_read(struct lock *lock, long *ret_pid)
{
	char text[2048], *next = text;
	ssize_t n = pread(lock->netns_fd, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = 0;
	*ret_pid = strtol(next, &next, 10);
	for (lock->n_qdiscs = 0; lock->n_qdiscs < LOCK_QDISCS; lock->n_qdiscs++) {
		char *end;
		long ifindex = strtol(next, &end, 10);

		if (end == next)
			return;
		lock->qdisc[lock->n_qdiscs] = ifindex;
		next = end;
	}
}

static void lock_write(struct lock *lock)
{
	char text[2048];
	int len = snprintf(text, sizeof(text), "%d\n", supervisor_pid());

	for (int i = 0; i < lock->n_qdiscs && len < (int)sizeof(text) - 16; i++)
		len += snprintf(text + len, sizeof(text) - len, "%d\n", lock->qdisc[i]);
	if (ftruncate(lock->netns_fd, 0) < 0 || pwrite(lock->netns_fd, text, len, 0) != len)
		kv_warn("%s: cannot write: %s", LOCK_DIR, strerror(errno));
}

static int lock_file(const char *path, int *ret_fd)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	int err;

	if (fd < 0) {
		err = -errno;
		kv_err("%s: %s%s", path, strerror(-err),
		       err == -EACCES || err == -EPERM ? ": run kvsteerd as root" : "");
		return err;
	}
	*ret_fd = fd;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return -EBUSY;
	return 0;
}

int lock_take(struct lock *lock, const char *pin)
{
	char path[512];
	struct stat st;
	long pid;
	int err;

	lock->netns_fd = -1;
	lock->pin_fd = -1;
	if (mkdir(LOCK_DIR, 0755) < 0 && errno != EEXIST) {
		err = -errno;
		kv_err("%s: cannot create: %s%s", LOCK_DIR, strerror(-err),
		       err == -EACCES || err == -EPERM ? ": run kvsteerd as root" : "");
		return err;
	}
	snprintf(path, sizeof(path), LOCK_DIR "/pin%s.lock", pin);
	for (char *p = path + strlen(LOCK_DIR "/"); *p; p++)
		if (*p == '/')
			*p = '-';
	err = lock_file(path, &lock->pin_fd);
	if (err == -EBUSY)
		kv_err("another kvsteerd uses the pins %s: stop it, or name others with --pin",
		       pin);
	if (err)
		return err;
	if (stat("/proc/self/ns/net", &st) < 0) {
		err = -errno;
		kv_err("/proc/self/ns/net: %s: mount /proc", strerror(-err));
		return err;
	}
	snprintf(path, sizeof(path), LOCK_DIR "/netns-%ju.lock", (uintmax_t)st.st_ino);
	err = lock_file(path, &lock->netns_fd);
	if (err == -EBUSY) {
		lock_read(lock, &pid);
		kv_err("another kvsteerd (pid %ld) runs in this network namespace: stop it first",
		       pid);
	}
	if (err)
		return err;
	lock_read(lock, &pid);
	lock_write(lock);
	return 0;
}

bool lock_has_qdisc(const struct lock *lock, int ifindex)
{
	for (int i = 0; i < lock->n_qdiscs; i++)
		if (lock->qdisc[i] == ifindex)
			return true;
	return false;
}

void lock_set_qdisc(struct lock *lock, int ifindex, bool ours)
{
	int kept = 0;

	for (int i = 0; i < lock->n_qdiscs; i++)
		if (lock->qdisc[i] != ifindex)
			lock->qdisc[kept++] = lock->qdisc[i];
	if (ours && kept < LOCK_QDISCS)
		lock->qdisc[kept++] = ifindex;
	lock->n_qdiscs = kept;
	lock_write(lock);
}

/* The files stay: removing one that another agent has just opened would let two of them run. */
void lock_release(struct lock *lock)
{
	if (lock->netns_fd >= 0)
		close(lock->netns_fd);
	if (lock->pin_fd >= 0)
		close(lock->pin_fd);
}
