// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <sys/socket.h>

#include "agent/expiry.h"
#include "agent/pool.h"
#include "agent/relay.h"
#include "agent/upstream.h"
#include "common/log.h"

struct kv_upstream *upstream_slot(const struct upstream *up)
{
	return &up->agent->dp.upstreams[up->slot];
}

void upstream_watch(struct upstream *up, bool on)
{
	if (on == up->read_on)
		return;
	if (on)
		event_add(&up->read, NULL);
	else
		event_del(&up->read);
	up->read_on = on;
}

bool upstream_silent(const struct upstream *up)
{
	char byte;

	return recv(up->fd, &byte, 1, MSG_PEEK) < 0 && errno == EAGAIN;
}

/* The end of an idle upstream, or bytes that nobody asked for. */
static void upstream_idle_readable(struct upstream *up)
{
	struct agent *agent = up->agent;
	char byte;
	ssize_t n = recv(up->fd, &byte, 1, MSG_PEEK);

	if (n < 0 && errno == EAGAIN)
		return;
	if (!pool_take(agent, up->backend, up->slot)) {
		/* Claimed by the kernel a moment ago: looked at again when it is back. */
		upstream_watch(up, false);
		return;
	}
	if (n > 0)
		kv_debug("backend %s: sends without being asked",
			 agent->dp.backends[up->backend].name);
	/* A FIN is the idle time-out of any HTTP server; a RST may be the end of the process. */
	if (!n)
		expiry_learn(up, kv_now_ns());
	upstream_retire(up, n != 0);
	pool_lost(agent, up->backend);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct upstream *up = arg;

	(void)fd, (void)what;
	if (up->phase == UPSTREAM_CLOSING) {
		upstream_closing(up);
		return;
	}
	switch (kv_read_once(upstream_slot(up)->state)) {
	case KV_UP_IDLE:
		upstream_idle_readable(up);
		break;
	case KV_UP_RELAY:
		if (up->client)
			relay_from_upstream(up->client);
		else
			upstream_watch(up, false);
		break;
	default:
		/* LENT: what the kernel lets through is the pair's end, and is told by an event. */
		upstream_watch(up, false);
	}
}

__u32 upstream_claim(struct upstream *up, struct client *client, const struct kv_tuple *key,
		     const struct kv_dispatch *dispatch)
{
	struct kv_upstream *slot = upstream_slot(up);
	__u32 gen = slot->gen + 1;

	/* The client it served last may not know yet that the kernel has finished that pair. */
	if (up->client)
		relay_forget(up->client);
	kv_write_once(slot->gen, gen);
	slot->client = *key;
	slot->last_ns = kv_now_ns();
	up->agent->dp.dispatches[up->slot] = *dispatch;
	__sync_synchronize();
	kv_write_once(slot->state, KV_UP_RELAY);
	up->client = client;
	upstream_watch(up, true);
	return gen;
}

void upstream_release(struct upstream *up)
{
	struct kv_upstream *slot = upstream_slot(up);

	up->client = NULL;
	slot->last_ns = kv_now_ns();
	kv_write_once(slot->state, KV_UP_IDLE);
	upstream_watch(up, true);
	pool_idle(up->agent, up->backend, up->slot);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct upstream *up = arg;
	int err = 0;
	socklen_t len = sizeof(err);

	(void)what;
	if (up->phase == UPSTREAM_OPEN) {
		if (up->client)
			relay_to_upstream(up->client);
		return;
	}
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) < 0)
		err = errno;
	if (err)
		upstream_failed(up, -err);
	else
		upstream_connected(up);
}

void upstream_events(struct upstream *up)
{
	event_assign(&up->read, up->agent->base, up->fd, EV_READ | EV_PERSIST, on_readable, up);
	event_assign(&up->write, up->agent->base, up->fd, EV_WRITE, on_writable, up);
}
