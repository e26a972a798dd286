// SPDX-License-Identifier: BSD-2-Clause
/* One connection: from its port to its end, again and again. */
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "traffic.h"

#define RECEIVE_BYTES (256 * 1024)
#define SLOW_BYTES 2048
#define SLOW_BUFFER 4096
#define SLOW_US 20000
#define RETRY_US 20000
#define PORT_TRIES 16

static void on_resume(evutil_socket_t fd, short what, void *arg)
{
	struct traffic_conn *c = arg;

	(void)fd;
	(void)what;
	event_add(&c->rd, NULL);
}

static void on_read(evutil_socket_t fd, short what, void *arg)
{
	struct traffic_conn *c = arg;
	struct timeval after = {0, SLOW_US};
	ssize_t n;

	(void)what;
	n = recv(fd, c->run->buffer, c->slow ? SLOW_BYTES : RECEIVE_BYTES, 0);
	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0) {
		traffic_eof(c, n < 0);
		return;
	}
	if (!traffic_receive(c, c->run->buffer, n))
		return;
	if (!c->n && !c->idle)
		traffic_rest(c);
	if (c->slow && c->fd >= 0) {
		event_del(&c->rd);
		event_add(&c->resume, &after);
	}
}

static void on_write(evutil_socket_t fd, short what, void *arg)
{
	struct traffic_conn *c = arg;
	socklen_t len = sizeof(int);
	int err = 0;

	(void)what;
	if (!c->connected) {
		getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len);
		if (err) {
			traffic_say(c, strerror(err));
			traffic_close(c, false, &c->run->r->connect_failed);
			return;
		}
		c->connected = true;
		event_add(&c->rd, NULL);
	}
	/* A broken pipe may have an answer in front of it: reading tells. */
	traffic_send(c);
	if (c->fd >= 0 && !c->n && !c->idle)
		traffic_rest(c);
}

/* The time to give up, or to come back. */
static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct traffic_conn *c = arg;

	(void)fd;
	(void)what;
	if (c->n)
		traffic_abort(c);
	else if (!c->idle)
		traffic_rest(c);
}

static const struct sockaddr_storage *pick_source(struct traffic_conn *c, int family)
{
	const struct traffic_options *o = c->run->o;
	unsigned int from = o->n_sources ? traffic_random(&c->random) % o->n_sources : 0;

	for (unsigned int i = 0; i < o->n_sources; i++)
		if (o->sources[(from + i) % o->n_sources].ss_family == family)
			return &o->sources[(from + i) % o->n_sources];
	return NULL;
}

static void set_port(struct sockaddr_storage *a, uint16_t port)
{
	if (a->ss_family == AF_INET6)
		((struct sockaddr_in6 *)a)->sin6_port = htons(port);
	else
		((struct sockaddr_in *)a)->sin_port = htons(port);
}

/* As the usual clients do (httpx, aiohttp's and curl's callers): a RST that the network has lost is
 * never sent again, and who waits for an answer sends nothing that would bring the next one. */
static void keep_alive(int fd)
{
	static const int on = 1, idle_s = 10, every_s = 5, probes = 4;

	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof(every_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

/* The same port as before, where it can be had at once; else one further on. */
static int try_connect(struct traffic_conn *c, const struct sockaddr_storage *to)
{
	const struct traffic_options *o = c->run->o;
	const struct sockaddr_storage *source = pick_source(c, to->ss_family);
	struct sockaddr_storage from = {.ss_family = to->ss_family};
	uint64_t ports = o->ports.to - o->ports.from + 1;
	int one = 1, small = SLOW_BUFFER;

	if (source)
		from = *source;
	for (int i = 0; i < PORT_TRIES; i++) {
		c->fd = socket(to->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (c->fd < 0)
			return -errno;
		setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		setsockopt(c->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		keep_alive(c->fd);
		if (c->slow)
			setsockopt(c->fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
		if (!o->ports.to && source)
			setsockopt(c->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof(one));
		set_port(&from, c->port);
		if ((source || o->ports.to) && bind(c->fd, (struct sockaddr *)&from, sizeof(from)))
			return -errno;
		if (!connect(c->fd, (const struct sockaddr *)to, sizeof(*to)) ||
		    errno == EINPROGRESS)
			return 0;
		if (!o->ports.to || errno != EADDRNOTAVAIL)
			return -errno;
		close(c->fd);
		c->port = o->ports.from + (c->port - o->ports.from + o->connections) % ports;
	}
	c->fd = -1;
	return -EADDRNOTAVAIL;
}

void traffic_conn_init(struct traffic_conn *c, struct traffic_run *run, unsigned int index,
		       uint64_t seed)
{
	const struct traffic_options *o = run->o;

	c->run = run;
	c->index = index;
	c->fd = -1;
	c->random.state = seed;
	if (o->ports.to)
		c->port = o->ports.from + index % (o->ports.to - o->ports.from + 1);
	evtimer_assign(&c->timer, run->base, on_timer, c);
	traffic_rest(c);
}

static void traffic_connect(struct traffic_conn *c)
{
	const struct traffic_options *o = c->run->o;
	double keep = o->keep_alive > 1 ? 100 - 100 / o->keep_alive : 0;
	int err;

	c->run->r->connections++;
	c->slow = traffic_chance(&c->random, o->slow);
	for (c->left = 1; traffic_chance(&c->random, keep);)
		c->left++;
	err = try_connect(c, &o->targets[traffic_random(&c->random) % o->n_targets]);
	if (err) {
		if (c->fd >= 0)
			close(c->fd);
		c->fd = -1;
		c->run->r->no_port += err == -EADDRNOTAVAIL || err == -EADDRINUSE;
		if (c->run->r->connect_failed < 10)
			fprintf(stderr, "kv-traffic: connection %u cannot connect: %s\n", c->index,
				strerror(-err));
		return;
	}
	event_assign(&c->rd, c->run->base, c->fd, EV_READ | EV_PERSIST, on_read, c);
	event_assign(&c->wr, c->run->base, c->fd, EV_WRITE, on_write, c);
	evtimer_assign(&c->resume, c->run->base, on_resume, c);
	event_add(&c->wr, NULL);
}

void traffic_issue(struct traffic_conn *c)
{
	struct traffic_run *run = c->run;
	struct traffic_request *q;

	if (c->fd < 0)
		traffic_connect(c);
	if (!c->n++)
		run->busy++;
	q = traffic_at(c, c->n - 1);
	traffic_plan(run->o, run->issued++, q);
	q->start_ns = traffic_now();
	run->r->requests++;
	c->left--;
	if (q->half_close || q->framing == TAGGED_CLOSE)
		c->left = 0;
	if (c->n == 1) {
		answer_init(&c->answer);
		c->seen = 0;
	}
	if (c->fd < 0)
		traffic_close(c, false, &run->r->connect_failed);
	else if (c->connected && c->n_sent == c->n - 1 && c->n == 1)
		traffic_send(c);
}

void traffic_pop(struct traffic_conn *c)
{
	event_del(&c->timer);
	c->first = (c->first + 1) % TRAFFIC_PIPELINE;
	if (c->n_sent)
		c->n_sent--;
	else
		c->begun = false;
	if (!--c->n)
		c->run->busy--;
	answer_init(&c->answer);
	c->seen = 0;
}

void traffic_rest(struct traffic_conn *c)
{
	if (c->fd >= 0 && !c->left) {
		/* A port that is bound again at once must not wait for old segments. */
		traffic_close(c, c->run->o->ports.to && traffic_chance(&c->random, 50), NULL);
		return;
	}
	c->idle = true;
	TAILQ_INSERT_TAIL(&c->run->idle, c, idle_link);
	traffic_wake(c->run);
}

void traffic_shut(struct traffic_conn *c, bool rst)
{
	struct linger l = {.l_onoff = 1};

	event_del(&c->timer);
	if (c->fd < 0)
		return;
	if (rst)
		setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	event_del(&c->rd);
	event_del(&c->wr);
	event_del(&c->resume);
	close(c->fd);
	c->fd = -1;
}

void traffic_close(struct traffic_conn *c, bool rst, uint64_t *count)
{
	struct timeval after = {0, RETRY_US};
	bool failed = c->fd < 0;

	if (c->n) {
		*count += c->n;
		c->run->busy--;
	}
	c->n = c->n_sent = 0;
	c->connected = c->begun = c->answered = false;
	c->stage_at = c->stage_len = 0;
	traffic_shut(c, rst);
	if (c->idle)
		return;
	/* What cannot be reached is not hammered. */
	if (failed || count == &c->run->r->connect_failed) {
		event_add(&c->timer, &after);
	} else {
		traffic_rest(c);
	}
}

void traffic_abort(struct traffic_conn *c)
{
	traffic_close(c, traffic_at(c, 0)->abort_rst, &c->run->r->aborted);
}
