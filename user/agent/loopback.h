/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two settings of lo, for IPv4 clients and engines of this host. What the programs redirect to lo
 * comes from one of this host's own addresses and carries no route. IPv4 takes such a packet only
 * by the route that the receiving socket remembers, and every such memory is void as soon as an
 * address or a route changes anywhere: an answer on its way would stop for good.
 */
#ifndef AGENT_LOOPBACK_H
#define AGENT_LOOPBACK_H

struct lock;
struct nl_sock;

/* Sets what is not set; prints what fails, which is no reason not to serve. */
void loopback_open(struct nl_sock *sock, struct lock *lock);
/* Takes back what was set by this agent, or by one that was killed. */
void loopback_close(struct nl_sock *sock, struct lock *lock);

#endif
