// SPDX-License-Identifier: BSD-2-Clause
/* The loop: who sends when, and for how long. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "traffic.h"
#include "common/cleanup.h"

#define BUFFER (256 * 1024)
#define TICK_US 50000

uint64_t traffic_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static bool is_over(const struct traffic_run *run)
{
	const struct traffic_options *o = run->o;

	return run->stopped || (o->requests && run->issued >= o->requests) ||
	       (o->seconds && traffic_now() - run->start_ns >= o->seconds * 1e9);
}

bool traffic_may_issue(const struct traffic_run *run)
{
	return !is_over(run) && (!run->o->rate || traffic_now() >= run->next_ns);
}

void traffic_wake(struct traffic_run *run)
{
	event_active(&run->feed, EV_TIMEOUT, 0);
}

static void on_feed(evutil_socket_t fd, short what, void *arg)
{
	struct traffic_run *run = arg;
	struct traffic_conn *c;
	struct timeval after = {0};
	uint64_t now;

	(void)fd;
	(void)what;
	while ((c = TAILQ_FIRST(&run->idle)) && traffic_may_issue(run)) {
		TAILQ_REMOVE(&run->idle, c, idle_link);
		c->idle = false;
		if (run->o->rate)
			run->next_ns += 1e9 / run->o->rate;
		traffic_issue(c);
	}
	if (is_over(run)) {
		if (!run->busy)
			event_base_loopbreak(run->base);
		return;
	}
	now = traffic_now();
	if (c && run->next_ns > now) {
		after.tv_usec = (run->next_ns - now) / 1000 % 1000000;
		event_add(&run->feed, &after);
	}
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct traffic_run *run = arg;
	uint64_t now = traffic_now(), limit = run->o->timeout * 1e9;

	(void)fd;
	(void)what;
	for (unsigned int i = 0; i < run->o->connections; i++) {
		struct traffic_conn *c = run->conns[i];

		if (!c->n || now - traffic_at(c, 0)->start_ns <= limit)
			continue;
		if (!c->connected) {
			traffic_close(c, true, &run->r->connect_failed);
			continue;
		}
		run->r->hung++;
		traffic_say(c, "hung");
		traffic_pop(c);
		traffic_close(c, true, &run->r->aborted);
	}
	traffic_wake(run);
}

/* No new requests; those under way end. */
static void on_stop(evutil_socket_t fd, short what, void *arg)
{
	struct traffic_run *run = arg;

	(void)fd;
	(void)what;
	run->stopped = true;
	traffic_wake(run);
}

static int make_conns(struct traffic_run *run)
{
	const struct traffic_options *o = run->o;
	struct traffic_random random = {o->seed};

	run->conns = calloc(o->connections, sizeof(*run->conns));
	if (!run->conns)
		return -ENOMEM;
	for (unsigned int i = 0; i < o->connections; i++) {
		struct traffic_conn *c = calloc(1, sizeof(*c));

		if (!c)
			return -ENOMEM;
		run->conns[i] = c;
		traffic_conn_init(c, run, i, traffic_random(&random));
	}
	return 0;
}

static void free_conns(struct traffic_run *run)
{
	for (unsigned int i = 0; run->conns && i < run->o->connections && run->conns[i]; i++) {
		traffic_shut(run->conns[i], false);
		free(run->conns[i]);
	}
	free(run->conns);
}

static int loop(struct traffic_run *run)
{
	struct timeval every = {0, TICK_US};
	int err;

	TAILQ_INIT(&run->idle);
	evtimer_assign(&run->feed, run->base, on_feed, run);
	event_assign(&run->tick, run->base, -1, EV_PERSIST, on_tick, run);
	event_add(&run->tick, &every);
	evsignal_assign(&run->stop, run->base, SIGTERM, on_stop, run);
	event_add(&run->stop, NULL);
	run->start_ns = run->next_ns = traffic_now();
	err = make_conns(run);
	if (!err && event_base_dispatch(run->base) < 0)
		err = -EIO;
	run->r->seconds = (traffic_now() - run->start_ns) / 1e9;
	event_del(&run->tick);
	free_conns(run);
	event_del(&run->feed);
	event_del(&run->stop);
	return err;
}

int traffic_run(const struct traffic_options *o, struct traffic_result *ret)
{
	_cleanup_free_ char *buffer = malloc(BUFFER);
	struct traffic_run run = {.o = o, .r = ret, .buffer = buffer};
	struct rlimit files = {o->connections + 64, o->connections + 64};
	struct event_config *cfg = event_config_new();
	int err = -ENOMEM;

	setrlimit(RLIMIT_NOFILE, &files);
	if (cfg) {
		event_config_set_flag(cfg, EVENT_BASE_FLAG_PRECISE_TIMER);
		run.base = event_base_new_with_config(cfg);
		event_config_free(cfg);
	}
	if (run.base && buffer)
		err = loop(&run);
	if (run.base)
		event_base_free(run.base);
	return err;
}
