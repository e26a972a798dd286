// SPDX-License-Identifier: BSD-2-Clause
#include "engines/file_watch.h"

#include <errno.h>
#include <event2/event_struct.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "engines/time.h"

/* The directory is watched, not the file: a new one of its name is another inode. */
#define LOST (IN_MOVE_SELF | IN_DELETE_SELF | IN_IGNORED) /* the directory is another one */
#define EVENTS                                                                                     \
	(IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE | IN_MODIFY | IN_MOVE_SELF | IN_DELETE_SELF)
#define LOST_AGAIN_MS 1000

struct text {
	char *p; /* NULL: none */
	size_t len;
};

struct file_watch {
	char path[PATH_MAX];
	int fd;
	int wd; /* -1: there is no such directory now */
	struct event readable;
	struct event settled;
	struct text now;  /* in force */
	struct text next; /* to be seen once more before it is */
	bool unreadable;
	void (*changed)(void *arg, const char *text, size_t len);
	void *arg;
};

static int read_file(const char *path, char **ret_text, size_t *ret_len)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	_cleanup_free_ char *text = NULL;
	size_t len = 0, size = 0;
	ssize_t n = 1;

	if (fd < 0)
		return -errno;
	while (n) {
		if (len + 1 >= size) {
			char *grown = realloc(text, size = size ? size * 2 : 4096);

			if (!grown)
				return -ENOMEM;
			text = grown;
		}
		n = read(fd, text + len, size - len - 1);
		if (n < 0)
			return -errno;
		len += n;
		if (len > FILE_WATCH_MAX)
			return -EFBIG;
	}
	text[len] = 0;
	*ret_text = kv_take(text);
	*ret_len = len;
	return 0;
}

static bool same(const struct text *a, const struct text *b)
{
	return a->p && b->p && a->len == b->len && !memcmp(a->p, b->p, a->len);
}

static int watch(struct file_watch *w)
{
	char dir[PATH_MAX];

	snprintf(dir, sizeof(dir), "%s", w->path);
	w->wd = inotify_add_watch(w->fd, dirname(dir), EVENTS);
	return w->wd < 0 ? -errno : 0;
}

static void wait_a_little(struct file_watch *w)
{
	struct timeval wait = ms_timeval(w->wd < 0 ? LOST_AGAIN_MS : FILE_WATCH_SETTLE_MS);

	if (!evtimer_pending(&w->settled, NULL))
		evtimer_add(&w->settled, &wait);
}

/* Half a file may be a file of half the backends: a text counts when it has not changed for a
 * while. */
static void on_settled(evutil_socket_t fd, short what, void *arg)
{
	struct file_watch *w = arg;
	struct text text = {};
	bool seen_before;
	int err;

	(void)fd;
	(void)what;
	/* before the look: what changes in between is seen */
	if (w->wd < 0 && watch(w))
		wait_a_little(w);
	err = read_file(w->path, &text.p, &text.len);
	seen_before = same(&text, &w->next);
	if (err && !w->unreadable)
		kv_warn("%s: %s; what it said before stays in force", w->path, strerror(-err));
	w->unreadable = err;
	free(w->next.p);
	w->next = text;
	if (err || same(&text, &w->now))
		return;
	if (!seen_before) {
		wait_a_little(w);
		return;
	}
	free(w->now.p);
	w->now = text;
	w->next = (struct text){};
	w->changed(w->arg, text.p, text.len);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	char events[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	struct file_watch *w = arg;
	const struct inotify_event *e;
	ssize_t n;

	(void)what;
	while ((n = read(fd, events, sizeof(events))) > 0)
		for (ssize_t at = 0; at < n; at += sizeof(*e) + e->len) {
			e = (const struct inotify_event *)(events + at);
			if (e->wd != w->wd || !(e->mask & LOST))
				continue;
			/* one that was moved away is still watched */
			inotify_rm_watch(w->fd, w->wd);
			w->wd = -1;
		}
	/* whichever file it was: a link may lead anywhere */
	wait_a_little(w);
}

int file_watch_new(struct event_base *base, const char *path,
		   void (*changed)(void *arg, const char *text, size_t len), void *arg,
		   struct file_watch **ret)
{
	struct file_watch *w;
	int err;

	if (strlen(path) >= PATH_MAX)
		return -ENAMETOOLONG;
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	strcpy(w->path, path);
	w->changed = changed;
	w->arg = arg;
	w->wd = -1;
	w->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	evtimer_assign(&w->settled, base, on_settled, w);
	event_assign(&w->readable, base, -1, 0, on_readable, w);
	/* before the first look: what changes in between is seen */
	err = w->fd < 0 ? -errno : watch(w);
	if (!err)
		err = read_file(path, &w->now.p, &w->now.len);
	if (err) {
		file_watch_free(w);
		return err;
	}
	event_assign(&w->readable, base, w->fd, EV_READ | EV_PERSIST, on_readable, w);
	event_add(&w->readable, NULL);
	*ret = w;
	return 0;
}

uint64_t file_watch_digest(const struct file_watch *w)
{
	return XXH3_64bits(w->now.p ? w->now.p : "", w->now.len) | 1;
}

void file_watch_known(struct file_watch *w, uint64_t digest)
{
	if (file_watch_digest(w) == digest)
		return;
	free(w->now.p);
	w->now = (struct text){};
	wait_a_little(w);
}

void file_watch_free(struct file_watch *w)
{
	if (!w)
		return;
	event_del(&w->readable);
	event_del(&w->settled);
	if (w->fd >= 0)
		close(w->fd);
	free(w->now.p);
	free(w->next.p);
	free(w);
}
