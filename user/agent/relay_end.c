// SPDX-License-Identifier: BSD-2-Clause
/* How a relayed request ends: whole, on to another backend, or not at all. */
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <kvsteer/framing.h>

#include "agent/answer.h"
#include "agent/entry.h"
#include "agent/follow.h"
#include "agent/offer.h"
#include "agent/pool.h"
#include "agent/relay.h"
#include "agent/relay_private.h"
#include "agent/request.h"
#include "agent/steer.h"
#include "common/log.h"

/* Where the pair was offered the kernel has followed the response and settled it, unless it had to
 * let a segment pass unseen. What is left to be given back, the slot's dispatch tells. */
void relay_settle(struct client *c, __u32 slot, enum kv_call_op op)
{
	struct kv_dispatch *d = &c->agent->dp.dispatches[slot];

	if (kv_read_once(d->charged_tokens) || kv_read_once(d->unconfirmed) ||
	    (op != KV_CALL_SETTLE_ANSWERED && op != KV_CALL_SETTLE_REFUSED &&
	     kv_read_once(d->charged_request)))
		steer_settle_answer(&c->agent->dp, slot, op, c->request->response.status);
}

/* Takes the upstream out of the request's hands. */
static struct upstream *relay_detach(struct client *c)
{
	struct upstream *up = c->request->up;

	c->request->up = NULL;
	if (up)
		offer_withdraw(&c->agent->dp, up->slot, c->hold);
	if (up && up->client == c)
		up->client = NULL;
	return up;
}

void relay_give_up(struct client *c, enum kv_call_op op, enum relay_upstream then)
{
	struct upstream *up = relay_detach(c);

	relay_settle(c, up->slot, op);
	if (then == RELAY_REUSE)
		upstream_release(up);
	else
		upstream_retire(up, then == RELAY_ABORT);
}

void relay_let_go(struct client *c)
{
	relay_detach(c);
	client_free_request(c);
	client_idle(c);
}

void relay_forget(struct client *c)
{
	const struct request *r = c->request;
	struct kv_client entry;
	/* State AGENT: the kernel has ended it so that the client is to be closed, maybe by RST. An
	 * event says how, which may not be here yet; or the sweep does. */
	bool told = r->up &&
		    entry_hold(&c->agent->dp, &c->key, r->up->slot, r->gen, &entry) == ENTRY_MINE;

	relay_let_go(c);
	/* The backend was asked to close by the client's own "Connection: close". If it did not,
	 * we still do. */
	if (!told && (c->close_after || c->eof))
		client_close_gently(c);
}

void relay_drop(struct client *c, bool abort)
{
	if (relay_is_mine(c))
		relay_give_up(
			c, c->request->answered ? KV_CALL_SETTLE_FINISHED : KV_CALL_SETTLE_FAILED,
			abort ? RELAY_ABORT : RELAY_CLOSE);
	else
		relay_detach(c);
}

/* How an upstream has ended. */
struct relay_end {
	bool stale; /* it had served before */
	bool taken; /* the backend has acknowledged the whole request, and our FIN */
	bool alive; /* the connection still stands: nobody answers there */
	bool dead;  /* by RST, whoever of us has been told of it: send or recv */
};

static void relay_look_at_end(const struct client *c, struct relay_end *end)
{
	const struct request *r = c->request;
	struct tcp_info info = {};
	socklen_t len = sizeof(info);
	int left = 0;

	end->stale = r->gen != r->up->first_gen;
	end->taken = r->sent == r->len && !ioctl(r->up->fd, SIOCOUTQ, &left) && !left;
	if (getsockopt(r->up->fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0)
		return;
	end->alive = info.tcpi_state == TCP_ESTABLISHED;
	end->dead = info.tcpi_state == TCP_CLOSE;
}

/* No byte of a response has come: the request is still whole, so another backend can have it. */
void relay_retry(struct client *c, bool reset)
{
	struct relay_end end = {};
	struct agent *agent = c->agent;
	struct request *r = c->request;
	__u32 backend = r->up->backend, exclude = backend;
	bool unknown;

	relay_look_at_end(c, &end);
	unknown = end.dead && !end.taken;
	relay_drop(c, true);
	client_set_phase(c, CLIENT_READING);
	/* The host does not know this connection, so it may have forgotten all: it has started
	 * anew, or a firewall has. */
	if (unknown) {
		pool_suspect(agent, backend);
	} else {
		kv_atomic_add(&agent->dp.backends[backend].failures, 1);
		/* A kept connection that ends, or a client that has: nobody's fault. */
		if ((!end.stale || end.taken) && !c->eof)
			following_outcome(agent, backend, OUTCOME_FAILURE);
		pool_lost(agent, backend);
	}
	/* A backend that is told that its client has closed may stop working for it, and close too:
	 * nobody else is to begin with what the client has given up. */
	if (++r->attempts >= CLIENT_ATTEMPTS || (c->eof && end.taken && !reset)) {
		answer_bad_gateway(c);
		return;
	}
	/* A connection that had served before has most likely met its idle time-out on the way;
	 * the backend is well and has the cache. */
	if ((unknown || (end.stale && !end.alive)) && r->attempts == 1)
		exclude = KV_NONE;
	count(&agent->dp, agent_retries);
	r->sent = 0;
	r->broken = false;
	request_decide(c, exclude);
}

/* Its record of the trace ends by the same call. */
static void go_home(struct client *c)
{
	struct request *r = c->request;

	if (!entry_set_home(&c->agent->dp, &c->key, c->hold, request_trace_number(r),
			    r->answer_len))
		r->traced = true;
}

/* All of the response has been read and written. */
void relay_finish(struct client *c)
{
	struct agent *agent = c->agent;
	struct request *r = c->request;
	bool more = c->in.len > r->len, mine = relay_is_mine(c);
	bool home = mine && offer_home(&agent->dp, r->up->slot, c->hold);

	if (r->response.flags & KV_FRAMING_CLOSE)
		c->close_after = true;
	if (home)
		r->traced = true;
	else if (mine && !more && !c->close_after && !c->eof && !agent->draining)
		go_home(c);
	/* Only now the response's last bytes may go: a client that answers them with its next
	 * request finds its entry HOME. Until then they are unsent, and so the kernel does not
	 * lend. */
	if (r->held)
		client_flush(c);
	if (!mine) {
		relay_forget(c);
		return;
	}
	count(&agent->dp, agent_relayed);
	request_trace_end(c, KV_TRACE_DONE, 0);
	relay_give_up(c, KV_CALL_SETTLE_FINISHED, relay_reusable(r) ? RELAY_REUSE : RELAY_CLOSE);
	client_free_request(c);
	/* The kernel may have lent it since then: the sweep closes it when it is idle. */
	if (home && agent->draining)
		client_idle(c);
	else
		client_finished(c);
}

void relay_upstream_ended(struct client *c, bool reset)
{
	struct request *r = c->request;
	bool whole;

	if (!r->answered) {
		relay_retry(c, reset);
		return;
	}
	whole = !reset && kv_framing_until_close(&r->response);
	request_trace_end(c, whole ? KV_TRACE_DONE : KV_TRACE_BROKEN, 0);
	if (whole)
		count(&c->agent->dp, agent_relayed);
	else
		kv_debug("backend %s: ended inside a response",
			 c->agent->dp.backends[r->up->backend].name);
	relay_drop(c, reset);
	/* A body that is too short must not look like a whole one: the client sees the end before
	 * its length, or a RST where we saw one. */
	if (reset)
		client_reset(c);
	else
		client_close_gently(c);
}

/* While its end or bytes sent ahead wait to be read, no event tells of a client's RST. */
static bool relay_client_gone(const struct client *c)
{
	socklen_t len = sizeof(int);
	int err = 0;

	return !c->read_on && !getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &len) && err;
}

void relay_check(struct client *c, __u64 now_ns)
{
	const struct kv_upstream *slot = upstream_slot(c->request->up);
	__u32 state = kv_read_once(slot->state);

	if (kv_read_once(slot->gen) != c->request->gen ||
	    (state != KV_UP_RELAY && state != KV_UP_LENT)) {
		relay_forget(c);
	} else if (state == KV_UP_LENT) {
		relay_deadline(c);
	} else if (relay_client_gone(c)) {
		client_close(c);
	} else if (now_ns >= c->deadline_ns) {
		if (c->request->answered) {
			request_trace_end(c, KV_TRACE_BROKEN, 0);
			client_reset(c);
		} else {
			following_outcome(c->agent, c->request->up->backend, OUTCOME_FAILURE);
			answer_timeout(c);
		}
	}
}
