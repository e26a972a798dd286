// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "agent/address.h"
#include "agent/client.h"
#include "agent/hasher.h"
#include "agent/pool.h"
#include "agent/relay.h"
#include "agent/request.h"
#include "agent/steer.h"

static int compare(const void *a, const void *b)
{
	const struct client *x = a, *y = b;

	return memcmp(&x->key, &y->key, sizeof(x->key));
}

struct client *client_find(struct agent *agent, const struct kv_tuple *key)
{
	struct client wanted = {.key = *key};
	struct client **found = tfind(&wanted, &agent->client_tree, compare);

	return found ? *found : NULL;
}

void client_forget(struct client *c)
{
	tdelete(c, &c->agent->client_tree, compare);
}

void client_watch(struct client *c, bool on)
{
	if (on == c->read_on)
		return;
	if (on)
		event_add(&c->read, NULL);
	else
		event_del(&c->read);
	c->read_on = on;
}

void client_set_phase(struct client *c, enum client_phase phase)
{
	c->phase = phase;
	c->last_ns = kv_now_ns();
	c->deadline_ns = 0;
}

void client_idle(struct client *c)
{
	client_set_phase(c, CLIENT_IDLE);
	client_watch(c, true);
}

/* ---- requests ------------------------------------------------------------------------ */

void client_free_request(struct client *c)
{
	size_t used;

	if (!c->request)
		return;
	/* What the client has sent behind the request is the next one's beginning. */
	used = c->request->len < c->in.len ? c->request->len : c->in.len;
	if (c->in.len > used)
		buffer_consume(&c->in, used);
	else
		buffer_free(&c->in, &c->address->memory);
	free(c->request);
	c->request = NULL;
}

void client_drop_request(struct client *c, bool abort)
{
	bool ours = c->request && (!c->request->up || relay_is_mine(c));
	struct agent *agent = c->agent;

	hasher_drop(c);
	if (c->starving) {
		TAILQ_REMOVE(&agent->starved, c, starved);
		c->starving = false;
	}
	if (c->phase == CLIENT_WAITING && c->request->dispatch.backend == KV_NONE) {
		TAILQ_REMOVE(&agent->hopeful, c, wait);
		agent->n_hopeful--;
	} else if (c->phase == CLIENT_WAITING) {
		TAILQ_REMOVE(&agent->pools[c->request->dispatch.backend].waiters, c, wait);
		steer_undo(&agent->dp, &c->request->dispatch);
	}
	if (c->request && c->request->up)
		relay_drop(c, abort);
	if (ours)
		request_trace_end(c, KV_TRACE_ABORTED, 0);
	client_free_request(c);
	client_set_phase(c, CLIENT_IDLE);
}

void client_finished(struct client *c)
{
	if (c->close_after || c->agent->draining || (c->eof && !c->in.len)) {
		client_close_gently(c);
		return;
	}
	/* What came ahead of its end is still to be served; the socket says the end again. */
	c->eof = false;
	client_idle(c);
	if (c->in.len)
		request_next(c);
}

/* ---- events -------------------------------------------------------------------------- */

int client_send(struct client *c, const char *data, size_t len, int flags)
{
	ssize_t n = 0;
	int err;

	if (!c->out.len) {
		n = send(c->fd, data, len, MSG_NOSIGNAL | flags);
		if (n < 0 && errno != EAGAIN)
			return -errno;
		if (n < 0)
			n = 0;
	}
	if ((size_t)n == len)
		return 0;
	err = buffer_append(&c->out, data + n, len - n, &c->address->memory);
	if (!err)
		event_add(&c->write, NULL);
	return err;
}

void client_flush(struct client *c)
{
	int one = 1;

	/* It is on already: setting it pushes what MSG_MORE has held back. */
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct client *c = arg;
	ssize_t n = send(fd, c->out.data, c->out.len, MSG_NOSIGNAL);

	(void)what;
	if (n < 0 && errno != EAGAIN) {
		client_close(c);
		return;
	}
	if (n > 0) {
		buffer_consume(&c->out, n);
		if (c->deadline_ns && c->phase == CLIENT_ANSWERING)
			c->deadline_ns = kv_now_ns() + CLIENT_ANSWER_TIME;
	}
	if (c->out.len) {
		event_add(&c->write, NULL);
		return;
	}
	buffer_free(&c->out, &c->address->memory);
	if (c->phase == CLIENT_RELAYING)
		relay_client_writable(c);
	else if (c->phase == CLIENT_ANSWERING)
		client_linger(c);
}

/* A client that waits for its hashes or for an upstream: only its end matters. */
static void waiting(struct client *c)
{
	char byte;
	ssize_t n = recv(c->fd, &byte, 1, MSG_PEEK);

	if (n < 0 && errno == EAGAIN)
		return;
	if (n < 0) {
		client_close(c);
		return;
	}
	c->eof = n == 0;
	client_watch(c, false);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct client *c = arg;

	(void)fd, (void)what;
	switch (c->phase) {
	case CLIENT_IDLE:
		request_begin(c);
		break;
	case CLIENT_READING:
		request_read(c);
		break;
	case CLIENT_HASHING:
	case CLIENT_WAITING:
		waiting(c);
		break;
	case CLIENT_RELAYING:
		relay_client_readable(c);
		break;
	case CLIENT_LINGERING:
		client_lingering(c);
		break;
	case CLIENT_ANSWERING:
	case CLIENT_DEAD:
		client_watch(c, false);
	}
}

bool client_enter(struct client *c)
{
	struct agent *agent = c->agent;

	if (!tsearch(c, &agent->client_tree, compare))
		return false;
	event_assign(&c->read, agent->base, c->fd, EV_READ | EV_PERSIST, on_readable, c);
	event_assign(&c->write, agent->base, c->fd, EV_WRITE, on_writable, c);
	TAILQ_INSERT_TAIL(&agent->clients, c, link);
	agent->n_clients++;
	client_idle(c);
	return true;
}
