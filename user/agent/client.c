// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/address.h"
#include "agent/client.h"
#include "agent/hasher.h"
#include "agent/handover.h"
#include "agent/pool.h"
#include "agent/relay.h"
#include "agent/request.h"
#include "agent/steer.h"
#include "agent/sweep.h"

#define LINGER_TIME (2 * SECOND)
#define LINGER_BYTES (8u << 20)
#define ANSWER_TIME (30 * SECOND) /* for a client to take more of what it is sent */

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

/* ---- ends ---------------------------------------------------------------------------- */

static __u8 tcp_state(int fd)
{
	struct tcp_info info = {.tcpi_state = TCP_CLOSE};
	socklen_t len = sizeof(info);

	getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len);
	return info.tcpi_state;
}

/* Ends what is in hand for a connection that has ended or is about to. The entry was made busy for
 * it. If its socket had gone by then, that was another connection's entry, of the same tuple, which
 * would wait for us for ever. Else the entry ends with it and nothing is written: from the moment
 * the socket is closed another connection may have the tuple, and be lent between our reading the
 * entry and our writing it. */
static void client_give_up(struct client *c, bool gone)
{
	struct entry_copy made;
	bool busy = c->request != NULL && gone;

	if (busy)
		made = c->request->entry;
	client_drop_request(c, true);
	if (busy)
		entry_set_home(&c->agent->dp, &made);
}

static void client_end(struct client *c, bool reset)
{
	struct linger linger = {.l_onoff = 1, .l_linger = 0};
	struct agent *agent = c->agent;
	__u8 state;

	if (c->phase == CLIENT_DEAD)
		return;
	if (c->died)
		TAILQ_REMOVE(&agent->handover->died, c, wait);
	event_del(&c->read);
	event_del(&c->write);
	if (c->rechecked)
		TAILQ_REMOVE(&agent->rechecks, c, recheck);
	if (reset)
		setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	state = tcp_state(c->fd);
	/* It will send nothing more, and while our socket lives the tuple is nobody else's. */
	if (state == TCP_CLOSE_WAIT)
		sweep_unshifted(agent, &c->key);
	close(c->fd);
	client_give_up(c, state == TCP_CLOSE);
	buffer_free(&c->in, &c->address->memory);
	buffer_free(&c->out, &c->address->memory);
	tdelete(c, &agent->client_tree, compare);
	agent->n_clients--;
	address_release(agent, c->address);
	sweep_tuple(agent, &c->key);
	/* Handlers further up may still hold c. */
	c->phase = CLIENT_DEAD;
	TAILQ_INSERT_TAIL(&agent->dead, c, wait);
	event_active(&agent->reap, EV_TIMEOUT, 0);
}

void client_close(struct client *c)
{
	client_end(c, false);
}

void client_reset(struct client *c)
{
	client_end(c, true);
}

static void linger(struct client *c)
{
	if (c->eof || shutdown(c->fd, SHUT_WR) < 0) {
		client_close(c);
		return;
	}
	client_set_phase(c, CLIENT_LINGERING);
	c->deadline_ns = kv_now_ns() + LINGER_TIME;
	client_watch(c, true);
}

void client_close_gently(struct client *c)
{
	client_drop_request(c, true);
	client_set_phase(c, CLIENT_ANSWERING);
	if (!c->out.len) {
		linger(c);
		return;
	}
	c->deadline_ns = kv_now_ns() + ANSWER_TIME;
	client_watch(c, false);
}

static void lingering(struct client *c)
{
	ssize_t n = recv(c->fd, c->agent->scratch, SCRATCH_SIZE, 0);

	if (n < 0 && errno == EAGAIN)
		return;
	if (n > 0)
		c->discarded += n;
	if (n <= 0 || c->discarded > LINGER_BYTES)
		client_close(c);
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
			c->deadline_ns = kv_now_ns() + ANSWER_TIME;
	}
	if (c->out.len) {
		event_add(&c->write, NULL);
		return;
	}
	buffer_free(&c->out, &c->address->memory);
	if (c->phase == CLIENT_RELAYING)
		relay_client_writable(c);
	else if (c->phase == CLIENT_ANSWERING)
		linger(c);
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
		lingering(c);
		break;
	case CLIENT_ANSWERING:
	case CLIENT_DEAD:
		client_watch(c, false);
	}
}

static struct client *client_new(struct agent *agent, int fd, const struct sockaddr *peer)
{
	struct sockaddr_storage local;
	socklen_t len = sizeof(local);
	struct kv_addr a, b;
	struct client *c;

	if (getsockname(fd, (struct sockaddr *)&local, &len) < 0 ||
	    kv_addr_from_sockaddr((struct sockaddr *)&local, &a) || kv_addr_from_sockaddr(peer, &b))
		return NULL;
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->agent = agent;
	c->fd = fd;
	memcpy(c->key.local, a.addr, sizeof(c->key.local));
	memcpy(c->key.peer, b.addr, sizeof(c->key.peer));
	c->key.local_port = a.port;
	c->key.peer_port = b.port;
	c->address = address_take(agent, c->key.peer);
	if (!c->address) {
		free(c);
		return NULL;
	}
	return c;
}

static void client_delete(struct client *c)
{
	address_release(c->agent, c->address);
	free(c);
}

/* By RST: at once, without anything kept of it, and nobody takes it for an answer. */
static void refuse(int fd)
{
	struct linger linger = {.l_onoff = 1, .l_linger = 0};

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	close(fd);
}

static void client_refuse(struct client *c)
{
	struct kv_client entry;

	/* The kernel has served it: a RST could overtake the answer on its way to the program. */
	if (!entry_read(&c->agent->dp, &c->key, &entry))
		close(c->fd);
	else
		refuse(c->fd);
	sweep_tuple(c->agent, &c->key);
	client_delete(c);
}

/* Over a limit; each has its counter. */
static bool client_too_many(struct client *c)
{
	struct agent *agent = c->agent;
	bool crowded = address_crowded(agent, c->address);
	struct kv_client entry;

	if (!crowded && agent->n_clients < agent->config->limits.clients &&
	    agent->n_clients < agent->file_clients)
		return false;
	/* The kernel serves its first request already: that one has been let in. */
	if (!entry_read(&agent->dp, &c->key, &entry) && entry.state == KV_CLIENT_LENT)
		return false;
	if (crowded)
		count(&agent->dp, clients_refused_address);
	else if (agent->n_clients >= agent->config->limits.clients)
		count(&agent->dp, clients_refused);
	else
		count(&agent->dp, clients_out_of_files);
	return true;
}

/* Its tuple is another connection's now, as are the kernel's entry and its events. The end of this
 * one has not been read yet. */
static void client_replaced(struct client *c)
{
	client_give_up(c, true);
	tdelete(c, &c->agent->client_tree, compare);
	memset(&c->key, 0, sizeof(c->key));
	client_reset(c);
}

static bool client_enter(struct client *c)
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

struct client *client_take_over(struct agent *agent, __u32 service, int fd,
				const struct sockaddr *peer)
{
	struct client *c = client_new(agent, fd, peer);

	if (!c)
		return NULL;
	c->service = service;
	if (client_enter(c)) {
		client_flush(c); /* what was written with MSG_MORE */
		return c;
	}
	client_delete(c);
	return NULL;
}

void client_accept(struct agent *agent, __u32 service, int fd, const struct sockaddr *peer)
{
	struct client *c = client_new(agent, fd, peer), *old;
	struct kv_client entry;

	if (!c) {
		count(&agent->dp, clients_refused);
		refuse(fd);
		return;
	}
	old = client_find(agent, &c->key);
	if (old)
		client_replaced(old);
	c->service = service;
	if (client_too_many(c)) {
		client_refuse(c);
		return;
	}
	if (!client_enter(c)) {
		count(&agent->dp, clients_refused);
		client_refuse(c);
		return;
	}
	count(&agent->dp, clients_accepted);
	/* The kernel may have served it, and told us of its end, when it could not be accepted. */
	if (agent->missed && !entry_read(&agent->dp, &c->key, &entry) &&
	    entry.state == KV_CLIENT_AGENT)
		sweep_ended(c, &entry.pair);
}

void clients_close_all(struct agent *agent)
{
	struct client *c;

	TAILQ_FOREACH (c, &agent->clients, link)
		client_close(c);
	clients_reap(agent);
}

void clients_reap(struct agent *agent)
{
	struct client *c;

	while ((c = TAILQ_FIRST(&agent->dead))) {
		TAILQ_REMOVE(&agent->dead, c, wait);
		TAILQ_REMOVE(&agent->clients, c, link);
		free(c);
	}
}
