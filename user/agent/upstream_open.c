// SPDX-License-Identifier: BSD-2-Clause
/* Connecting to a backend, up to the programs' knowing the connection; and one of the agent before.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/pool.h"
#include "agent/upstream.h"
#include "common/log.h"

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

void upstream_failed(struct upstream *up, int err)
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

void upstream_connected(struct upstream *up)
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

/* It may be us who were late, on a machine that had no time for us: what the socket has to say by
 * now is said by its event. */
void upstream_connect_timeout(struct upstream *up)
{
	struct pollfd answered = {.fd = up->fd, .events = POLLOUT};

	if (poll(&answered, 1, 0) != 1)
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
	upstream_events(up);
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
	upstream_events(up);
	agent->pools[up->backend].n_open++;
	return up;
}
