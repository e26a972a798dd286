// SPDX-License-Identifier: BSD-2-Clause
#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>

#include <kvsteer/framing.h>

#include "agent/answer.h"
#include "agent/client.h"
#include "agent/entry.h"
#include "agent/events.h"
#include "agent/follow.h"
#include "agent/listen.h"
#include "agent/pool.h"
#include "agent/relay.h"
#include "agent/request.h"
#include "agent/upstream.h"
#include "common/log.h"

/* The client an event is about, if the pair of the event was its last one: an event may be late. */
static struct client *event_client(struct agent *agent, const struct kv_event *event,
				   struct kv_client *ret_entry)
{
	struct client *c;

	/* The kernel serves connections that we have not accepted yet. One of the same tuple may be
	 * in our hands still: that is not the one. */
	listen_accept(agent);
	c = client_find(agent, &event->client);
	if (!c || entry_read(&agent->dp, &event->client, ret_entry) ||
	    ret_entry->pair.slot != event->slot || ret_entry->pair.gen != event->gen)
		return NULL;
	/* What is held is a later request, whose response has not begun. */
	if (ret_entry->hold && ret_entry->hold == c->hold)
		return NULL;
	/* What we have in hand is this pair, or one before it. */
	if (c->phase == CLIENT_RELAYING)
		relay_let_go(c);
	return c->phase == CLIENT_IDLE ? c : NULL;
}

static void event_handle(struct agent *agent, const struct kv_event *event)
{
	__u32 slots = agent->dp.max_backends * agent->dp.upstreams_per_backend;
	struct upstream *up = event->slot < slots ? agent->upstreams[event->slot] : NULL;
	struct kv_client entry;
	struct client *c = event_client(agent, event, &entry);

	kv_debug("event %u: slot %u, generation %u%s", event->type, event->slot, event->gen,
		 c ? "" : ", no client");
	if (c) {
		switch (event->type) {
		case KV_EVENT_CLOSE_CLIENT:
			client_close_gently(c);
			break;
		case KV_EVENT_RESET_CLIENT:
			client_reset(c);
			break;
		case KV_EVENT_BAD_GATEWAY:
			answer_bad_gateway(c);
			break;
		case KV_EVENT_CLIENT_GONE:
			client_close(c);
			break;
		case KV_EVENT_CLOSE_UPSTREAM:
			request_expect(c);
			break;
		case KV_EVENT_RETURNED_CLOSED:
			if (entry.pair.response.flags & KV_FRAMING_CLOSE || c->close_after)
				client_close_gently(c);
			break;
		}
	}
	if (!up || up->phase != UPSTREAM_OPEN || upstream_slot(up)->gen != event->gen ||
	    kv_read_once(upstream_slot(up)->state) != KV_UP_DONE)
		return;
	if (event->type == KV_EVENT_BAD_GATEWAY)
		following_outcome(agent, up->backend, OUTCOME_FAILURE);
	/* Nothing was acknowledged there. */
	if (event->type == KV_EVENT_CLOSE_UPSTREAM)
		pool_ask(agent, up->backend);
	upstream_retire(up, event->type != KV_EVENT_RETURNED_CLOSED &&
				    event->type != KV_EVENT_CLOSE_CLIENT);
}

static int on_event(void *context, void *data, size_t size)
{
	struct kv_event event;

	if (size < sizeof(event))
		return 0;
	memcpy(&event, data, sizeof(event));
	event_handle(context, &event);
	return 0;
}

void events_consume(struct agent *agent)
{
	ring_buffer__consume(agent->ring);
}

static void on_ring(evutil_socket_t fd, short what, void *arg)
{
	(void)fd, (void)what;
	events_consume(arg);
}

int events_open(struct agent *agent)
{
	int err;

	agent->ring = ring_buffer__new(agent->dp.events_fd, on_event, agent, NULL);
	if (!agent->ring) {
		err = -errno;
		kv_err("cannot read the kernel's events: %s", strerror(-err));
		return err;
	}
	event_assign(&agent->ring_event, agent->base, ring_buffer__epoll_fd(agent->ring),
		     EV_READ | EV_PERSIST, on_ring, agent);
	event_add(&agent->ring_event, NULL);
	return 0;
}

void events_close(struct agent *agent)
{
	if (!agent->ring)
		return;
	event_del(&agent->ring_event);
	ring_buffer__free(agent->ring);
	agent->ring = NULL;
}
