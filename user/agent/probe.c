// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "agent/probe.h"
#include "common/log.h"

#define CLOCK_STEP (20 * MS) /* tcp_info tells times by the kernel's tick */

/* There is no call that sends a probe, but leaving repair mode does: tcp_send_window_probe, a
 * segment from before the first unacknowledged byte. Entering it makes the address reusable by
 * force and leaving it not reusable at all, so that is set again: while a client is connected,
 * another agent could not listen otherwise. */
int probe_ask(int fd)
{
	static const int on = TCP_REPAIR_ON, off = TCP_REPAIR_OFF;
	socklen_t len = sizeof(int);
	int reuse = 0;

	getsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, &len);
	if (setsockopt(fd, IPPROTO_TCP, TCP_REPAIR, &on, sizeof(on)) < 0 ||
	    setsockopt(fd, IPPROTO_TCP, TCP_REPAIR, &off, sizeof(off)) < 0)
		return -errno;
	if (reuse && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse)) < 0)
		return -errno;
	return 0;
}

bool probe_peer(struct probe *probe, int fd, __u64 every, __u64 heard_ns, __u64 now_ns,
		__u64 *look_ns)
{
	__u64 due;
	int err;

	if (!every)
		return false;
	if (heard_ns + CLOCK_STEP > probe->sent_ns)
		probe->n = 0;
	due = probe->n ? probe->sent_ns + every / 3 : heard_ns + every;
	if (now_ns >= due) {
		if (probe->n == PROBES)
			return true;
		err = fd < 0 ? -EBADF : probe_ask(fd);
		if (!err)
			probe->n++;
		else if (fd >= 0)
			kv_debug("cannot probe: %s", strerror(-err));
		probe->sent_ns = now_ns;
		due = now_ns + every / 3;
	}
	if (due < *look_ns)
		*look_ns = due;
	return false;
}

__u64 probe_heard(int fd, __u64 now_ns)
{
	struct tcp_info info = {};
	socklen_t len = sizeof(info);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0)
		return now_ns;
	/* Once one side has closed, the kernel sends no probe (tcp_send_window_probe). */
	if (info.tcpi_state != TCP_ESTABLISHED)
		return now_ns;
	return info.tcpi_last_ack_recv * MS < now_ns ? now_ns - info.tcpi_last_ack_recv * MS : 0;
}
