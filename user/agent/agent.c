// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/client.h"
#include "agent/control.h"
#include "agent/events.h"
#include "agent/listen.h"
#include "agent/pool.h"
#include "agent/service.h"
#include "agent/sweep.h"
#include "agent/upstream.h"
#include "common/log.h"

#define OTHER_FILES 64 /* maps, programs, listeners, timers, control */

static void on_reap(evutil_socket_t fd, short what, void *arg)
{
	(void)fd, (void)what;
	clients_reap(arg);
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

static void timer_read(int fd)
{
	__u64 times;

	/* How often it is due does not matter, only that it is read. */
	if (read(fd, &times, sizeof(times)) < 0 && errno != EAGAIN)
		kv_debug("timer: %s", strerror(errno));
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct agent *agent = arg;

	(void)what;
	timer_read(fd);
	/* The pools also look for slots that ended: what the kernel has to say of them goes first.
	 */
	events_consume(agent);
	pool_tick(agent, kv_now_ns());
	client_rechecks(agent);
	if (!agent->ready && pools_known(agent))
		tell_ready(agent);
	if (agent->draining && (!agent->n_clients || kv_now_ns() >= agent->drain_until)) {
		if (agent->n_clients)
			kv_warn("%u client connections did not end in time", agent->n_clients);
		event_base_loopbreak(agent->base);
	}
}

static void on_second(evutil_socket_t fd, short what, void *arg)
{
	struct agent *agent = arg;
	__u64 now_ns = kv_now_ns();

	(void)what;
	timer_read(fd);
	dataplane_write_meta(&agent->dp, agent->started_ns, now_ns);
	sd_notify(0, "WATCHDOG=1");
	listen_resume(agent);
	sweep(agent, now_ns);
}

static void drain(struct agent *agent)
{
	kv_info("draining: requests in progress end, new connections are refused");
	sd_notify(0, "STOPPING=1\nSTATUS=draining");
	agent->draining = true;
	agent->drain_until = kv_now_ns() + agent->config->timeouts.drain_ms * MS;
	listen_close_all(agent);
	/* From here on the kernel lends no request; clients that are between requests are closed
	 * at the next second's sweep, when those under way have been lent or have come up. */
	for (__u32 i = 0; i < KV_MAX_SERVICES; i++)
		if (agent->dp.services[i].flags)
			kv_atomic_fetch_or(&agent->dp.services[i].flags, KV_SERVICE_DRAINING);
}

static void on_terminate(evutil_socket_t fd, short what, void *arg)
{
	struct agent *agent = arg;

	(void)fd, (void)what;
	if (agent->draining)
		event_base_loopbreak(agent->base);
	else
		drain(agent);
}

/* By timerfd, not by evtimer: with a timeout in epoll_wait the kernel would set and cancel a
 * timer around every sleep, which in a virtual machine costs more than the rest of the system
 * call. */
static int add_timer(struct agent *agent, struct event *event, event_callback_fn fn, long msec)
{
	struct timespec every = {.tv_sec = msec / 1000, .tv_nsec = msec % 1000 * MS};
	struct itimerspec spec = {.it_interval = every, .it_value = every};
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC), err;

	if (fd < 0 || timerfd_settime(fd, 0, &spec, NULL) < 0) {
		err = -errno;
		kv_err("cannot make a timer: %s", strerror(-err));
		if (fd >= 0)
			close(fd);
		return err;
	}
	event_assign(event, agent->base, fd, EV_READ | EV_PERSIST, fn, agent);
	event_add(event, NULL);
	return 0;
}

static void remove_timer(struct event *event)
{
	if (!event_initialized(event))
		return;
	event_del(event);
	close(event_get_fd(event));
}

static int open_names(struct agent *agent)
{
	const struct kv_config *config = agent->config;
	int err;

	for (__u32 i = 0; i < config->n_session_headers; i++) {
		err = kv_names_add(&agent->names, config->session_headers[i]);
		if (err) {
			kv_err("session header %s: not a header name that can be used for sessions",
			       config->session_headers[i]);
			return err;
		}
	}
	return dataplane_set_names(&agent->dp, &agent->names);
}

static int open_loop(struct agent *agent)
{
	static const int signals[] = {SIGTERM, SIGINT};

	agent->lock.netns_fd = -1;
	agent->lock.pin_fd = -1;
	agent->base = event_base_new();
	if (!agent->base) {
		kv_err("cannot make an event loop: %s", strerror(errno));
		return -ENOMEM;
	}
	TAILQ_INIT(&agent->clients);
	TAILQ_INIT(&agent->dead);
	TAILQ_INIT(&agent->rechecks);
	TAILQ_INIT(&agent->starved);
	TAILQ_INIT(&agent->hopeful);
	TAILQ_INIT(&agent->retiring);
	event_assign(&agent->reap, agent->base, -1, 0, on_reap, agent);
	for (int i = 0; i < 2; i++) {
		evsignal_assign(&agent->terminate[i], agent->base, signals[i], on_terminate, agent);
		evsignal_add(&agent->terminate[i], NULL);
	}
	signal(SIGPIPE, SIG_IGN);
	return 0;
}

/* Every connection is a descriptor. What would not fit is told, not refused: an administrator may
 * know that so many never come. */
static void raise_open_files(const struct kv_config *config)
{
	__u64 need = config->limits.clients + OTHER_FILES;
	struct rlimit limit;

	for (__u32 i = 0; i < config->n_services; i++)
		need += (__u64)config->services[i].n_backends * config->upstreams_per_backend;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		getrlimit(RLIMIT_NOFILE, &limit);
	if (need > limit.rlim_cur)
		kv_warn("open files: the limit of %llu is below the %llu of limits.clients and all "
			"upstreams: raise it (ulimit -Hn, LimitNOFILE=) or lower limits.clients",
			(unsigned long long)limit.rlim_cur, (unsigned long long)need);
}

int agent_open(struct agent *agent, struct kv_config *config)
{
	__u32 slots = config->max_backends * config->upstreams_per_backend;
	int err;

	agent->config = config;
	agent->started_ns = kv_now_ns();
	err = open_loop(agent);
	if (!err)
		err = lock_take(&agent->lock, config->pin);
	if (err)
		return err;
	agent->upstreams = calloc(slots, sizeof(*agent->upstreams));
	agent->pools = calloc(config->max_backends, sizeof(*agent->pools));
	if (!agent->upstreams || !agent->pools) {
		kv_err("out of memory");
		return -ENOMEM;
	}
	err = route_open(&agent->attach.routes);
	if (err) {
		kv_err("cannot open a netlink socket: %s", strerror(-err));
		return err;
	}
	agent->attach.dp = &agent->dp;
	agent->attach.lock = &agent->lock;
	err = dataplane_load(&agent->dp, config);
	if (!err)
		err = open_names(agent);
	if (err)
		return err;
	/* The former agent's filters know only its own maps: off before ours go on. */
	attach_clean_leftovers(&agent->attach);
	err = attach_all(&agent->attach, config);
	if (!err)
		err = sweep_open(agent);
	if (!err)
		err = events_open(agent);
	if (!err)
		err = service_set_all(agent, config);
	if (!err)
		err = dataplane_write_meta(&agent->dp, agent->started_ns, kv_now_ns());
	if (!err)
		err = dataplane_pin(&agent->dp, config->pin);
	if (!err)
		err = control_open(agent, config->control);
	if (!err)
		err = add_timer(agent, &agent->tick, on_tick, 20);
	if (!err)
		err = add_timer(agent, &agent->second, on_second, 1000);
	if (!err)
		raise_open_files(config);
	return err;
}

int agent_run(struct agent *agent)
{
	return event_base_dispatch(agent->base) < 0 ? -EIO : 0;
}

void agent_close(struct agent *agent)
{
	if (!agent->base)
		return;
	remove_timer(&agent->tick);
	remove_timer(&agent->second);
	control_close(agent);
	listen_close_all(agent);
	/* Sockets before filters: their last packets need the sequence mapping. */
	clients_close_all(agent);
	upstream_close_all(agent);
	attach_close(&agent->attach);
	events_close(agent);
	sweep_close(agent);
	dataplane_close(&agent->dp);
	route_close(agent->attach.routes);
	lock_release(&agent->lock);
	free(agent->told);
	free(agent->pools);
	free(agent->upstreams);
	kv_config_free(agent->config);
	event_base_free(agent->base);
}
