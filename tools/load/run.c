// SPDX-License-Identifier: BSD-2-Clause
/* The loop: every connection has one request under way until the time or the requests are over. */
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "load.h"
#include "common/cleanup.h"

#define RECEIVE_BYTES (512 * 1024)
#define MAX_ERRORS 100000 /* more of them are no measurement */

struct conn {
	int fd;
	unsigned int index;
	bool connected;
	bool busy; /* a request is under way */
	bool retried;
	const struct load_request *request;
	size_t sent;
	uint64_t start_ns;
	uint64_t first_ns;
	struct load_response response;
};

struct run {
	const struct load_options *o;
	const struct load_requests *q;
	struct load_result *r;
	struct conn *conns;
	int epoll;
	unsigned int busy;
	uint64_t issued;
	uint64_t window_from; /* CLOCK_MONOTONIC ns */
	uint64_t window_to;
	uint64_t last_ns; /* end of the last counted answer */
	bool measuring;
	bool over; /* no new requests */
	char *buffer;
};

uint64_t load_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static double own_cpu(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return u.ru_utime.tv_sec + u.ru_stime.tv_sec +
	       (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static uint64_t errors_so_far(const struct load_result *r)
{
	uint64_t n = 0;

	for (int i = 0; i < LOAD_ERR_MAX; i++)
		n += r->errors[i];
	return n;
}

static int open_conn(struct run *run, struct conn *c)
{
	const struct sockaddr_storage *to = &run->o->targets[c->index % run->o->n_targets];
	struct epoll_event ev = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
				 .data.ptr = c};
	int one = 1;

	c->connected = false;
	c->fd = socket(to->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		return -errno;
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(c->fd, (const struct sockaddr *)to, sizeof(*to)) && errno != EINPROGRESS)
		return -errno;
	return epoll_ctl(run->epoll, EPOLL_CTL_ADD, c->fd, &ev) ? -errno : 0;
}

static void close_conn(struct conn *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	c->connected = false;
}

static void finish(struct run *run, struct conn *c);

static void fail(struct run *run, struct conn *c, enum load_error kind, const char *what)
{
	struct load_result *r = run->r;

	if (!errors_so_far(r))
		snprintf(r->example, sizeof(r->example), "%s (status %d, body byte %llu)", what,
			 c->response.http.status, (unsigned long long)c->response.http.bytes);
	r->errors[kind]++;
	close_conn(c);
	finish(run, c);
}

static int grow(struct load_result *r)
{
	uint64_t room = r->room ? r->room * 2 : 1 << 16;
	void *p;

	p = reallocarray(r->latency_ns, room, sizeof(*r->latency_ns));
	if (!p)
		return -ENOMEM;
	r->latency_ns = p;
	p = reallocarray(r->first_ns, room, sizeof(*r->first_ns));
	if (!p)
		return -ENOMEM;
	r->first_ns = p;
	r->room = room;
	return 0;
}

static uint32_t clamp32(uint64_t ns)
{
	return ns > UINT32_MAX ? UINT32_MAX : ns;
}

static void record(struct run *run, struct conn *c, uint64_t now)
{
	struct load_result *r = run->r;

	if (!run->measuring || now > run->window_to)
		return;
	run->last_ns = now;
	if (r->n == r->room && grow(r))
		return;
	r->latency_ns[r->n] = clamp32(now - c->start_ns);
	r->first_ns[r->n++] = clamp32(c->first_ns - c->start_ns);
	r->bytes_in += c->response.http.bytes;
	r->bytes_out += run->q->body_bytes;
	r->events += c->response.events;
}

/* Sends what the socket takes of the request. */
static int push(struct conn *c)
{
	const struct load_request *q = c->request;
	struct iovec iov[LOAD_IOVS];
	struct msghdr m = {.msg_iov = iov};
	size_t skip;
	ssize_t n;

	while (c->sent < q->len) {
		skip = c->sent;
		m.msg_iovlen = 0;
		for (int i = 0; i < q->n_iov; i++) {
			if (skip >= q->iov[i].iov_len) {
				skip -= q->iov[i].iov_len;
				continue;
			}
			iov[m.msg_iovlen].iov_base = (char *)q->iov[i].iov_base + skip;
			iov[m.msg_iovlen++].iov_len = q->iov[i].iov_len - skip;
			skip = 0;
		}
		n = sendmsg(c->fd, &m, MSG_NOSIGNAL);
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		c->sent += n;
	}
	return 0;
}

static void start(struct run *run, struct conn *c)
{
	int err;

	c->sent = 0;
	c->first_ns = 0;
	load_response_init(&c->response, run->o);
	if (!c->retried)
		c->start_ns = load_now();
	if (c->fd < 0) {
		err = open_conn(run, c);
		if (err)
			fail(run, c, LOAD_ERR_CONNECT, strerror(-err));
		return;
	}
	if (!c->connected)
		return;
	err = push(c);
	/* A broken pipe may have an answer in front of it: reading tells. */
	if (err && err != -EPIPE && err != -ECONNRESET)
		fail(run, c, LOAD_ERR_RESET, strerror(-err));
}

static bool next_request(struct run *run, struct conn *c)
{
	if (run->over || (run->o->requests && run->issued >= run->o->requests))
		return false;
	c->request = &run->q->all[run->issued++ % run->q->n];
	c->busy = true;
	c->retried = false;
	run->busy++;
	return true;
}

/* The request is over, well or not. */
static void finish(struct run *run, struct conn *c)
{
	if (c->busy)
		run->busy--;
	c->busy = false;
}

static void answered(struct run *run, struct conn *c, enum load_status status)
{
	struct load_result *r = run->r;
	uint64_t hash;

	if (c->response.http.status < 200 || c->response.http.status > 299) {
		fail(run, c, LOAD_ERR_STATUS, "answer is an error");
		return;
	}
	if (c->sent < c->request->len) {
		fail(run, c, LOAD_ERR_ANSWER, "answered before the request was sent");
		return;
	}
	if (c->response.hash) {
		hash = XXH3_64bits_digest(c->response.hash);
		if (r->have_hash && hash != r->body_hash) {
			fail(run, c, LOAD_ERR_ANSWER, "body differs from the first one");
			return;
		}
		r->body_hash = hash;
		r->have_hash = true;
	}
	record(run, c, load_now());
	if (status == LOAD_DONE_LAST) {
		close_conn(c);
		r->reconnects++;
	}
	finish(run, c);
}

static void answered_and_on(struct run *run, struct conn *c, enum load_status status)
{
	answered(run, c, status);
	if (next_request(run, c))
		start(run, c);
}

/* An idle connection may be closed by the server at any time (RFC 9112, 9.3.1): a request that met
 * that, and got no byte of answer, is sent once more on a new one. */
static void closed(struct run *run, struct conn *c, int err)
{
	enum load_status s;

	if (!c->busy) {
		close_conn(c);
		run->r->reconnects++;
		return;
	}
	if (!c->connected) {
		fail(run, c, LOAD_ERR_CONNECT, strerror(err ? err : ECONNREFUSED));
		return;
	}
	if (!c->first_ns && !c->retried) {
		close_conn(c);
		c->retried = true;
		run->r->reconnects++;
		start(run, c);
		return;
	}
	s = err ? LOAD_BAD : load_response_eof(&c->response, run->o);
	if (s == LOAD_DONE_LAST)
		answered_and_on(run, c, s);
	else
		fail(run, c, LOAD_ERR_RESET, err ? strerror(err) : c->response.http.error);
}

static void pull(struct run *run, struct conn *c)
{
	enum load_status s;
	ssize_t n;

	while (c->fd >= 0) {
		n = recv(c->fd, run->buffer, RECEIVE_BYTES, 0);
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			closed(run, c, n ? errno : 0);
			return;
		}
		if (!c->busy) {
			c->response.http.status = 0;
			fail(run, c, LOAD_ERR_ANSWER, "bytes without a request");
			return;
		}
		if (!c->first_ns)
			c->first_ns = load_now();
		s = load_response_feed(&c->response, run->o, run->buffer, n);
		if (s == LOAD_BAD) {
			fail(run, c, LOAD_ERR_ANSWER, c->response.http.error);
			return;
		}
		if (s != LOAD_MORE) {
			answered_and_on(run, c, s);
			return;
		}
		/* A short read has emptied the socket; what comes later is a new edge. */
		if (n < RECEIVE_BYTES)
			return;
	}
}

static void ready(struct run *run, struct conn *c, uint32_t events)
{
	int err = 0;
	socklen_t len = sizeof(err);

	if (c->fd < 0)
		return;
	if (!c->connected) {
		getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &len);
		if (err || events & (EPOLLERR | EPOLLHUP)) {
			closed(run, c, err);
			return;
		}
		if (!(events & EPOLLOUT))
			return;
		c->connected = true;
	}
	if (c->busy && c->sent < c->request->len && events & EPOLLOUT)
		push(c);
	if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
		pull(run, c);
		/* A FIN that came with the last bytes makes no second edge. */
		if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
			pull(run, c);
	}
}

static void expire(struct run *run, uint64_t now)
{
	uint64_t limit = run->o->timeout * 1e9;

	for (unsigned int i = 0; i < run->o->connections; i++) {
		struct conn *c = &run->conns[i];

		if (c->busy && now - c->start_ns > limit)
			fail(run, c, LOAD_ERR_TIMEOUT, "time-out");
	}
}

/* Connections that have nothing under way (after an error, a close) begin again. */
static void refill(struct run *run)
{
	for (unsigned int i = 0; i < run->o->connections; i++) {
		struct conn *c = &run->conns[i];

		if (!c->busy && next_request(run, c))
			start(run, c);
	}
}

static int loop(struct run *run, uint64_t until)
{
	struct epoll_event ev[64];
	uint64_t now = load_now(), swept = now;
	int n, wait_ms;

	refill(run);
	while (now < until && (run->busy || !run->over)) {
		wait_ms = until - now > 10000000 ? 10 : 1;
		n = epoll_wait(run->epoll, ev, 64, wait_ms);
		if (n < 0 && errno != EINTR)
			return -errno;
		for (int i = 0; i < n; i++)
			ready(run, ev[i].data.ptr, ev[i].events);
		now = load_now();
		/* One that failed waits for the sweep, so that a dead target is not hammered. */
		if (now - swept > 10000000) {
			swept = now;
			expire(run, now);
			refill(run);
			if (run->o->requests && run->issued >= run->o->requests && !run->busy)
				return 0;
		}
		if (errors_so_far(run->r) > MAX_ERRORS)
			return -ECONNABORTED;
	}
	return 0;
}

static int measure(struct run *run)
{
	const struct load_options *o = run->o;
	struct load_result *r = run->r;
	struct load_cpu before, after;
	uint64_t now = load_now();
	double cpu;
	int err = 0;

	if (!o->requests)
		err = loop(run, now + o->warmup * 1e9);
	/* Caches and pools on the way know all prompts only after this many. */
	while (!err && !o->requests && run->issued - run->busy < o->warmup_requests &&
	       load_now() - now < o->timeout * 1e9)
		err = loop(run, load_now() + 20000000);
	if (!err)
		err = load_cpu_read(o->watch, o->n_watch, &before);
	if (err)
		return err;
	cpu = own_cpu();
	run->measuring = true;
	run->window_from = load_now();
	run->window_to = o->requests ? UINT64_MAX : run->window_from + o->seconds * 1e9;
	err = loop(run, run->window_to);
	r->client_cpu_s = own_cpu() - cpu;
	if (!err)
		err = load_cpu_read(o->watch, o->n_watch, &after);
	if (err)
		return err;
	now = o->requests ? run->last_ns : run->window_to;
	r->seconds = (now > run->window_from ? now - run->window_from : 1) / 1e9;
	r->watched_cpu_s = load_cpu_watched(&before, &after);
	r->machine_busy_s = load_cpu_busy(&before, &after);
	load_cpu_free(&before);
	load_cpu_free(&after);
	/* What is under way still has to end well, but is not counted. */
	run->over = true;
	return loop(run, load_now() + o->timeout * 1e9);
}

int load_run(const struct load_options *o, const struct load_requests *q, struct load_result *ret)
{
	_cleanup_free_ struct conn *conns = calloc(o->connections, sizeof(*conns));
	_cleanup_free_ char *buffer = malloc(RECEIVE_BYTES);
	struct run run = {.o = o, .q = q, .r = ret, .conns = conns, .buffer = buffer};
	_cleanup_close_ int epoll = epoll_create1(EPOLL_CLOEXEC);
	int err;

	if (epoll < 0)
		return -errno;
	if (!conns || !buffer || grow(ret))
		return -ENOMEM;
	run.epoll = epoll;
	for (unsigned int i = 0; i < o->connections; i++) {
		conns[i].fd = -1;
		conns[i].index = i;
		if (o->hash && !(conns[i].response.hash = XXH3_createState()))
			return -ENOMEM;
	}
	err = measure(&run);
	for (unsigned int i = 0; i < o->connections; i++) {
		close_conn(&conns[i]);
		XXH3_freeState(conns[i].response.hash);
	}
	return err;
}
