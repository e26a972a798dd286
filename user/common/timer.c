// SPDX-License-Identifier: BSD-2-Clause
#include "common/timer.h"

#include <errno.h>
#include <event2/event.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "common/log.h"

static void on_due(evutil_socket_t fd, short what, void *arg)
{
	struct kv_timer *t = arg;
	uint64_t times;

	(void)what;
	/* How often it was due does not matter. Nothing to read: it has been set again meanwhile.
	 */
	if (read(fd, &times, sizeof(times)) == sizeof(times))
		t->fn(t->arg);
}

int kv_timer_open(struct kv_timer *t, struct event_base *base, void (*fn)(void *arg), void *arg)
{
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC), err = -errno;

	if (fd < 0) {
		kv_err("cannot make a timer: %s", strerror(-err));
		return err;
	}
	t->fn = fn;
	t->arg = arg;
	event_assign(&t->event, base, fd, EV_READ | EV_PERSIST, on_due, t);
	event_add(&t->event, NULL);
	return 0;
}

void kv_timer_set(struct kv_timer *t, uint64_t first_ms, uint64_t every_ms)
{
	struct itimerspec spec = {
		.it_interval = {every_ms / 1000, every_ms % 1000 * 1000000},
		/* all zero would stop it */
		.it_value = {first_ms / 1000, first_ms % 1000 * 1000000 + !first_ms},
	};

	timerfd_settime(event_get_fd(&t->event), 0, &spec, NULL);
}

void kv_timer_close(struct kv_timer *t)
{
	if (!t->fn)
		return;
	event_del(&t->event);
	close(event_get_fd(&t->event));
	t->fn = NULL;
}
