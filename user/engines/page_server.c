// SPDX-License-Identifier: BSD-2-Clause
#include "engines/page_server.h"

#include <errno.h>
#include <event2/event_struct.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "common/reason.h"
#include "engines/time.h"

#define HEAD_MAX 4096

struct conn {
	struct page_server *server;
	TAILQ_ENTRY(conn) link;
	int fd;
	struct event io;
	struct event timer;
	size_t len;
	char head[HEAD_MAX + 1];
	char *answer; /* NULL: the request is not here yet */
	size_t answer_len, sent;
};

TAILQ_HEAD(conns, conn);

struct page_server {
	struct event_base *base;
	int fd;
	struct event accept;
	struct page (*page)(void *arg, const char *path);
	void *arg;
	struct conns conns; /* the oldest first */
	unsigned int n;
};

static void conn_free(struct conn *c)
{
	TAILQ_REMOVE(&c->server->conns, c, link);
	c->server->n--;
	event_del(&c->io);
	event_del(&c->timer);
	close(c->fd);
	free(c->answer);
	free(c);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	conn_free(arg);
}

static int make_answer(struct conn *c, const struct page *page, bool head_only)
{
	size_t len = page->text && !head_only ? page->len : 0;
	int n;

	c->answer = malloc(512 + len);
	if (!c->answer)
		return -ENOMEM;
	n = snprintf(c->answer, 512,
		     "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
		     "Cache-Control: no-store\r\nConnection: close\r\n%s\r\n",
		     page->status, kv_reason_phrase(page->status),
		     page->type ? page->type : "text/plain", page->text ? page->len : 0,
		     page->status == 405 ? "Allow: GET, HEAD\r\n" : "");
	if (len)
		memcpy(c->answer + n, page->text, len);
	c->answer_len = n + len;
	return 0;
}

/* The request line, ended by NUL, cut into pieces. 0 or a status. */
static int parse_line(char *line, bool *ret_head_only, char **ret_path)
{
	char *target = strchr(line, ' '), *version;

	if (!target)
		return 400;
	*target++ = 0;
	version = strchr(target, ' ');
	if (!version || strncmp(version + 1, "HTTP/1.", 7) || *target != '/')
		return 400;
	*version = 0;
	target[strcspn(target, "?#")] = 0;
	*ret_head_only = !strcmp(line, "HEAD");
	*ret_path = target;
	return *ret_head_only || !strcmp(line, "GET") ? 0 : 405;
}

/* -ENOMEM: no answer. */
static int respond(struct conn *c, int status)
{
	struct page page = {.status = status};
	bool head_only = false;
	char *path;
	int err;

	if (!status) {
		c->head[strcspn(c->head, "\r\n")] = 0;
		page.status = parse_line(c->head, &head_only, &path);
		if (!page.status)
			page = c->server->page(c->server->arg, path);
	}
	err = make_answer(c, &page, head_only);
	free(page.text);
	return err;
}

static void on_io(evutil_socket_t fd, short what, void *arg);

static void watch(struct conn *c, short what)
{
	event_del(&c->io);
	event_assign(&c->io, c->server->base, c->fd, what | EV_PERSIST, on_io, c);
	event_add(&c->io, NULL);
}

/* false: the connection is to be closed. */
static bool readable(struct conn *c)
{
	ssize_t n = read(c->fd, c->head + c->len, HEAD_MAX - c->len);
	bool whole;

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	if (!n)
		return false;
	c->len += n;
	c->head[c->len] = 0;
	whole = memmem(c->head, c->len, "\r\n\r\n", 4) || memmem(c->head, c->len, "\n\n", 2);
	if (!whole && c->len < HEAD_MAX)
		return true;
	if (respond(c, whole ? 0 : 431))
		return false;
	watch(c, EV_WRITE);
	return true;
}

static bool writable(struct conn *c)
{
	ssize_t n = send(c->fd, c->answer + c->sent, c->answer_len - c->sent, MSG_NOSIGNAL);
	char rest[HEAD_MAX];

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	c->sent += n;
	if (c->sent < c->answer_len)
		return true;
	/* bytes left unread would make the close a reset, which may overtake the answer */
	while (recv(c->fd, rest, sizeof(rest), MSG_DONTWAIT) > 0)
		;
	return false;
}

static void on_io(evutil_socket_t fd, short what, void *arg)
{
	struct conn *c = arg;

	(void)fd;
	if (!(what & EV_WRITE ? writable(c) : readable(c)))
		conn_free(c);
}

static void on_accept(evutil_socket_t fd, short what, void *arg)
{
	struct timeval limit = ms_timeval(PAGE_SERVER_MS);
	struct page_server *s = arg;
	struct conn *c;
	int conn_fd = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	(void)what;
	if (conn_fd < 0)
		return;
	c = calloc(1, sizeof(*c));
	if (!c) {
		close(conn_fd);
		return;
	}
	if (s->n == PAGE_SERVER_CONNS)
		conn_free(TAILQ_FIRST(&s->conns));
	c->server = s;
	c->fd = conn_fd;
	TAILQ_INSERT_TAIL(&s->conns, c, link);
	s->n++;
	evtimer_assign(&c->timer, s->base, on_timer, c);
	evtimer_assign(&c->io, s->base, on_io, c);
	evtimer_add(&c->timer, &limit);
	watch(c, EV_READ);
}

static int listen_on(const struct kv_addr *addr)
{
	struct sockaddr_storage ss;
	socklen_t len = kv_addr_to_sockaddr(addr, &ss);
	int one = 1, off = 0, err;
	int fd = socket(ss.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (kv_addr_is_any(addr))
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (!bind(fd, (struct sockaddr *)&ss, len) && !listen(fd, PAGE_SERVER_CONNS))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

int page_server_open(struct event_base *base, const struct kv_addr *listen,
		     struct page (*page)(void *arg, const char *path), void *arg,
		     struct page_server **ret)
{
	struct page_server *s = calloc(1, sizeof(*s));
	int fd;

	if (!s)
		return -ENOMEM;
	fd = listen_on(listen);
	if (fd < 0) {
		free(s);
		return fd;
	}
	s->base = base;
	s->fd = fd;
	s->page = page;
	s->arg = arg;
	TAILQ_INIT(&s->conns);
	event_assign(&s->accept, base, fd, EV_READ | EV_PERSIST, on_accept, s);
	event_add(&s->accept, NULL);
	*ret = s;
	return 0;
}

void page_server_close(struct page_server *s)
{
	if (!s)
		return;
	while (!TAILQ_EMPTY(&s->conns))
		conn_free(TAILQ_FIRST(&s->conns));
	event_del(&s->accept);
	close(s->fd);
	free(s);
}

struct kv_addr page_server_address(const struct page_server *s)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	struct kv_addr addr = {0};

	if (!getsockname(s->fd, (struct sockaddr *)&ss, &len))
		kv_addr_from_sockaddr((struct sockaddr *)&ss, &addr);
	return addr;
}
