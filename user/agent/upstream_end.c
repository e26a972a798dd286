// SPDX-License-Identifier: BSD-2-Clause
/* A connection to a backend that is not used again, up to its slot's being free. */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/clock.h"
#include "agent/expiry.h"
#include "agent/handover.h"
#include "agent/pool.h"
#include "agent/relay.h"
#include "agent/upstream.h"

#define CLOSING_MAX SECOND	 /* for the backend's FIN */
#define EXPIRED_MAX (3 * SECOND) /* … where it will come because the connection is old */
#define CLOSED_MAX SECOND	 /* for the last packets of a closed socket */

void upstream_free(struct upstream *up)
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
void upstream_closing(struct upstream *up)
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
