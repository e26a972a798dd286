// SPDX-License-Identifier: BSD-2-Clause
/*
 * A publisher without libzmq: ZMTP 3.0 by hand over TCP. On the loopback what send() takes is in
 * the other side's socket when it returns, so what is measured from there on is the follower's.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "bench.h"

#define GREETING 64

int raw_listen(char *endpoint, size_t size)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&a, n) || listen(fd, 1) ||
	    getsockname(fd, (struct sockaddr *)&a, &n))
		return -errno;
	snprintf(endpoint, size, "tcp://127.0.0.1:%u", ntohs(a.sin_port));
	return fd;
}

/* What the subscriber says is taken as it is: it subscribes to all. */
int raw_accept(int listener)
{
	static const char greeting[GREETING] = {(char)0xff, 0,	  0, 0, 0,   0,	  0,   0,
						0,	    0x7f, 3, 0, 'N', 'U', 'L', 'L'};
	static const char ready[] = "\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03PUB";
	struct timeval patience = {5, 0};
	char theirs[GREETING + 2];
	int fd = accept(listener, NULL, NULL), one = 1;

	close(listener);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (send(fd, greeting, GREETING, MSG_NOSIGNAL) != GREETING ||
	    recv(fd, theirs, GREETING, MSG_WAITALL) != GREETING ||
	    send(fd, ready, sizeof(ready) - 1, MSG_NOSIGNAL) != sizeof(ready) - 1 ||
	    recv(fd, theirs, 2, MSG_WAITALL) != 2) {
		close(fd);
		return -EPROTO;
	}
	return fd;
}

int raw_send(int fd, uint64_t seq, const void *payload, size_t n)
{
	char head[2 + 2 + 8 + 9] = {1, 0, 1, 8}; /* no topic; the number; a long last frame */
	uint64_t be = htobe64(seq), len = htobe64(n);
	struct iovec parts[] = {{head, sizeof(head)}, {(void *)payload, n}};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};

	memcpy(head + 4, &be, sizeof(be));
	head[12] = 2;
	memcpy(head + 13, &len, sizeof(len));
	return sendmsg(fd, &message, MSG_NOSIGNAL) == (ssize_t)(sizeof(head) + n) ? 0 : -EIO;
}
