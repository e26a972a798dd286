/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Servers for tests, in the test's own event loop: each listens on a loopback port, reads a
 * request's head and answers with bytes that the test chose, whatever they are.
 */
#ifndef KVSTEER_TESTS_LOOP_SERVER_H
#define KVSTEER_TESTS_LOOP_SERVER_H

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "check.h"
#include "common/addr.h"
#include "common/clock.h"

struct loop_server {
	struct event_base *base;
	struct evconnlistener *listener;
	struct kv_addr addr;
	/* what it does with a request */
	const char *answer;
	size_t answer_len;
	/* where set: the answer to each path */
	const char *(*page)(const struct loop_server *s, const char *path);
	void *arg;
	size_t repeat;	   /* the answer's bytes again and again, so many times */
	bool silent;	   /* never answers */
	bool at_once;	   /* does not wait for the request */
	bool keep_open;	   /* behind the answer */
	bool reset;	   /* RST instead of an answer */
	unsigned int drip; /* a byte each so many ms */
	/* what came */
	unsigned int accepted, requests, open, open_most;
	char path[128]; /* of the last request */
};

struct loop_conn {
	struct loop_server *server;
	struct bufferevent *bev;
	struct event *timer;
	size_t sent;
	bool answered;
};

static inline void loop_conn_free(struct loop_conn *c)
{
	if (c->timer)
		event_free(c->timer);
	bufferevent_free(c->bev);
	c->server->open--;
	free(c);
}

static inline void loop_written(struct bufferevent *bev, void *arg)
{
	struct loop_conn *c = arg;

	if (c->answered && !c->server->keep_open &&
	    !evbuffer_get_length(bufferevent_get_output(bev)))
		loop_conn_free(c);
}

static inline void loop_drip(evutil_socket_t fd, short what, void *arg)
{
	struct loop_conn *c = arg;
	struct timeval next = {0, c->server->drip * 1000};

	(void)fd;
	(void)what;
	if (c->sent < c->server->answer_len) {
		bufferevent_write(c->bev, c->server->answer + c->sent++, 1);
		evtimer_add(c->timer, &next);
	}
}

static inline void loop_answer(struct loop_conn *c)
{
	struct loop_server *s = c->server;

	if (s->silent || c->answered)
		return;
	if (s->reset) {
		struct linger now = {1, 0};

		setsockopt(bufferevent_getfd(c->bev), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
		loop_conn_free(c);
		return;
	}
	if (s->drip) {
		c->timer = evtimer_new(s->base, loop_drip, c);
		loop_drip(-1, 0, c);
		return;
	}
	c->answered = true;
	bufferevent_write(c->bev, s->answer, s->answer_len);
	for (size_t i = 0; i < s->repeat; i++)
		bufferevent_write(c->bev, s->answer, s->answer_len);
	if (!s->answer_len && !s->keep_open)
		loop_conn_free(c);
}

static inline void loop_read(struct bufferevent *bev, void *arg)
{
	struct loop_conn *c = arg;
	struct evbuffer *in = bufferevent_get_input(bev);
	struct evbuffer_ptr end = evbuffer_search(in, "\r\n\r\n", 4, NULL);
	char line[256] = "";

	if (end.pos < 0)
		return;
	evbuffer_copyout(in, line, sizeof(line) - 1);
	sscanf(line, "GET %127s", c->server->path);
	evbuffer_drain(in, evbuffer_get_length(in));
	c->server->requests++;
	if (c->server->page) {
		c->server->answer = c->server->page(c->server, c->server->path);
		c->server->answer_len = strlen(c->server->answer);
	}
	loop_answer(c);
}

static inline void loop_event(struct bufferevent *bev, short what, void *arg)
{
	(void)bev;
	(void)what;
	loop_conn_free(arg);
}

static inline void loop_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *sa,
			       int len, void *arg)
{
	struct loop_server *s = arg;
	struct loop_conn *c = calloc(1, sizeof(*c));

	(void)l;
	(void)sa;
	(void)len;
	c->server = s;
	c->bev = bufferevent_socket_new(s->base, fd, BEV_OPT_CLOSE_ON_FREE);
	bufferevent_setcb(c->bev, loop_read, loop_written, loop_event, c);
	bufferevent_enable(c->bev, EV_READ | EV_WRITE);
	s->accepted++;
	if (++s->open > s->open_most)
		s->open_most = s->open;
	if (s->at_once)
		loop_answer(c);
}

/* Listens; on the same port again if it has had one. */
static inline void loop_open(struct loop_server *s, struct event_base *base)
{
	struct sockaddr_storage ss = {.ss_family = AF_INET};
	socklen_t len = sizeof(struct sockaddr_in);

	if (s->addr.port)
		len = kv_addr_to_sockaddr(&s->addr, &ss);
	else
		((struct sockaddr_in *)&ss)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	s->base = base;
	s->listener = evconnlistener_new_bind(base, loop_accept, s,
					      LEV_OPT_CLOSE_ON_FREE | LEV_OPT_REUSEABLE, 64,
					      (struct sockaddr *)&ss, len);
	CHECK(s->listener);
	getsockname(evconnlistener_get_fd(s->listener), (struct sockaddr *)&ss, &len);
	kv_addr_from_sockaddr((struct sockaddr *)&ss, &s->addr);
}

static inline void loop_close(struct loop_server *s)
{
	evconnlistener_free(s->listener);
	s->listener = NULL;
}

static inline void loop_text(struct loop_server *s, const char *text)
{
	s->answer = text;
	s->answer_len = strlen(text);
}

/* Runs the loop until *flag, for at most so long (ten times that: the machine may be busy). Whether
 * it was set. */
static inline bool loop_until(struct event_base *base, const volatile unsigned int *flag,
			      unsigned int at_least, unsigned int ms)
{
	__u64 end = kv_now_ns() + ms * 10000000ull;
	struct timeval step = {0, 2000};

	while (*flag < at_least && kv_now_ns() < end) {
		event_base_loopexit(base, &step);
		event_base_loop(base, EVLOOP_ONCE);
	}
	return *flag >= at_least;
}

static inline void loop_for(struct event_base *base, unsigned int ms)
{
	__u64 end = kv_now_ns() + ms * 1000000ull;
	struct timeval step = {0, 2000};

	while (kv_now_ns() < end) {
		event_base_loopexit(base, &step);
		event_base_loop(base, EVLOOP_ONCE);
	}
}

#endif
