/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Asking a silent peer for a sign of life, as TCP keep-alive does. The kernel's own keep-alive will
 * not do: a home socket that is lent never sees the answer, and would give its peer up.
 */
#ifndef AGENT_PROBE_H
#define AGENT_PROBE_H

#include <stdbool.h>

#include "agent/agent.h"

#define PROBES 4 /* unanswered: the peer has vanished */

struct probe {
	__u64 sent_ns;
	__u32 n; /* sent since the peer was heard */
};

/* One look at a peer that was heard last at heard_ns. It is asked when it has said nothing for
 * every, and again each third of that (0: never). True: it has vanished. *look_ns is lowered to the
 * time of the next look. fd: a socket of ours to the peer, lent or not; -1: none. Who cannot be
 * asked has not failed to answer. */
bool probe_peer(struct probe *probe, int fd, __u64 every, __u64 heard_ns, __u64 now_ns,
		__u64 *look_ns);
/* Asks now: a peer that does not know the connection answers with RST. */
int probe_ask(int fd);
/* When the peer of a socket that is not lent was heard last. */
__u64 probe_heard(int fd, __u64 now_ns);

#endif
