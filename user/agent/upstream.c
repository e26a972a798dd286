// SPDX-License-Identifier: BSD-2-Clause
#include <bpf/bpf.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/clock.h"
#include "agent/expiry.h"
#include "agent/handover.h"
#include "agent/pool.h"
#include "agent/relay.h"
#include "agent/upstream.h"
#include "common/cleanup.h"
#include "common/log.h"

#define CLOSING_MAX SECOND	 /* for the backend's FIN */
#define EXPIRED_MAX (3 * SECOND) /* … where it will come because the connection is old */
#define CLOSED_MAX SECOND	 /* for the last packets of a closed socket */

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

static void upstream_free(struct upstream *up)
{
	up->agent->upstreams[up->slot] = NULL;
	free(up);
}

/* Where the socket ends; the tuple's mapping stays until the kernel has no such socket. */
static void upstream_close_fd(struct upstream *up, bool abort)
{
	struct linger linger = {.l_onoff = 1, .l_linger = 0};

	event_del(&up->read);
	event_del(&up->write);
	up->read_on = false;
	if (abort)
		setsockopt(up->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	close(up->fd);
	up->fd = -1;
	up->phase = UPSTREAM_CLOSED;
	up->since_ns = kv_now_ns();
	count(&up->agent->dp, upstreams_closed);
}

void upstream_expire(struct upstream *up)
{
	up->expired = true;
	upstream_retire(up, false);
}

void upstream_retire(struct upstream *up, bool abort)
{
	struct agent *agent = up->agent;
	bool listed = up->phase == UPSTREAM_CLOSING;

	if (up->phase == UPSTREAM_CLOSED)
		return;
	kv_write_once(upstream_slot(up)->state, KV_UP_DONE);
	if (up->client)
		relay_forget(up->client); /* it may not know yet that its pair is over */
	if (up->phase == UPSTREAM_ORPHAN) {
		TAILQ_REMOVE(&agent->handover->orphans, up, link);
		TAILQ_INSERT_TAIL(&agent->retiring, up, link);
		up->phase = UPSTREAM_CLOSED;
		up->since_ns = kv_now_ns();
		return;
	}
	if (!listed) {
		agent->pools[up->backend].n_open--;
		TAILQ_INSERT_TAIL(&agent->retiring, up, link);
		clock_hurry(agent);
	}
	if (abort) {
		upstream_close_fd(up, true);
		return;
	}
	/* Who closes first keeps the tuple in TIME_WAIT: leave that to the backend if it is about
	 * to close anyway, and our slot is free again after one round trip. */
	event_del(&up->write);
	up->phase = UPSTREAM_CLOSING;
	up->since_ns = kv_now_ns();
	upstream_watch(up, true);
}

/* Whatever comes on a connection that is not used again is read away, up to its end. */
static void upstream_closing(struct upstream *up)
{
	ssize_t n = recv(up->fd, up->agent->scratch, SCRATCH_SIZE, 0);

	if (n > 0 || (n < 0 && errno == EAGAIN))
		return;
	if (up->expired && !n)
		expiry_learn(up, kv_now_ns());
	upstream_close_fd(up, false);
}

void upstream_sweep(struct agent *agent, __u64 now_ns)
{
	struct upstream *up, *next;
	__u32 slot;

	for (up = TAILQ_FIRST(&agent->retiring); up; up = next) {
		next = TAILQ_NEXT(up, link);
		if (up->phase == UPSTREAM_CLOSING) {
			if (clock_since(up->since_ns, now_ns) <=
			    (up->expired ? EXPIRED_MAX : CLOSING_MAX))
				continue;
			if (up->expired)
				expiry_forget(up);
			/* By RST: a FIN might be sent again when nobody knows this tuple's shift.
			 */
			upstream_close_fd(up, true);
			continue;
		}
		if (clock_since(up->since_ns, now_ns) < CLOSED_MAX &&
		    dataplane_home_exists(&agent->dp, &upstream_slot(up)->key))
			continue;
		/* The tuple may be a younger connection's by now. */
		if (!bpf_map_lookup_elem(agent->dp.upstream_ids_fd, &upstream_slot(up)->key,
					 &slot) &&
		    slot == up->slot)
			bpf_map_delete_elem(agent->dp.upstream_ids_fd, &upstream_slot(up)->key);
		kv_write_once(upstream_slot(up)->state, KV_UP_FREE);
		TAILQ_REMOVE(&agent->retiring, up, link);
		upstream_free(up);
	}
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

/* Enters the tuple: from here on the programs know its packets. */
static int upstream_enter(struct upstream *up)
{
	struct kv_upstream *slot = upstream_slot(up);
	struct dataplane *dp = &up->agent->dp;
	__u32 rx_bypass = 0, tx_bypass = 0, former;
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	struct kv_tuple key = {};
	struct kv_addr local;

	if (getsockname(up->fd, (struct sockaddr *)&sa, &len) < 0 ||
	    kv_addr_from_sockaddr((struct sockaddr *)&sa, &local))
		return -EAFNOSUPPORT;
	memcpy(key.local, local.addr, sizeof(key.local));
	key.local_port = local.port;
	memcpy(key.peer, dp->backends[up->backend].addr, sizeof(key.peer));
	key.peer_port = dp->backends[up->backend].port;

	/* The kernel may reuse a tuple in TIME_WAIT (net.ipv4.tcp_tw_reuse). While the former
	 * connection's mapping is in force, the handshake was shifted by it: go on with it. */
	if (!bpf_map_lookup_elem(dp->upstream_ids_fd, &key, &former)) {
		rx_bypass = dp->upstreams[former].rx_bypass;
		tx_bypass = dp->upstreams[former].tx_bypass;
	}
	slot->backend = up->backend;
	slot->rx_bypass = rx_bypass;
	slot->tx_bypass = tx_bypass;
	slot->tsval = 0;
	slot->key = key;
	memset(&slot->client, 0, sizeof(slot->client));
	__sync_synchronize();
	return bpf_map_update_elem(dp->upstream_ids_fd, &key, &up->slot, BPF_ANY);
}

static void upstream_failed(struct upstream *up, int err)
{
	struct agent *agent = up->agent;
	__u32 backend = up->backend;

	event_del(&up->write);
	close(up->fd);
	agent->pools[backend].n_connecting--;
	upstream_free(up);
	count(&agent->dp, upstreams_failed);
	pool_connect_failed(agent, backend, err);
}

static void upstream_connected(struct upstream *up)
{
	struct agent *agent = up->agent;
	struct pool *pool = &agent->pools[up->backend];
	int err = upstream_enter(up);

	if (err) {
		kv_warn("backend %s: cannot enter a connection: %s",
			agent->dp.backends[up->backend].name, strerror(-err));
		upstream_failed(up, err);
		return;
	}
	up->phase = UPSTREAM_OPEN;
	pool->n_connecting--;
	pool->n_open++;
	count(&agent->dp, upstreams_opened);
	pool_connected(agent, up->backend);
	upstream_release(up);
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

void upstream_connect_timeout(struct upstream *up)
{
	upstream_failed(up, -ETIMEDOUT);
}

int upstream_open(struct agent *agent, __u32 slot)
{
	__u32 backend = slot / agent->dp.upstreams_per_backend;
	int one = 1, mss = attach_max_segment(&agent->attach), fd, err;
	const struct kv_backend *to = &agent->dp.backends[backend];
	struct kv_addr address = {.port = to->port};
	struct sockaddr_storage sa;
	struct upstream *up;
	socklen_t len;

	memcpy(address.addr, to->addr, sizeof(address.addr));
	len = kv_addr_to_sockaddr(&address, &sa);
	fd = socket(sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &mss, sizeof(mss));
	if (connect(fd, (struct sockaddr *)&sa, len) < 0 && errno != EINPROGRESS) {
		err = -errno;
		close(fd);
		return err;
	}
	up = calloc(1, sizeof(*up));
	if (!up) {
		close(fd);
		return -ENOMEM;
	}
	up->agent = agent;
	up->slot = slot;
	up->backend = backend;
	up->fd = fd;
	up->first_gen = agent->dp.upstreams[slot].gen + 1;
	up->since_ns = kv_now_ns();
	event_assign(&up->read, agent->base, fd, EV_READ | EV_PERSIST, on_readable, up);
	event_assign(&up->write, agent->base, fd, EV_WRITE, on_writable, up);
	event_add(&up->write, NULL);
	agent->upstreams[slot] = up;
	agent->pools[backend].n_connecting++;
	return 0;
}

struct upstream *upstream_take_over(struct agent *agent, __u32 slot, int fd)
{
	static const int one = 1;
	struct upstream *up = calloc(1, sizeof(*up));

	if (!up)
		return NULL;
	up->agent = agent;
	up->slot = slot;
	up->backend = slot / agent->dp.upstreams_per_backend;
	up->fd = fd;
	up->phase = fd < 0 ? UPSTREAM_ORPHAN : UPSTREAM_OPEN;
	up->first_gen = agent->dp.upstreams[slot].gen; /* it may have served before */
	up->since_ns = kv_now_ns();
	agent->upstreams[slot] = up;
	pool_has(agent, up->backend, slot);
	if (fd < 0)
		return up;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	event_assign(&up->read, agent->base, fd, EV_READ | EV_PERSIST, on_readable, up);
	event_assign(&up->write, agent->base, fd, EV_WRITE, on_writable, up);
	agent->pools[up->backend].n_open++;
	return up;
}

void upstream_close_all(struct agent *agent)
{
	__u32 n = agent->dp.max_backends * agent->dp.upstreams_per_backend;

	for (__u32 i = 0; agent->upstreams && i < n; i++) {
		struct upstream *up = agent->upstreams[i];

		if (!up)
			continue;
		/* By RST, which is out when close() returns; a FIN would need us to stay. */
		if (up->fd >= 0)
			upstream_close_fd(up, true);
		upstream_free(up);
	}
}
