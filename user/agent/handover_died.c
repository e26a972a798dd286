// SPDX-License-Identifier: BSD-2-Clause
/* Clients whose request died with the agent before. */
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "agent/answer.h"
#include "agent/client.h"
#include "agent/handover.h"
#include "agent/sweep.h"
#include "agent/upstream.h"

static bool nothing_unsent(int fd)
{
	int unsent = 0;

	return !ioctl(fd, SIOCOUTQ, &unsent) && !unsent;
}

static bool fin_sent(int fd)
{
	struct tcp_info info = {};
	socklen_t len = sizeof(info);

	return !getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) &&
	       info.tcpi_state != TCP_ESTABLISHED && info.tcpi_state != TCP_CLOSE_WAIT;
}

/* Where its next byte would stand: only in repair mode does the socket tell. */
static int next_written(int fd, __u32 *ret_seq)
{
	static const int on = TCP_REPAIR_ON, off = TCP_REPAIR_OFF_NO_WP, queue = TCP_SEND_QUEUE;
	socklen_t len = sizeof(*ret_seq);
	int err = 0, one = 1;

	if (setsockopt(fd, IPPROTO_TCP, TCP_REPAIR, &on, sizeof(on)) < 0)
		return -errno;
	if (setsockopt(fd, IPPROTO_TCP, TCP_REPAIR_QUEUE, &queue, sizeof(queue)) < 0 ||
	    getsockopt(fd, IPPROTO_TCP, TCP_QUEUE_SEQ, ret_seq, &len) < 0)
		err = -errno;
	setsockopt(fd, IPPROTO_TCP, TCP_REPAIR, &off, sizeof(off));
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)); /* see probe.c */
	return err;
}

/* The kernel has seen the answer come, and knows what the client had been sent by then. */
static bool nothing_relayed(int fd, const struct kv_pair *pair)
{
	__u32 next;

	return pair->offered >= 2 && !next_written(fd, &next) && next == pair->relayed_from;
}

/* 502 only where no byte of an answer can have been written; else the client must see a broken
 * one. */
static void died_end(struct client *c, const struct kv_client *entry)
{
	const struct kv_pair *pair = &entry->pair;

	if (fin_sent(c->fd))
		client_close_gently(c);
	else if (nothing_relayed(c->fd, pair))
		answer_bad_gateway(c);
	else if (pair->note == KV_NOTE_RELAYED || !nothing_unsent(c->fd))
		client_reset(c);
	else if (pair->note == KV_NOTE_READING || pair->offered == 1)
		answer_bad_gateway(c);
	else if (pair->offered)
		client_reset(c);
	else
		sweep_ended(c, pair); /* by the kernel, and its event was lost */
}

static void died_look(struct client *c)
{
	struct agent *agent = c->agent;
	const struct upstream *up;
	struct kv_client entry;
	__u32 slots = agent->dp.max_backends * agent->dp.upstreams_per_backend;

	if (entry_read(&agent->dp, &c->key, &entry) || entry.state == KV_CLIENT_HOME) {
		client_idle(c);
		return;
	}
	if (entry.state == KV_CLIENT_AGENT) {
		died_end(c, &entry);
		return;
	}
	/* Lent in the last moment before we took its upstream: that has been reset. */
	up = entry.pair.slot < slots ? agent->upstreams[entry.pair.slot] : NULL;
	if ((!up || up->phase != UPSTREAM_OPEN || upstream_slot(up)->gen != entry.pair.gen) &&
	    !entry_end_lent(&agent->dp, &c->key, entry.pair.slot, entry.pair.gen, false, &entry))
		client_reset(c);
	else
		client_idle(c);
}

void handover_died(struct agent *agent)
{
	struct client_list *died = &agent->handover->died;
	struct client *c;

	while ((c = TAILQ_FIRST(died))) {
		TAILQ_REMOVE(died, c, wait);
		c->died = false;
		/* An event has dealt with it meanwhile. */
		if (c->phase == CLIENT_IDLE)
			died_look(c);
	}
}
