// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/client.h"
#include "agent/handover.h"
#include "agent/listen.h"
#include "agent/pool.h"
#include "common/cleanup.h"
#include "common/log.h"

#define LISTEN_BACKLOG 4096
#define LISTEN_BATCH 64 /* accepted in one turn of the loop, so that others get theirs */

struct listener {
	struct listener *next;
	struct agent *agent;
	__u32 service;
	struct kv_addr address;
	int fd;
	bool paused;
	struct event event;
};

/* For a second: the kernel keeps them meanwhile, and serves those that it can serve alone. */
static void listen_pause(struct listener *listener, int err)
{
	bool files = err == EMFILE || err == ENFILE;

	count(&listener->agent->dp, accepts_put_off);
	listener->agent->missed = true;
	if (listener->paused)
		return;
	kv_warn("cannot accept: %s: %s", strerror(err),
		files ? "raise the limit of open files (ulimit -n, LimitNOFILE=, fs.file-max)"
		      : "the kernel has no memory for sockets (net.ipv4.tcp_mem)");
	event_del(&listener->event);
	listener->paused = true;
	if (files)
		pools_spare(listener->agent);
}

/* Up to n of them. */
static void accept_some(struct listener *listener, int n)
{
	for (int i = 0; i < n; i++) {
		struct sockaddr_storage peer;
		socklen_t len = sizeof(peer);
		int client = accept4(listener->fd, (struct sockaddr *)&peer, &len,
				     SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (client >= 0) {
			client_accept(listener->agent, listener->service, client,
				      (struct sockaddr *)&peer);
			continue;
		}
		if (errno == EAGAIN)
			return;
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
			listen_pause(listener, errno);
			return;
		}
		/* Else this one connection failed before it was ours (accept(2)): next. */
	}
}

static void on_listener(evutil_socket_t fd, short what, void *arg)
{
	(void)fd, (void)what;
	accept_some(arg, LISTEN_BATCH);
}

void listen_accept(struct agent *agent)
{
	if (agent->draining)
		return; /* those that wait are the next agent's */
	for (struct listener *l = agent->listeners; l; l = l->next)
		accept_some(l, LISTEN_BACKLOG);
}

/* backlog 0: only bound. */
static int listen_socket(struct agent *agent, const struct sockaddr *sa, socklen_t len,
			 const char *text, int backlog)
{
	_cleanup_close_ int fd =
		socket(sa->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int one = 1, mss = attach_max_segment(&agent->attach), err, ret;

	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
	    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) < 0 ||
	    setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &mss, sizeof(mss)) < 0 ||
	    (sa->sa_family == AF_INET6 &&
	     setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one)) < 0) ||
	    bind(fd, sa, len) < 0 || (backlog && listen(fd, backlog) < 0)) {
		err = -errno;
		if (err == -EADDRINUSE)
			kv_err("listen %s: the port is in use: stop the other program (ss -ltnp) "
			       "or choose another port",
			       text);
		else if (err == -EADDRNOTAVAIL)
			kv_err("listen %s: this host has no such address: see `ip address`", text);
		else if (err == -EACCES || err == -EPERM)
			kv_err("listen %s: no permission: run as root, or with "
			       "CAP_NET_BIND_SERVICE",
			       text);
		else
			kv_err("listen %s: %s", text, strerror(-err));
		return err;
	}
	ret = fd;
	fd = -1;
	return ret;
}

/* Whoever opened it may have known less of it than we do. */
static int listen_inherited(struct agent *agent, const struct sockaddr *sa, socklen_t len)
{
	int fd = handover_listener(agent, sa, len), one = 1;
	int mss = attach_max_segment(&agent->attach);

	if (fd < 0)
		return fd;
	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) < 0 ||
	    setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &mss, sizeof(mss)) < 0 ||
	    listen(fd, LISTEN_BACKLOG) < 0)
		kv_warn("cannot set up an inherited listener: %s", strerror(errno));
	return fd;
}

static int listener_add(struct agent *agent, __u32 service, const struct kv_addr *address,
			const struct sockaddr *sa, socklen_t len)
{
	char text[KV_ADDR_TEXT];
	struct listener *listener;
	int fd;

	fd = listen_inherited(agent, sa, len);
	if (fd < 0)
		fd = listen_socket(agent, sa, len, kv_addr_format(address, text, sizeof(text)),
				   LISTEN_BACKLOG);
	if (fd < 0)
		return fd;
	listener = calloc(1, sizeof(*listener));
	if (!listener) {
		close(fd);
		return -ENOMEM;
	}
	listener->agent = agent;
	listener->service = service;
	listener->address = *address;
	listener->fd = fd;
	listener->next = agent->listeners;
	agent->listeners = listener;
	event_assign(&listener->event, agent->base, fd, EV_READ | EV_PERSIST, on_listener,
		     listener);
	event_add(&listener->event, NULL);
	return 0;
}

int listen_open(struct agent *agent, __u32 service, const struct kv_addr *address)
{
	char text[KV_ADDR_TEXT];
	struct sockaddr_storage sa;
	socklen_t len = kv_addr_to_sockaddr(address, &sa);
	int err;

	kv_addr_format(address, text, sizeof(text));
	if (kv_addr_is_any(address)) {
		struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = address->port};

		err = listener_add(agent, service, address, (struct sockaddr *)&v4, sizeof(v4));
		if (err)
			return err;
	}
	err = listener_add(agent, service, address, (struct sockaddr *)&sa, len);
	if (err == -EAFNOSUPPORT && kv_addr_is_any(address)) {
		kv_info("listen %s: this kernel has no IPv6: IPv4 only", text);
		err = 0;
	}
	if (!err)
		kv_info("service %s: listens on %s", agent->dp.services[service].name, text);
	return err;
}

/* Bound, but not listening: no client can come meanwhile. Without IPv6, listen_open says so. */
int listen_probe(struct agent *agent, const struct kv_addr *address)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = address->port};
	char text[KV_ADDR_TEXT];
	struct sockaddr_storage sa;
	socklen_t len = kv_addr_to_sockaddr(address, &sa);
	bool any = kv_addr_is_any(address);
	int fd;

	kv_addr_format(address, text, sizeof(text));
	if (any) {
		fd = listen_socket(agent, (struct sockaddr *)&v4, sizeof(v4), text, 0);
		if (fd < 0)
			return fd;
		close(fd);
	}
	fd = listen_socket(agent, (struct sockaddr *)&sa, len, text, 0);
	if (fd >= 0)
		close(fd);
	return fd < 0 && !(any && fd == -EAFNOSUPPORT) ? fd : 0;
}

static void listener_remove(struct listener **p)
{
	struct listener *listener = *p;

	*p = listener->next;
	event_del(&listener->event);
	close(listener->fd);
	free(listener);
}

void listen_close(struct agent *agent, __u32 service, const struct kv_addr *address)
{
	struct listener **p = &agent->listeners;

	while (*p)
		if ((*p)->service == service && kv_addr_equal(&(*p)->address, address))
			listener_remove(p);
		else
			p = &(*p)->next;
}

void listen_close_all(struct agent *agent)
{
	while (agent->listeners)
		listener_remove(&agent->listeners);
}

void listen_leave_all(struct agent *agent)
{
	struct listener *listener;

	while ((listener = agent->listeners)) {
		agent->listeners = listener->next;
		event_del(&listener->event);
		free(listener);
	}
}

void listen_stop_all(struct agent *agent)
{
	for (struct listener *l = agent->listeners; l; l = l->next)
		event_del(&l->event);
}

void listen_resume(struct agent *agent)
{
	for (struct listener *l = agent->listeners; l; l = l->next)
		if (l->paused) {
			l->paused = false;
			event_add(&l->event, NULL);
		}
}
