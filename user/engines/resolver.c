// SPDX-License-Identifier: BSD-2-Clause
#define CARES_NO_DEPRECATED /* ares_query: what took its place is not in Debian 12's 1.18 */
#include "engines/resolver.h"

#include <ares.h>
#include <errno.h>
#include <event2/event_struct.h>
#include <stdlib.h>
#include <sys/queue.h>

#define TRIES 2

struct watched {
	LIST_ENTRY(watched) link;
	struct resolver *resolver;
	int fd;
	struct event event;
};

struct resolver {
	struct event_base *base;
	ares_channel channel;
	bool has_channel;
	bool ending;
	LIST_HEAD(, watched) watched;
	struct event timer;
};

struct question {
	struct resolver *resolver;
	resolver_callback *callback;
	void *arg;
};

static void set_timer(struct resolver *r)
{
	struct timeval tv, *wait = ares_timeout(r->channel, NULL, &tv);

	if (wait)
		evtimer_add(&r->timer, wait);
	else
		event_del(&r->timer);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct resolver *r = arg;

	(void)fd;
	(void)what;
	ares_process_fd(r->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	set_timer(r);
}

static void on_socket(evutil_socket_t fd, short what, void *arg)
{
	/* w may be gone when c-ares has done with the socket */
	struct resolver *r = ((struct watched *)arg)->resolver;

	ares_process_fd(r->channel, what & EV_READ ? fd : ARES_SOCKET_BAD,
			what & EV_WRITE ? fd : ARES_SOCKET_BAD);
	set_timer(r);
}

static void on_state(void *arg, ares_socket_t fd, int readable, int writable)
{
	struct resolver *r = arg;
	short what = (readable ? EV_READ : 0) | (writable ? EV_WRITE : 0);
	struct watched *w;

	LIST_FOREACH(w, &r->watched, link)
	if (w->fd == fd)
		break;
	if (w)
		event_del(&w->event);
	if (w && !what) {
		LIST_REMOVE(w, link);
		free(w);
	}
	if (!what)
		return;
	if (!w) {
		w = calloc(1, sizeof(*w));
		if (!w) /* the question will time out */
			return;
		w->resolver = r;
		w->fd = fd;
		LIST_INSERT_HEAD(&r->watched, w, link);
	}
	event_assign(&w->event, r->base, fd, what | EV_PERSIST, on_socket, w);
	event_add(&w->event, NULL);
}

int resolver_new(struct event_base *base, const char *servers, __u32 timeout_ms,
		 struct resolver **ret)
{
	struct ares_options options = {
		.timeout = timeout_ms,
		.tries = TRIES,
		.sock_state_cb = on_state,
	};
	struct resolver *r = calloc(1, sizeof(*r));
	int flags = ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_SOCK_STATE_CB, err;

	if (!r)
		return -ENOMEM;
	r->base = base;
	LIST_INIT(&r->watched);
	evtimer_assign(&r->timer, base, on_timer, r);
	options.sock_state_cb_data = r;
#ifdef ARES_OPT_QUERY_CACHE
	/* From c-ares 1.31 on answers are kept: who asks again before the time is over means it. */
	options.qcache_max_ttl = 0;
	flags |= ARES_OPT_QUERY_CACHE;
#endif
	err = ares_library_init(ARES_LIB_INIT_ALL);
	if (!err)
		err = ares_init_options(&r->channel, &options, flags);
	r->has_channel = !err;
	if (!err && servers)
		err = ares_set_servers_ports_csv(r->channel, servers);
	if (err) {
		resolver_free(r);
		return err == ARES_ENOMEM ? -ENOMEM : -EINVAL;
	}
	*ret = r;
	return 0;
}

void resolver_free(struct resolver *r)
{
	if (!r)
		return;
	r->ending = true;
	if (r->has_channel)
		ares_destroy(r->channel);
	ares_library_cleanup();
	event_del(&r->timer);
	free(r);
}

static void answered(void *arg, int status, int timeouts, unsigned char *message, int len)
{
	struct question q = *(struct question *)arg;

	(void)timeouts;
	free(arg);
	if (q.resolver->ending)
		return;
	if (status == ARES_SUCCESS)
		q.callback(q.arg, RESOLVED, message, len, NULL);
	else if (status == ARES_ENOTFOUND || status == ARES_ENODATA)
		q.callback(q.arg, RESOLVED_NOTHING, NULL, 0, NULL);
	else
		q.callback(q.arg, RESOLVED_FAILED, NULL, 0, ares_strerror(status));
}

void resolver_ask(struct resolver *r, const char *name, enum dns_type type,
		  resolver_callback *callback, void *arg)
{
	struct question *q = malloc(sizeof(*q));

	if (!q) {
		callback(arg, RESOLVED_FAILED, NULL, 0, "out of memory");
		return;
	}
	*q = (struct question){r, callback, arg};
	ares_query(r->channel, name, 1 /* IN */, type, answered, q);
	set_timer(r);
}
