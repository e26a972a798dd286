/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Home sockets: real connections over lo. The far end is played by the test, which knows what its
 * kernel would: the next sequence numbers, window scales, the clock of its timestamps. They are
 * read by TCP_REPAIR, and so not with the code under test.
 */
#ifndef KVSTEER_TESTS_HOMES_H
#define KVSTEER_TESTS_HOMES_H

#include <fcntl.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include "packet.h"
#include "prog.h"

struct peer {
	int home;	     /* the gateway's socket */
	int far;	     /* what the test stands in for */
	struct kv_tuple key; /* as the gateway sees it */
	__u32 seq;	     /* next it sends, on the wire */
	__u32 ack;	     /* next it expects, on the wire */
	__u32 tsval;	     /* its clock: moves on with every packet */
	__u32 tsval_sent;    /* 0: the test has sent nothing yet */
	__u32 tsecr;
	__u32 base_seq; /* seq and ack where its pair began */
	__u32 base_ack;
	__u8 snd_wscale; /* of windows that it announces */
	__u8 rcv_wscale; /* of windows announced to it */
	bool timestamps;
	bool sack;
};

static inline void home_sysctl(const char *name, const char *value)
{
	char path[100];
	int fd;

	snprintf(path, sizeof(path), "/proc/sys/net/ipv4/%s", name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	NEED(fd >= 0 && write(fd, value, strlen(value)) > 0);
	close(fd);
}

/* ---- what a socket knows ------------------------------------------------------------- */

static inline __u32 home_option(int fd, int option)
{
	__u32 value = 0;
	socklen_t len = sizeof(value);

	NEED(!getsockopt(fd, IPPROTO_TCP, option, &value, &len));
	return value;
}

static inline void home_set(int fd, int option, int value)
{
	NEED(!setsockopt(fd, IPPROTO_TCP, option, &value, sizeof(value)));
}

static inline __u32 home_seq(int fd, int queue)
{
	__u32 seq;

	home_set(fd, TCP_REPAIR, TCP_REPAIR_ON);
	home_set(fd, TCP_REPAIR_QUEUE, queue);
	seq = home_option(fd, TCP_QUEUE_SEQ);
	home_set(fd, TCP_REPAIR, TCP_REPAIR_OFF_NO_WP);
	return seq;
}

static inline __u32 home_rcv_nxt(int fd)
{
	return home_seq(fd, TCP_RECV_QUEUE);
}

static inline __u32 home_write_seq(int fd)
{
	return home_seq(fd, TCP_SEND_QUEUE);
}

/* What its TSval would be now, or one more: since 6.7 the lowest bit tells something else. */
static inline __u32 home_clock(int fd)
{
	return home_option(fd, TCP_TIMESTAMP) | 1;
}

static inline struct tcp_info home_info(int fd)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);

	NEED(!getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len));
	return info;
}

/* ---- connections --------------------------------------------------------------------- */

#define HOST_LIKE_MAPPED 0x100 /* fd00::ffff:0:1: not an IPv4-mapped address, but like one */

static inline socklen_t home_address(struct sockaddr_storage *a, int family, int host, int port)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)a;
	struct sockaddr_in *in = (struct sockaddr_in *)a;

	memset(a, 0, sizeof(*a));
	if (family == AF_INET) {
		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		in->sin_addr.s_addr = htonl(0x7f000000 | host);
		return sizeof(*in);
	}
	in6->sin6_family = AF_INET6;
	in6->sin6_port = htons(port);
	inet_pton(AF_INET6, "fd00::", &in6->sin6_addr);
	in6->sin6_addr.s6_addr[15] = host;
	if (host & HOST_LIKE_MAPPED)
		in6->sin6_addr.s6_addr[10] = in6->sin6_addr.s6_addr[11] = 0xff;
	return sizeof(*in6);
}

static inline void home_words(const struct sockaddr_storage *a, __u32 addr[4], __u16 *port)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)a;
	const struct sockaddr_in *in = (const struct sockaddr_in *)a;

	if (a->ss_family == AF_INET) {
		addr[0] = addr[1] = 0;
		addr[2] = htonl(0xffff);
		addr[3] = in->sin_addr.s_addr;
		*port = in->sin_port;
	} else {
		memcpy(addr, &in6->sin6_addr, 16);
		*port = in6->sin6_port;
	}
}

/* rcvbuf decides the window scale. */
static inline int home_socket(int family, int host, int port, int rcvbuf)
{
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
	struct sockaddr_storage a;
	socklen_t len = home_address(&a, family, host, port);

	NEED(fd >= 0);
	NEED(!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)));
	NEED(!setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &rcvbuf, sizeof(rcvbuf)));
	NEED(!bind(fd, (struct sockaddr *)&a, len));
	return fd;
}

static inline void home_learn(struct peer *p)
{
	struct tcp_info info = home_info(p->home);
	struct sockaddr_storage a;
	socklen_t len = sizeof(a);

	NEED(!getsockname(p->home, (struct sockaddr *)&a, &len));
	home_words(&a, p->key.local, &p->key.local_port);
	len = sizeof(a);
	NEED(!getpeername(p->home, (struct sockaddr *)&a, &len));
	home_words(&a, p->key.peer, &p->key.peer_port);
	p->seq = home_rcv_nxt(p->home);
	p->ack = home_write_seq(p->home);
	p->tsval = home_clock(p->far) + 1000; /* newer than all that it has sent */
	p->tsecr = home_clock(p->home);
	p->snd_wscale = info.tcpi_snd_wscale;
	p->rcv_wscale = info.tcpi_rcv_wscale;
	p->timestamps = info.tcpi_options & TCPI_OPT_TIMESTAMPS;
	p->sack = info.tcpi_options & TCPI_OPT_SACK;
}

struct home_ends {
	int family;
	int from_host, to_host;
	int from_rcvbuf, to_rcvbuf;
	int port; /* of the side that listens */
	int mss;  /* that from announces; 0: as its path has it */
};

/* from and to are the two ends of a connection. */
static inline void home_connect(const struct home_ends *e, int *ret_from, int *ret_to)
{
	int listener = home_socket(e->family, e->to_host, e->port, e->to_rcvbuf);
	struct sockaddr_storage a;
	socklen_t len = home_address(&a, e->family, e->to_host, e->port);

	NEED(!listen(listener, 1));
	*ret_from = home_socket(e->family, e->from_host, 0, e->from_rcvbuf);
	if (e->mss)
		home_set(*ret_from, TCP_MAXSEG, e->mss);
	NEED(!connect(*ret_from, (struct sockaddr *)&a, len));
	*ret_to = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	NEED(*ret_to >= 0);
	close(listener);
}

#define SERVICE_PORT 8080
#define BACKEND_PORT 8000
#define GATEWAY_HOST 1
#define CLIENT_HOST 2
#define BACKEND_HOST 3

/* The four buffers differ, so that each pair of window scales does. */
static inline void peer_client(struct peer *p, int family, int mss)
{
	struct home_ends e = {.family = family,
			      .from_host = CLIENT_HOST,
			      .to_host = GATEWAY_HOST,
			      .from_rcvbuf = 256 << 10,
			      .to_rcvbuf = 4 << 20,
			      .port = SERVICE_PORT,
			      .mss = mss};

	home_connect(&e, &p->far, &p->home);
	home_learn(p);
}

static inline void peer_backend(struct peer *p, int family, int host)
{
	struct home_ends e = {.family = family,
			      .from_host = host,
			      .to_host = BACKEND_HOST,
			      .from_rcvbuf = 1 << 20,
			      .to_rcvbuf = 16 << 20,
			      .port = BACKEND_PORT};

	home_connect(&e, &p->home, &p->far);
	home_learn(p);
}

/* Ends without a trace: no FIN, no RST, no TIME-WAIT. */
static inline void peer_close(struct peer *p)
{
	int fds[] = {p->home, p->far};

	for (int i = 0; i < 2; i++) {
		if (fds[i] <= 0)
			continue;
		setsockopt(fds[i], IPPROTO_TCP, TCP_REPAIR, &(int){TCP_REPAIR_ON}, sizeof(int));
		close(fds[i]);
	}
	memset(p, 0, sizeof(*p));
}

/* From now on the far end hears nothing, and so acknowledges nothing. */
static inline void peer_deafen(struct peer *p)
{
	struct sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_fprog filter = {1, &drop};

	NEED(!setsockopt(p->far, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)));
}

#endif /* KVSTEER_TESTS_HOMES_H */
