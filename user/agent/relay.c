// SPDX-License-Identifier: BSD-2-Clause
/*
 * While the agent relays, the kernel may take the pair over at any packet at which nothing is in
 * our hands: what has been read from the upstream has been written to the client. So no byte is
 * kept here longer than the client's socket makes us. Which of the two has the pair is read from
 * the slot: state RELAY and our generation, or not.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <kvsteer/framing.h>

#include "agent/address.h"
#include "agent/answer.h"
#include "agent/entry.h"
#include "agent/pool.h"
#include "agent/relay.h"
#include "agent/request.h"
#include "agent/steer.h"
#include "common/log.h"

#define RELAY_LITTLE 4096
#define RELAY_TURN (1u << 20) /* of a request in one turn of the loop */

bool relay_is_mine(const struct client *c)
{
	const struct kv_upstream *slot = upstream_slot(c->request->up);

	return kv_read_once(slot->gen) == c->request->gen &&
	       kv_read_once(slot->state) == KV_UP_RELAY;
}

static void relay_deadline(struct client *c)
{
	c->last_ns = kv_now_ns();
	c->deadline_ns = c->last_ns + c->agent->config->timeouts.response_ms * MS;
}

/* Where the pair was offered the kernel has followed the response and settled it, unless it had to
 * let a segment pass unseen. What is left to be given back, the slot's dispatch tells. */
static void relay_settle(struct client *c, __u32 slot, enum kv_call_op op)
{
	struct kv_dispatch *d = &c->agent->dp.dispatches[slot];

	if (kv_read_once(d->charged_tokens) || kv_read_once(d->unconfirmed) ||
	    (op != KV_CALL_SETTLE_ANSWERED && kv_read_once(d->charged_request)))
		steer_settle(&c->agent->dp, slot, op);
}

/* ---- ends ---------------------------------------------------------------------------- */

/* Takes the upstream out of the request's hands. */
static struct upstream *relay_detach(struct client *c)
{
	struct upstream *up = c->request->up;

	c->request->up = NULL;
	if (up && up->client == c)
		up->client = NULL;
	return up;
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
	bool mine = relay_is_mine(c);
	struct upstream *up = relay_detach(c);

	if (!mine)
		return;
	relay_settle(c, up->slot,
		     c->request->answered ? KV_CALL_SETTLE_FINISHED : KV_CALL_SETTLE_FAILED);
	upstream_retire(up, abort);
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

/* Bytes have come before the backend has acknowledged any of the request: they answer another. */
static bool relay_unasked(const struct client *c)
{
	const struct request *r = c->request;
	int left = 0;

	return !ioctl(r->up->fd, SIOCOUTQ, &left) && (size_t)left >= r->sent;
}

/* No byte of a response has come: the request is still whole, so another backend can have it. */
static void relay_retry(struct client *c, bool reset)
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

/* All of the response has been read and written. */
static void relay_finish(struct client *c)
{
	struct agent *agent = c->agent;
	struct request *r = c->request;
	bool reuse = !r->broken && r->sent == r->len && !(r->response.flags & KV_FRAMING_CLOSE);
	bool more = c->in.len > r->len, mine = relay_is_mine(c);
	struct upstream *up = r->up;

	if (r->response.flags & KV_FRAMING_CLOSE)
		c->close_after = true;
	if (mine && !more && !c->close_after && !c->eof && !agent->draining)
		entry_set_home(&agent->dp, &r->entry);
	/* Only now the response's last bytes may go: a client that answers them with its next
	 * request finds its entry HOME. Until then they are unsent, and so the kernel does not
	 * lend. */
	client_flush(c);
	if (!mine) {
		relay_forget(c);
		return;
	}
	relay_settle(c, up->slot, KV_CALL_SETTLE_FINISHED);
	count(&agent->dp, agent_relayed);
	relay_detach(c);
	client_free_request(c);
	if (reuse)
		upstream_release(up);
	else
		upstream_retire(up, false);
	client_finished(c);
}

void relay_upstream_ended(struct client *c, bool reset)
{
	struct request *r = c->request;

	if (!r->answered) {
		relay_retry(c, reset);
		return;
	}
	if (!reset && kv_framing_until_close(&r->response))
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
		if (c->request->answered)
			client_reset(c);
		else
			answer_timeout(c);
	}
}

/* ---- the request to the upstream ----------------------------------------------------- */

static void relay_half_close(struct client *c)
{
	/* The backend sees what it would see without us: a client that will send no more. */
	shutdown(c->request->up->fd, SHUT_WR);
	c->request->broken = true;
}

/* Held whole until nobody can need it again. */
static void relay_free_body(struct client *c)
{
	struct request *r = c->request;

	if (!r->answered || r->sent < r->len || c->in.len > r->len)
		return;
	buffer_free(&c->in, &c->address->memory);
	r->len = 0;
	r->sent = 0;
}

void relay_to_upstream(struct client *c)
{
	struct request *r = c->request;
	size_t rest = r->len - r->sent;
	ssize_t n;

	if (!relay_is_mine(c))
		return;
	if (rest) {
		n = send(r->up->fd, c->in.data + r->sent, rest < RELAY_TURN ? rest : RELAY_TURN,
			 MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN) {
			/* It may have answered before it closed: reading will tell. */
			r->broken = true;
			return;
		}
		if (n > 0)
			r->sent += n;
		if (r->sent < r->len) {
			event_add(&r->up->write, NULL);
			return;
		}
	}
	relay_deadline(c);
	if (c->eof)
		relay_half_close(c);
	relay_free_body(c);
}

void relay_start(struct client *c, struct upstream *up)
{
	struct agent *agent = c->agent;
	struct request *r = c->request;

	r->up = up;
	r->gen = upstream_claim(up, c, &c->key, &r->dispatch);
	/* Not offered: who has sent ahead, because its bytes are in our hands; and who expects us
	 * to close (HTTP/1.0), because the kernel would not. */
	r->offered = c->in.len == r->len && !c->eof && (r->head.minor || !c->close_after);
	r->answered = false;
	kv_framing_init(&r->response, r->head.is_head);
	client_set_phase(c, CLIENT_RELAYING);
	if (entry_offer(&agent->dp, up->slot, r->gen, r->offered, r->head.is_head, &r->entry))
		r->offered = false;
	relay_deadline(c);
	client_watch(c, !c->eof);
	relay_to_upstream(c);
}

/* ---- the response to the client ------------------------------------------------------ */

/* What the client's socket does not take is held here: when memory is short, little. */
static size_t relay_room(const struct client *c)
{
	const struct agent *agent = c->agent;

	return agent->memory.used + SCRATCH_SIZE > agent->config->limits.memory ||
			       address_full(agent, c->address, SCRATCH_SIZE)
		       ? RELAY_LITTLE
		       : SCRATCH_SIZE;
}

void relay_from_upstream(struct client *c)
{
	struct agent *agent = c->agent;
	struct request *r = c->request;
	struct kv_source s = {.data = (const __u8 *)agent->scratch};
	__u32 used;
	ssize_t n;

	/* Bytes stay in the upstream's socket while the client's is full: TCP tells the backend. */
	if (c->out.len) {
		upstream_watch(r->up, false);
		return;
	}
	if (!r->answered && relay_unasked(c)) {
		relay_retry(c, true);
		return;
	}
	n = recv(r->up->fd, agent->scratch, relay_room(c), 0);
	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0) {
		relay_upstream_ended(c, n < 0);
		return;
	}
	s.len = n;
	used = kv_framing_run(&r->response, &s, 0, n);
	if (used < n || kv_framing_broken(&r->response))
		r->broken = true;
	r->answered = true;
	if (r->response.status)
		relay_settle(c, r->up->slot, KV_CALL_SETTLE_ANSWERED);
	relay_deadline(c);
	relay_free_body(c);
	if (client_send(c, agent->scratch, used, kv_framing_done(&r->response) ? MSG_MORE : 0)) {
		client_close(c);
		return;
	}
	if (c->out.len)
		upstream_watch(r->up, false);
	else if (kv_framing_done(&r->response))
		relay_finish(c);
}

void relay_client_writable(struct client *c)
{
	if (!relay_is_mine(c))
		return;
	relay_deadline(c);
	if (kv_framing_done(&c->request->response))
		relay_finish(c);
	else
		upstream_watch(c->request->up, true);
}

void relay_client_readable(struct client *c)
{
	struct request *r = c->request;
	struct kv_client entry;
	enum entry_hold hold = entry_hold(&c->agent->dp, &c->key, r->up->slot, r->gen, &entry);
	char byte;
	ssize_t n;

	/* While the upstream is ours such an entry is a younger connection's of the same tuple. */
	if ((hold == ENTRY_HOME || hold == ENTRY_OTHER) && !relay_is_mine(c)) {
		relay_forget(c);
		if (c->phase == CLIENT_IDLE)
			request_begin(c);
		return;
	}
	n = recv(c->fd, &byte, 1, MSG_PEEK);
	if (n < 0 && errno == EAGAIN)
		return;
	if (n < 0) {
		client_close(c);
		return;
	}
	if (hold == ENTRY_LENT) {
		client_recheck(c);
		return;
	}
	/* Bytes sent ahead wait in the socket until this response is through. */
	client_watch(c, false);
	if (n == 0) {
		c->eof = true;
		if (r->sent == r->len)
			relay_half_close(c);
	}
}
