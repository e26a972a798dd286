// SPDX-License-Identifier: BSD-2-Clause
/*
 * Whose an inherited connection is, the maps tell: an upstream's tuple has a slot; a client's local
 * side is a service. What is neither was about to become one, and is reset.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "agent/client.h"
#include "agent/handover.h"
#include "agent/pool.h"
#include "agent/steer.h"
#include "agent/upstream.h"
#include "common/log.h"

static bool is_listening(int fd)
{
	int listening = 0;
	socklen_t len = sizeof(listening);

	return !getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) && listening;
}

static int tuple_of(int fd, struct kv_tuple *ret, struct sockaddr_storage *peer)
{
	struct sockaddr_storage local;
	socklen_t local_len = sizeof(local), peer_len = sizeof(*peer);
	struct kv_addr a, b;

	if (getsockname(fd, (struct sockaddr *)&local, &local_len) < 0 ||
	    getpeername(fd, (struct sockaddr *)peer, &peer_len) < 0)
		return -errno;
	if (kv_addr_from_sockaddr((struct sockaddr *)&local, &a) ||
	    kv_addr_from_sockaddr((struct sockaddr *)peer, &b))
		return -EAFNOSUPPORT;
	memcpy(ret->local, a.addr, sizeof(ret->local));
	memcpy(ret->peer, b.addr, sizeof(ret->peer));
	ret->local_port = a.port;
	ret->peer_port = b.port;
	return 0;
}

static __u32 service_of(struct agent *agent, const struct kv_tuple *tuple)
{
	struct kv_listen at = {.port = tuple->local_port};
	__u32 id;

	memcpy(at.addr, tuple->local, sizeof(at.addr));
	if (!bpf_map_lookup_elem(agent->dp.service_ids_fd, &at, &id))
		return id;
	memset(at.addr, 0, sizeof(at.addr));
	return bpf_map_lookup_elem(agent->dp.service_ids_fd, &at, &id) ? KV_NONE : id;
}

/* ---- clients ------------------------------------------------------------------------- */

static bool socket_client(struct agent *agent, __u32 service, int fd,
			  const struct sockaddr_storage *peer)
{
	struct client *c = client_take_over(agent, service, fd, (const struct sockaddr *)peer);
	struct kv_client entry;

	if (!c)
		return false;
	if (entry_read(&agent->dp, &c->key, &entry) || entry.state != KV_CLIENT_AGENT)
		return true;
	/* What it sends now may be the middle of a request whose beginning nobody has. */
	client_watch(c, false);
	c->died = true;
	TAILQ_INSERT_TAIL(&agent->handover->died, c, wait);
	return true;
}

/* ---- upstreams ----------------------------------------------------------------------- */

static bool socket_upstream(struct agent *agent, __u32 slot, const struct kv_tuple *tuple, int fd)
{
	struct kv_upstream *s = &agent->dp.upstreams[slot];
	struct upstream *up;

	if (agent->upstreams[slot] || memcmp(&s->key, tuple, sizeof(*tuple)) ||
	    !agent->pools[slot / agent->dp.upstreams_per_backend].open)
		return false;
	up = upstream_take_over(agent, slot, fd);
	if (!up)
		return false;
	switch (kv_read_once(s->state)) {
	case KV_UP_IDLE:
		/* Whoever is away has none: it is down by a judgement of its health. */
		agent->pools[up->backend].away = false;
		upstream_watch(up, true);
		break;
	case KV_UP_RELAY:
		/* What the agent before had read and not written is lost, and what it was about to
		 * write is not known. */
		steer_settle(&agent->dp, slot, KV_CALL_SETTLE_FAILED);
		steer_trace_end(&agent->dp, agent->dp.dispatches[slot].trace,
				&(struct steer_end){.end = KV_TRACE_BROKEN});
		upstream_retire(up, true);
		break;
	case KV_UP_FREE: /* entered, not yet in the pool */
		upstream_retire(up, true);
		break;
	}
	return true;
}

/* ---- all ----------------------------------------------------------------------------- */

static bool socket_take(struct agent *agent, int fd, __u32 *clients, __u32 *upstreams)
{
	__u32 slots = agent->dp.max_backends * agent->dp.upstreams_per_backend, slot, service;
	struct sockaddr_storage peer;
	struct kv_tuple tuple = {};

	if (tuple_of(fd, &tuple, &peer))
		return false;
	if (!bpf_map_lookup_elem(agent->dp.upstream_ids_fd, &tuple, &slot)) {
		*upstreams += 1;
		return slot < slots && socket_upstream(agent, slot, &tuple, fd);
	}
	service = service_of(agent, &tuple);
	*clients += service != KV_NONE;
	return service != KV_NONE && socket_client(agent, service, fd, &peer);
}

void handover_sockets(struct agent *agent)
{
	struct handover_sockets *sockets = &agent->handover->sockets;
	__u32 clients = 0, upstreams = 0;

	for (size_t i = 0; i < sockets->n; i++) {
		int fd = sockets->fd[i];

		if (fd >= 0 && !is_listening(fd) && socket_take(agent, fd, &clients, &upstreams))
			sockets->fd[i] = -1;
	}
	kv_info("taken over: %u connections of clients, %u to backends", clients, upstreams);
}

/* Tuples that no slot has any more: the agent before was killed in between. */
static void slots_stray_tuples(struct agent *agent)
{
	int fd = agent->dp.upstream_ids_fd;
	struct kv_tuple at, next;
	bool first = true;
	__u32 slot;

	while (!bpf_map_get_next_key(fd, first ? NULL : &at, &next)) {
		if (!bpf_map_lookup_elem(fd, &next, &slot) && !agent->upstreams[slot]) {
			bpf_map_delete_elem(fd, &next);
			first = true; /* the place of a deleted key is lost */
			continue;
		}
		at = next;
		first = false;
	}
}

int handover_slots(struct agent *agent)
{
	__u32 slots = agent->dp.max_backends * agent->dp.upstreams_per_backend;

	agent->handover->gen = calloc(slots, sizeof(*agent->handover->gen));
	if (!agent->handover->gen)
		return -ENOMEM;
	for (__u32 i = 0; i < slots; i++) {
		struct kv_upstream *s = &agent->dp.upstreams[i];
		struct upstream *up;

		if (agent->upstreams[i] || kv_read_once(s->state) == KV_UP_FREE)
			continue;
		if (!agent->pools[i / agent->dp.upstreams_per_backend].open) {
			kv_write_once(s->state, KV_UP_FREE);
			continue;
		}
		up = upstream_take_over(agent, i, -1);
		if (!up)
			return -ENOMEM;
		TAILQ_INSERT_TAIL(&agent->handover->orphans, up, link);
	}
	slots_stray_tuples(agent);
	return 0;
}
