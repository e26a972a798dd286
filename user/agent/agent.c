// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <systemd/sd-daemon.h>

#include "agent/agent.h"
#include "agent/client.h"
#include "agent/clock.h"
#include "agent/control.h"
#include "agent/discover.h"
#include "agent/discover_file.h"
#include "agent/events.h"
#include "agent/follow.h"
#include "agent/hasher.h"
#include "agent/handover.h"
#include "agent/listen.h"
#include "agent/manager.h"
#include "agent/pool.h"
#include "agent/privileges.h"
#include "agent/restart.h"
#include "agent/service.h"
#include "agent/silent.h"
#include "agent/supervisor.h"
#include "agent/sweep.h"
#include "agent/tenancy.h"
#include "agent/told.h"
#include "agent/upstream.h"
#include "common/config_discover.h"
#include "common/log.h"

#define SIGNAL_ECHO (500 * MS) /* a signal to all of our processes comes twice */
#define OTHER_FILES 64	       /* maps, programs, listeners, timers, control */
#define FOLLOW_FILES 6	       /* of a backend: three timers, three questions */

static void on_reap(evutil_socket_t fd, short what, void *arg)
{
	(void)fd, (void)what;
	clients_reap(arg);
}

void agent_drain(struct agent *agent)
{
	/* From here on the kernel lends no request; clients that are between requests are closed
	 * at the next second's sweep, when those under way have been lent or have come up. */
	for (__u32 i = 0; i < KV_MAX_SERVICES; i++)
		if (agent->dp.services[i].flags)
			kv_atomic_fetch_or(&agent->dp.services[i].flags, KV_SERVICE_DRAINING);
	if (restart_anew(agent)) {
		listen_accept(agent); /* what the kernel has served of those that wait */
		listen_stop_all(agent);
	} else {
		kv_info("draining: requests in progress end, new connections are refused");
		sd_notify(0, "STOPPING=1\nSTATUS=draining");
		keeper_ending(&agent->keeper);
		listen_close_all(agent);
	}
	agent->draining = true;
	agent->drain_since = kv_now_ns();
	agent->drain_until = agent->drain_since + agent->config->timeouts.drain_ms * MS;
	clock_hurry(agent);
}

static void on_terminate(evutil_socket_t fd, short what, void *arg)
{
	struct agent *agent = arg;

	(void)fd, (void)what;
	if (agent->draining && restart_anew(agent))
		listen_close_all(agent);
	if (restart_stores(agent))
		return;
	if (!agent->draining && !restart_waits(agent) && manager_restarts()) {
		restart_by_manager(agent);
		return;
	}
	restart_cancel(agent);
	keeper_ending(&agent->keeper);
	if (!agent->draining)
		agent_drain(agent);
	else if (kv_now_ns() - agent->drain_since > SIGNAL_ECHO)
		event_base_loopbreak(agent->base);
}

static void on_hangup(evutil_socket_t fd, short what, void *arg)
{
	char err[KV_CONFIG_ERROR_LEN];

	(void)fd, (void)what;
	if (restart_begin(arg, NULL, NULL, NULL, err, sizeof(err)))
		kv_warn("restart: %s", err);
}

static void on_child(evutil_socket_t fd, short what, void *arg)
{
	struct agent *agent = arg;

	(void)fd, (void)what;
	if (!keeper_reap(&agent->keeper) || agent->draining)
		return;
	kv_warn(keeper_lives(&agent->keeper)
			? "a keeper was killed: its spare is left"
			: "the keepers were killed: if the agent dies too, its connections do");
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
	err = tenancy_open(agent);
	return err ? err : dataplane_set_names(&agent->dp, &agent->names);
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
	evsignal_assign(&agent->child, agent->base, SIGCHLD, on_child, agent);
	evsignal_add(&agent->child, NULL);
	evsignal_assign(&agent->hangup, agent->base, SIGHUP, on_hangup, agent);
	evsignal_add(&agent->hangup, NULL);
	signal(SIGPIPE, SIG_IGN);
	signals_unblock();
	supervisor_announce();
	return 0;
}

/* Every connection is a descriptor. What would not fit is told, not refused: an administrator may
 * know that so many never come. When they come, clients get what upstreams leave, but half: without
 * upstreams no client can be served. */
static void raise_open_files(struct agent *agent)
{
	const struct kv_config *config = agent->config;
	__u64 clients = config->limits.clients, upstreams = OTHER_FILES, files;
	__u32 backends = 0, more = 0; /* those that are found are not known yet */
	struct rlimit limit;

	for (__u32 i = 0; i < config->n_services; i++) {
		backends += config->services[i].n_backends;
		if (kv_discovers(&config->services[i].discover))
			more = config->max_backends;
	}
	upstreams += (__u64)(more ?: backends) * (config->upstreams_per_backend + FOLLOW_FILES);
	agent->file_clients = UINT32_MAX;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		getrlimit(RLIMIT_NOFILE, &limit);
	files = limit.rlim_cur;
	if (clients + upstreams <= files)
		return;
	kv_warn("open files: the limit of %llu is below the %llu of limits.clients, all "
		"upstreams and what follows engines: raise it (ulimit -Hn, LimitNOFILE=) or lower "
		"limits.clients",
		(unsigned long long)files, (unsigned long long)(clients + upstreams));
	agent->file_clients = upstreams < files / 2 ? files - upstreams : files / 2;
}

/* From the agent before: its programs are replaced where they are, so that no packet passes
 * unseen. */
static int take_over(struct agent *agent)
{
	int err = handover_state(agent);

	agent->attach.lenient = agent->keeper.why == KEEPER_CRASH;
	if (!err)
		err = attach_all(&agent->attach, agent->config);
	if (err)
		return err;
	attach_clean_leftovers(&agent->attach);
	handover_sockets(agent);
	err = handover_slots(agent);
	return err ? err : handover_listen(agent);
}

static int start_anew(struct agent *agent)
{
	int err;

	/* The former agent's filters know only its own maps: off before ours go on. What they shift
	 * must be closed before. */
	handover_connections_close(agent);
	attach_clean_leftovers(&agent->attach);
	err = attach_all(&agent->attach, agent->config);
	return err ? err : service_set_all(agent, agent->config);
}

static int open_services(struct agent *agent)
{
	int err = sweep_open(agent);

	if (!err)
		err = events_open(agent);
	if (!err)
		err = agent->dp.taken_over ? take_over(agent) : start_anew(agent);
	if (!err)
		handover_sockets_close(agent);
	if (!err && agent->keeper.why == KEEPER_MANAGER)
		manager_forget();
	return err;
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
	err = handover_open(agent);
	if (err)
		return err;
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
	err = open_services(agent);
	if (!err && !agent->dp.taken_over)
		err = dataplane_write_meta(&agent->dp, agent->started_ns, kv_now_ns());
	if (!err)
		err = dataplane_pin(&agent->dp, config->pin);
	if (!err)
		err = control_open(agent, config->control);
	if (!err)
		err = clock_open(agent);
	if (!err)
		err = following_open(agent);
	if (err)
		return err;
	raise_open_files(agent);
	if (agent->dp.taken_over)
		handover_apply(agent);
	err = privileges_drop(agent->config);
	if (!err)
		err = told_open(agent);
	if (!err)
		err = discover_open(agent);
	if (err)
		return err;
	discover_file_open(agent);
	keeper_serving(&agent->keeper);
	return dataplane_write_meta(&agent->dp, agent->started_ns, kv_now_ns());
}

int agent_run(struct agent *agent)
{
	return event_base_dispatch(agent->base) < 0 ? -EIO : 0;
}

void agent_close(struct agent *agent)
{
	if (!agent->base)
		return;
	silent_end_all(agent);
	discover_file_close(agent);
	discover_close(agent);
	following_close(agent);
	clock_close(agent);
	told_close(agent);
	control_close(agent);
	if (restart_anew(agent))
		listen_leave_all(agent);
	else
		listen_close_all(agent);
	/* Sockets before filters: their last packets need the sequence mapping. */
	clients_close_all(agent);
	hasher_close(agent);
	upstream_close_all(agent);
	handover_close(agent);
	attach_close(&agent->attach);
	events_close(agent);
	sweep_close(agent);
	dataplane_close(&agent->dp);
	route_close(agent->attach.routes);
	lock_release(&agent->lock);
	restart_exit(agent);
	restart_close(agent);
	free(agent->told);
	free(agent->pools);
	free(agent->upstreams);
	kv_config_free(agent->config);
	event_base_free(agent->base);
}
