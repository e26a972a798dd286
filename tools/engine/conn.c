// SPDX-License-Identifier: BSD-2-Clause
/* Connections: bytes in, requests one after another, bytes out. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine.h"

#define READ_SIZE (64 << 10)
#define READ_BIG (1 << 20)
#define PIPELINE_MAX (256 << 10) /* unread bytes kept behind a request in hand */
#define LINGER_MS 2000
#define PUMP_ROUNDS 8

int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void conn_free(struct conn *c, const char *how)
{
	if (c->job) {
		c->engine->stats.aborted++;
		c->job->cancel(c);
	}
	log_close(c, how);
	event_del(&c->rd);
	event_del(&c->wr);
	event_del(&c->timer);
	close(c->fd);
	if (c->raw_in)
		fclose(c->raw_in);
	if (c->raw_out)
		fclose(c->raw_out);
	c->engine->stats.connections--;
	LIST_REMOVE(c, link);
	buf_free(&c->in);
	buf_free(&c->out);
	free(c);
}

void conn_rst(struct conn *c)
{
	struct linger l = {.l_onoff = 1};

	if (c->out.len && send(c->fd, buf_head(&c->out), c->out.len, MSG_NOSIGNAL) > 0)
		c->out.len = 0;
	setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	c->hup = c->rst = true; /* freed by the event that we are in */
	if (!c->in_loop)
		conn_free(c, "rst");
}

/* Closing with unread bytes would send RST and might destroy the answer on its way. */
static void conn_linger(struct conn *c)
{
	shutdown(c->fd, SHUT_WR);
	log_event(c, "fin");
	c->state = CONN_LINGER;
	c->last_ms = now_ms();
	event_add(&c->rd, NULL);
	if (c->eof)
		c->hup = true;
}

void conn_close_idle(struct conn *c)
{
	if (c->state == CONN_READ && !c->in.len && !c->in_loop)
		conn_linger(c);
}

/* Writes what it can. false: the connection is broken. */
static bool conn_write(struct conn *c)
{
	while (c->out.len) {
		ssize_t n = send(c->fd, buf_head(&c->out), c->out.len, MSG_NOSIGNAL);

		if (n < 0) {
			if (errno == EINTR)
				continue;
			if (errno != EAGAIN)
				return false;
			event_add(&c->wr, NULL);
			return true;
		}
		buf_drop(&c->out, n);
	}
	if (c->state == CONN_FLUSH)
		conn_linger(c);
	return true;
}

void conn_add(struct conn *c, const void *data, size_t n)
{
	bool cut = false;

	if (c->state == CONN_FLUSH || c->state == CONN_LINGER)
		return;
	if (c->cut >= 0 && (uint64_t)c->cut <= c->sent + n) {
		n = c->cut - c->sent;
		cut = true;
	}
	buf_add(&c->out, data, n);
	c->sent += n;
	if (c->engine->opt->log)
		sha256_add(&c->hash, data, n);
	if (c->raw_out)
		fwrite(data, 1, n, c->raw_out);
	if (cut) {
		c->keep_alive = false;
		c->state = CONN_FLUSH;
	}
}

void conn_addf(struct conn *c, const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	conn_add(c, text, n < (int)sizeof(text) ? n : (int)sizeof(text) - 1);
}

/* A 1xx answer: not part of the final one, nor of its hash. */
void conn_interim(struct conn *c, const char *text)
{
	buf_str(&c->out, text);
	if (c->raw_out)
		fputs(text, c->raw_out);
}

/* The request in hand has been answered. */
void conn_done(struct conn *c)
{
	c->job = NULL;
	log_answer(c);
	c->last_ms = now_ms();
	c->cut = -1;
	if (!c->keep_alive)
		c->state = CONN_FLUSH;
	else if (c->state == CONN_BUSY)
		c->state = CONN_READ;
	if (!c->in_loop)
		conn_run(c);
}

static void conn_begin(struct conn *c)
{
	struct request *r = &c->req;

	c->state = CONN_BUSY;
	c->keep_alive = r->keep_alive;
	c->head_only = r->head_only;
	c->n_requests++;
	if (r->follower)
		c->engine->stats.questions++;
	else
		c->engine->stats.requests++;
	c->body_len = r->body.n;
	c->sent = 0;
	c->status = 0;
	c->rst_after_tokens = c->fin_mid_body = -1;
	c->close_silently = c->until_close = false;
	log_request(c);
	api_request(c);
}

/* Refuses what cannot be read as a request; the rest of the bytes is not looked at. */
static void conn_refuse(struct conn *c, int status, const char *why)
{
	c->state = CONN_BUSY;
	c->keep_alive = false;
	c->head_only = false;
	c->sent = 0;
	c->fin_mid_body = -1;
	c->close_silently = false;
	c->engine->stats.refused++;
	log_bad(c, why);
	conn_error(c, status, why);
	buf_drop(&c->in, c->in.len);
}

/* 1: a whole request lies in c->req; 0: bytes are missing; < 0: refused */
static int conn_parse(struct conn *c, const char **ret_why, size_t *ret_total)
{
	struct request *r = &c->req;
	int err = http_head(buf_head(&c->in), c->in.len, r, ret_why);

	if (err <= 0)
		return err;
	if (r->expect && !c->continued && (r->chunked || r->content_length) &&
	    c->in.len == r->head_len) {
		conn_interim(c, "HTTP/1.1 100 Continue\r\n\r\n");
		c->continued = true;
	}
	if (!c->early)
		tagged_early(c);
	*ret_total = r->head_len + r->content_length;
	if (!r->chunked) {
		/* room at once: a large body is not copied while it grows */
		if (c->in.len < *ret_total)
			buf_room(&c->in, *ret_total - c->in.len);
		r->body = (struct slice){buf_head(&c->in) + r->head_len, r->content_length};
		return c->in.len >= *ret_total;
	}
	if (!c->chunking) {
		c->chunks = (struct chunks){.at = r->head_len, .out = r->head_len};
		c->chunking = true;
	}
	err = http_chunks(buf_head(&c->in), c->in.len, &c->chunks, ret_why);
	r->body = (struct slice){buf_head(&c->in) + r->head_len, c->chunks.out - r->head_len};
	*ret_total = c->chunks.at;
	return err;
}

/* Requests that lie in the input, up to the first that takes time. */
static void conn_requests(struct conn *c)
{
	while (c->state == CONN_READ && c->in.len && !c->hup) {
		const char *why = NULL;
		size_t total = 0;
		int err;

		/* RFC 9112, 2.2: an empty line before a request line is ignored */
		if (c->in.len >= 2 && !memcmp(buf_head(&c->in), "\r\n", 2)) {
			buf_drop(&c->in, 2);
			continue;
		}
		err = conn_parse(c, &why, &total);
		if (err < 0) {
			conn_refuse(c, -err, why);
		} else if (err > 0) {
			conn_begin(c);
			c->chunking = c->continued = c->early = false;
			buf_drop(&c->in, total);
		} else {
			break;
		}
	}
	if (c->eof && !c->hup) {
		if (c->state == CONN_READ)
			c->state = CONN_FLUSH;
		else if (c->state == CONN_BUSY && !c->job)
			c->hup = true; /* hung by a fault, and the client gave up */
	}
}

void conn_run(struct conn *c)
{
	bool again = true;

	c->in_loop = true;
	for (int round = 0; again && !c->hup; round++) {
		conn_requests(c);
		if (!c->hup && (c->out.len || c->state == CONN_FLUSH) && !conn_write(c))
			c->hup = true;
		again = !c->hup && !c->out.len && c->job && c->job->pump;
		if (!again)
			break;
		if (round == PUMP_ROUNDS) { /* let other connections have a turn */
			event_add(&c->wr, NULL);
			break;
		}
		c->job->pump(c);
		again = c->out.len || c->state != CONN_BUSY;
	}
	c->in_loop = false;
	if (c->hup) {
		conn_free(c, c->rst ? "rst" : "end");
	} else if (c->paused && c->state == CONN_READ && !c->eof) {
		c->paused = false;
		event_add(&c->rd, NULL);
	}
}

static void on_read(evutil_socket_t fd, short what, void *arg)
{
	struct conn *c = arg;
	size_t room = c->state == CONN_READ && c->in.cap > READ_SIZE ? READ_BIG : READ_SIZE;
	ssize_t n;

	(void)what;
	if (c->state != CONN_READ && c->in.len > PIPELINE_MAX) {
		c->paused = true;
		event_del(&c->rd);
		return;
	}
	n = recv(fd, buf_room(&c->in, room), room, 0);
	if (n < 0) {
		if (errno != EAGAIN && errno != EINTR)
			conn_free(c, errno == ECONNRESET ? "rst from client" : "error");
		return;
	}
	if (c->raw_in && n) {
		fwrite(buf_head(&c->in) + c->in.len, 1, n, c->raw_in);
		fflush(c->raw_in);
	}
	c->last_ms = now_ms();
	if (c->state == CONN_LINGER) {
		if (!n)
			conn_free(c, "end");
		return;
	}
	if (!n) {
		c->eof = true;
		event_del(&c->rd);
		log_event(c, "eof");
	}
	c->in.len += n;
	conn_run(c);
}

static void on_write(evutil_socket_t fd, short what, void *arg)
{
	struct conn *c = arg;

	(void)fd;
	(void)what;
	conn_run(c);
}

void conn_accept(evutil_socket_t fd, short what, void *arg)
{
	struct engine *e = arg;
	int one = 1;

	(void)what;
	for (int i = 0; i < 64; i++) {
		struct conn *c;
		int s = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (s < 0)
			return;
		c = calloc(1, sizeof(*c));
		if (!c) {
			close(s);
			return;
		}
		setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		c->engine = e;
		c->fd = s;
		c->cut = -1;
		c->id = ++e->stats.accepted;
		c->last_ms = now_ms();
		e->stats.connections++;
		LIST_INSERT_HEAD(&e->conns, c, link);
		event_assign(&c->rd, e->base, s, EV_READ | EV_PERSIST, on_read, c);
		event_assign(&c->wr, e->base, s, EV_WRITE, on_write, c);
		evtimer_assign(&c->timer, e->base, NULL, NULL);
		log_accept(c);
		event_add(&c->rd, NULL);
	}
}

/* After a client's FIN its connection is not read, and nothing else tells of a RST. */
static bool conn_reset(const struct conn *c)
{
	socklen_t len = sizeof(int);
	int err = 0;

	return c->eof && !getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &len) && err;
}

/* Idle time is looked at by one timer for all: a timer per request would cost more. */
void conn_sweep(struct engine *e)
{
	int64_t now = now_ms(), idle = e->opt->keep_alive_s * 1000;
	struct conn *c, *next;

	for (c = LIST_FIRST(&e->conns); c; c = next) {
		next = LIST_NEXT(c, link);
		if (c->state == CONN_LINGER && now - c->last_ms > LINGER_MS)
			conn_free(c, "linger");
		else if (conn_reset(c))
			conn_free(c, "rst from client");
		else if (c->state == CONN_READ && !c->in.len && !c->out.len && c->n_requests &&
			 idle && now - c->last_ms >= idle)
			conn_free(c, "keep-alive");
	}
}
