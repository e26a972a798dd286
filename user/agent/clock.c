// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <string.h>
#include <sys/timerfd.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "agent/client.h"
#include "agent/clock.h"
#include "agent/discover.h"
#include "agent/events.h"
#include "agent/handover.h"
#include "agent/listen.h"
#include "agent/pool.h"
#include "agent/restart.h"
#include "agent/sweep.h"
#include "common/log.h"

#define TICK_FAST_MS 20
#define TICK_SLOW_MS 500
#define TICK_STAY (100 * MS) /* fast for this long after the last reason */

/* By timerfd, not by evtimer: with a timeout in epoll_wait the kernel would set and cancel a
 * timer around every sleep, which in a virtual machine costs more than the rest of the system
 * call. */
static int timer_set(int fd, long msec)
{
	struct timespec every = {.tv_sec = msec / 1000, .tv_nsec = msec % 1000 * MS};
	struct itimerspec spec = {.it_interval = every, .it_value = every};

	return timerfd_settime(fd, 0, &spec, NULL) < 0 ? -errno : 0;
}

static void timer_read(int fd)
{
	__u64 times;

	/* How often it is due does not matter, only that it is read. */
	if (read(fd, &times, sizeof(times)) < 0 && errno != EAGAIN)
		kv_debug("timer: %s", strerror(errno));
}

static int timer_add(struct agent *agent, struct event *event, event_callback_fn fn, long msec)
{
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	int err = fd < 0 ? -errno : timer_set(fd, msec);

	if (err) {
		kv_err("cannot make a timer: %s", strerror(-err));
		if (fd >= 0)
			close(fd);
		return err;
	}
	event_assign(event, agent->base, fd, EV_READ | EV_PERSIST, fn, agent);
	event_add(event, NULL);
	return 0;
}

static void timer_remove(struct event *event)
{
	if (!event_initialized(event))
		return;
	event_del(event);
	close(event_get_fd(event));
}

/* ---- the tick ------------------------------------------------------------------------ */

static void clock_pace(struct agent *agent, bool fast)
{
	if (fast == agent->tick_fast || !event_initialized(&agent->tick))
		return;
	if (!timer_set(event_get_fd(&agent->tick), fast ? TICK_FAST_MS : TICK_SLOW_MS))
		agent->tick_fast = fast;
}

void clock_hurry(struct agent *agent)
{
	agent->tick_fast_until = kv_now_ns() + TICK_STAY;
	clock_pace(agent, true);
}

static void tell_ready(struct agent *agent)
{
	__u32 up = 0, all = 0;

	for (__u32 i = 0; i < agent->dp.max_backends; i++) {
		all += agent->dp.backends[i].state != KV_BACKEND_FREE;
		up += agent->dp.backends[i].state == KV_BACKEND_UP;
	}
	agent->ready = true;
	kv_info("ready: %u of %u backends up", up, all);
	sd_notifyf(0, "READY=1\nSTATUS=%u of %u backends up", up, all);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct agent *agent = arg;
	__u64 now_ns = kv_now_ns();

	(void)what;
	timer_read(fd);
	/* The pools also look for slots that ended: what the kernel has to say of them goes first.
	 */
	events_consume(agent);
	restart_tick(agent, now_ns);
	handover_tick(agent, now_ns);
	pool_tick(agent, now_ns);
	client_rechecks(agent);
	if (!agent->ready && pools_known(agent))
		tell_ready(agent);
	if (agent->draining && (!agent->n_clients || now_ns >= agent->drain_until)) {
		if (agent->n_clients)
			kv_warn("%u client connections did not end in time", agent->n_clients);
		event_base_loopbreak(agent->base);
	}
	if (!agent->ready || agent->draining || pools_busy(agent) || clients_waiting(agent))
		clock_hurry(agent);
	else if (now_ns >= agent->tick_fast_until)
		clock_pace(agent, false);
}

static void on_second(evutil_socket_t fd, short what, void *arg)
{
	struct agent *agent = arg;
	__u64 now_ns = kv_now_ns();

	(void)what;
	timer_read(fd);
	dataplane_write_meta(&agent->dp, agent->started_ns, now_ns);
	sd_notify(0, "WATCHDOG=1");
	if (!restart_anew(agent))
		listen_resume(agent);
	sweep(agent, now_ns);
	handover_second(agent, now_ns);
	discover_second(agent);
}

int clock_open(struct agent *agent)
{
	int err = timer_add(agent, &agent->tick, on_tick, TICK_FAST_MS);

	agent->tick_fast = true;
	return err ? err : timer_add(agent, &agent->second, on_second, 1000);
}

void clock_close(struct agent *agent)
{
	timer_remove(&agent->tick);
	timer_remove(&agent->second);
}
