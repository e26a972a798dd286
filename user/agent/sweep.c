// SPDX-License-Identifier: BSD-2-Clause
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <kvsteer/framing.h>

#include "agent/answer.h"
#include "agent/client.h"
#include "agent/clock.h"
#include "agent/entry.h"
#include "agent/events.h"
#include "agent/hasher.h"
#include "agent/listen.h"
#include "agent/relay.h"
#include "agent/silent.h"
#include "agent/sweep.h"
#include "common/log.h"

#define SCAN_STEP 512 /* entries of kv_clients looked at per second */

#define CLOSED_SOON (3 * SECOND)  /* most are forgotten by the kernel within this time … */
#define CLOSED_LATE (60 * SECOND) /* … and the others after TIME_WAIT */
#define ROOM_STEP 64

struct closed {
	TAILQ_ENTRY(closed) link;
	struct kv_tuple tuple;
	__u64 since_ns;
};

TAILQ_HEAD(closed_list, closed);

struct sweep {
	struct closed_list closed; /* the latest last */
	struct kv_tuple cursor;
	bool scanning;
	__u64 events_lost; /* as far as has been made good */
};

int sweep_open(struct agent *agent)
{
	agent->sweep = calloc(1, sizeof(*agent->sweep));
	if (!agent->sweep)
		return -ENOMEM;
	TAILQ_INIT(&agent->sweep->closed);
	/* Those of the agent before it has made good, or taking over has. */
	agent->sweep->events_lost = dataplane_events_lost(&agent->dp);
	return 0;
}

void sweep_close(struct agent *agent)
{
	struct closed *item;

	if (!agent->sweep)
		return;
	while ((item = TAILQ_FIRST(&agent->sweep->closed))) {
		TAILQ_REMOVE(&agent->sweep->closed, item, link);
		free(item);
	}
	free(agent->sweep);
	agent->sweep = NULL;
}

/* Never lent: its numbers are not shifted, and TIME_WAIT can do without us. */
static bool unshifted(const struct kv_client *entry)
{
	return entry->state != KV_CLIENT_LENT && !entry->rx_bypass && !entry->tx_bypass;
}

void sweep_unshifted(struct agent *agent, const struct kv_tuple *tuple)
{
	struct kv_client entry;

	if (agent->sweep && !entry_read(&agent->dp, tuple, &entry) && unshifted(&entry))
		bpf_map_delete_elem(agent->dp.clients_fd, tuple);
}

void sweep_tuple(struct agent *agent, const struct kv_tuple *tuple)
{
	struct kv_client entry;
	struct closed *item;

	if (!agent->sweep || entry_read(&agent->dp, tuple, &entry))
		return;
	if (unshifted(&entry)) {
		bpf_map_delete_elem(agent->dp.clients_fd, tuple);
		return;
	}
	item = malloc(sizeof(*item));
	if (!item)
		return; /* the scan finds it */
	item->tuple = *tuple;
	item->since_ns = kv_now_ns();
	TAILQ_INSERT_TAIL(&agent->sweep->closed, item, link);
}

static void closed_drop(struct agent *agent, struct closed *item)
{
	TAILQ_REMOVE(&agent->sweep->closed, item, link);
	free(item);
}

static void closed_look(struct agent *agent, struct closed *item)
{
	/* A younger connection of the same tuple has the entry now, and its own end. */
	if (!client_find(agent, &item->tuple)) {
		if (dataplane_home_exists(&agent->dp, &item->tuple))
			return;
		bpf_map_delete_elem(agent->dp.clients_fd, &item->tuple);
	}
	closed_drop(agent, item);
}

/* Not all of them each time: with a thousand ends a second there are 60,000 in TIME_WAIT. */
static void sweep_closed(struct agent *agent, __u64 now_ns)
{
	struct closed_list *list = &agent->sweep->closed;
	struct closed *item, *next;

	for (item = TAILQ_FIRST(list); item && now_ns - item->since_ns > CLOSED_LATE; item = next) {
		next = TAILQ_NEXT(item, link);
		closed_look(agent, item);
	}
	for (item = TAILQ_LAST(list, closed_list); item && now_ns - item->since_ns < CLOSED_SOON;
	     item = next) {
		next = TAILQ_PREV(item, closed_list, link);
		closed_look(agent, item);
	}
}

bool sweep_make_room(struct agent *agent)
{
	struct closed *item, *next;
	__u64 now_ns = kv_now_ns();
	struct kv_client entry;
	int made = 0;

	/* A connection that cannot be accepted may have the tuple of one that is closed. */
	if (agent->missed)
		return false;
	listen_accept(agent);
	for (item = TAILQ_FIRST(&agent->sweep->closed);
	     item && made < ROOM_STEP && now_ns - item->since_ns > CLOSED_SOON; item = next) {
		next = TAILQ_NEXT(item, link);
		if (!client_find(agent, &item->tuple)) {
			if (!entry_read(&agent->dp, &item->tuple, &entry) &&
			    entry.state == KV_CLIENT_LENT)
				continue;
			if (!bpf_map_delete_elem(agent->dp.clients_fd, &item->tuple))
				made++;
		}
		closed_drop(agent, item);
	}
	return made > 0;
}

/* A pair goes on without its home sockets when all of the agent was killed at once: silent.c knows
 * when that has ended. */
static void sweep_stray(struct agent *agent, const struct kv_tuple *tuple)
{
	struct kv_client entry;

	if (!dataplane_home_exists(&agent->dp, tuple) && !entry_read(&agent->dp, tuple, &entry) &&
	    entry.state != KV_CLIENT_LENT)
		bpf_map_delete_elem(agent->dp.clients_fd, tuple);
}

/* Entries nobody told us about: connections that ended before they were accepted. */
static void sweep_scan(struct agent *agent)
{
	struct sweep *s = agent->sweep;
	struct kv_tuple next;

	for (int i = 0; i < SCAN_STEP; i++) {
		int err = bpf_map_get_next_key(agent->dp.clients_fd,
					       s->scanning ? &s->cursor : NULL, &next);

		if (s->scanning && !client_find(agent, &s->cursor))
			sweep_stray(agent, &s->cursor);
		s->scanning = !err;
		if (err)
			return;
		s->cursor = next;
	}
}

static void sweep_idle(struct client *c, __u64 now_ns)
{
	struct agent *agent = c->agent;
	__u64 limit = agent->config->timeouts.client_idle_ms * MS;
	struct kv_client entry;

	if (!agent->draining && clock_since(c->last_ns, now_ns) < limit)
		return;
	/* What the kernel serves, only its entry knows. */
	if (!entry_read(&agent->dp, &c->key, &entry)) {
		if (entry.state == KV_CLIENT_LENT)
			return;
		if (entry.last_ns > c->last_ns)
			c->last_ns = entry.last_ns;
	}
	if (agent->draining || clock_since(c->last_ns, now_ns) >= limit)
		client_close_gently(c);
}

static void sweep_client(struct client *c, __u64 now_ns)
{
	bool late = c->deadline_ns && now_ns >= c->deadline_ns;

	switch (c->phase) {
	case CLIENT_IDLE:
		sweep_idle(c, now_ns);
		break;
	case CLIENT_READING:
		if (late && c->starving)
			answer_unavailable(c, "no memory for this request in time");
		else if (late && c->in.len)
			answer_too_slow(c);
		else if (late || (c->agent->draining && !c->in.len))
			client_close(c);
		break;
	case CLIENT_HASHING:
		if (late)
			hasher_hurry(c);
		break;
	case CLIENT_WAITING:
		if (late)
			client_waited(c);
		break;
	case CLIENT_RELAYING:
		relay_check(c, now_ns);
		break;
	case CLIENT_ANSWERING:
	case CLIENT_LINGERING:
		if (late)
			client_close(c);
		break;
	case CLIENT_DEAD:
		break;
	}
}

void sweep_ended(struct client *c, const struct kv_pair *pair)
{
	if (!(pair->seen & KV_SEEN_RESPONSE))
		answer_bad_gateway(c);
	else if (kv_framing_done(&pair->response))
		client_close_gently(c);
	else
		client_reset(c);
}

/* A client that the kernel wanted closed is in state AGENT, with no request in our hands. */
static void sweep_lost_events(struct agent *agent)
{
	__u64 lost = dataplane_events_lost(&agent->dp);
	struct kv_client entry;
	struct client *c;

	if (lost == agent->sweep->events_lost)
		return;
	agent->sweep->events_lost = lost;
	kv_warn("%llu events of the kernel lost: looking at every client",
		(unsigned long long)lost);
	events_consume(agent);
	listen_accept(agent);
	TAILQ_FOREACH (c, &agent->clients, link)
		if (c->phase == CLIENT_IDLE && !entry_read(&agent->dp, &c->key, &entry) &&
		    entry.state == KV_CLIENT_AGENT)
			sweep_ended(c, &entry.pair);
}

void sweep(struct agent *agent, __u64 now_ns)
{
	struct client *c;

	/* Those that close meanwhile stay in the list until they are reaped. */
	TAILQ_FOREACH (c, &agent->clients, link)
		sweep_client(c, now_ns);
	sweep_lost_events(agent);
	silent_pairs(agent, now_ns);
	sweep_closed(agent, now_ns);
	sweep_scan(agent);
}
