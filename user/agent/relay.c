// SPDX-License-Identifier: BSD-2-Clause
/*
 * While the agent relays, the kernel may take the pair over at any packet at which nothing is in
 * our hands: what has been read from the upstream has been written to the client. So no byte is
 * kept here longer than the client's socket makes us. Which of the two has the pair is read from
 * the slot: state RELAY and our generation, or not.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <kvsteer/answer.h>
#include <kvsteer/framing.h>

#include "agent/address.h"
#include "agent/entry.h"
#include "agent/offer.h"
#include "agent/relay.h"
#include "agent/relay_private.h"
#include "agent/request.h"
#include "agent/tokenize.h"

#define RELAY_LITTLE 4096
_Static_assert(ANSWER_HEADER_MAX < RELAY_LITTLE,
	       "room for a line of ours, and for what it waits for");
#define RELAY_TURN (1u << 20) /* of a request in one turn of the loop */

bool relay_is_mine(const struct client *c)
{
	const struct kv_upstream *slot = upstream_slot(c->request->up);

	return kv_read_once(slot->gen) == c->request->gen &&
	       kv_read_once(slot->state) == KV_UP_RELAY;
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

/* Before each offer: which of the service's backends it will be, and what we believe of it. */
static void relay_header(struct client *c)
{
	const struct dataplane *dp = &c->agent->dp;
	struct request *r = c->request;

	r->header_len = 0;
	if (kv_read_once(dp->services[c->service].flags) & KV_SERVICE_HEADER)
		r->header_len = answer_header(
			r->header, &(struct answer_header){dp->backends[r->up->backend].name,
							   r->matched, r->total});
}

/* Not offered: who has sent ahead, because its bytes are in our hands; who has not taken all that
 * we have told it before ("100 Continue"), because the kernel counts what is written from the
 * response's first segment on; and who expects us to close (HTTP/1.0), because the kernel would
 * not. */
static void relay_offer(struct client *c)
{
	struct dataplane *dp = &c->agent->dp;
	const struct request *r = c->request;
	bool offered =
		c->in.len == r->len && !c->out.len && !c->eof && (r->head.minor || !c->close_after);

	if (offered && !r->attempts)
		offer_make(dp, r->up->slot, r->gen, c->hold, r->header_len,
			   (r->head.is_head ? KV_OFFER_HEAD : 0) |
				   (c->close_after ? 0 : KV_OFFER_HOME));
	else
		entry_offer(dp, &c->key, c->hold,
			    &(struct entry_offer){r->up->slot, r->gen, offered, r->head.is_head,
						  r->header_len});
}

void relay_start(struct client *c, struct upstream *up)
{
	struct request *r = c->request;

	r->up = up;
	r->gen = upstream_claim(up, c, &c->key, &r->dispatch);
	r->answered = false;
	kv_framing_init(&r->response, r->head.is_head);
	relay_header(c);
	client_set_phase(c, CLIENT_RELAYING);
	relay_offer(c);
	relay_deadline(c);
	client_watch(c, !c->eof);
	/* Not when it was decided: while it waited it may have been moved to another engine. */
	if (r->text && !r->attempts)
		tokenize_take(c, up->backend);
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

/* Bytes have come before the backend has acknowledged any of the request: they answer another. */
static bool relay_unasked(const struct client *c)
{
	const struct request *r = c->request;
	int left = 0;

	return !ioctl(r->up->fd, SIOCOUTQ, &left) && (size_t)left >= r->sent;
}

/* Puts our line behind the piece's first bytes, which move into the room in front. Returns where it
 * begins now. */
static char *relay_insert(struct request *r, char *piece, __u32 at)
{
	char *begin = memmove(piece - r->header_len, piece, at);

	memcpy(begin + at, r->header, r->header_len);
	r->header_len = 0;
	return begin;
}

void relay_from_upstream(struct client *c)
{
	struct agent *agent = c->agent;
	struct request *r = c->request;
	/* A line that waits for its place finds room in front. */
	char *piece = agent->scratch + r->header_len;
	bool begun = r->answered, told = kv_framing_answered(&r->response);
	__u32 used, at = 0;
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
	n = recv(r->up->fd, piece, relay_room(c) - r->header_len, 0);
	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0) {
		relay_upstream_ended(c, n < 0);
		return;
	}
	used = answer_frame(&r->response, piece, n, r->header_len ? &at : NULL);
	if (used < n || kv_framing_broken(&r->response))
		r->broken = true;
	r->answered = true;
	r->answer_len += used;
	if (!told && kv_framing_answered(&r->response) && relay_answered(c, begun, piece, n))
		return;
	if (kv_framing_begun(&r->response))
		relay_settle(c, r->up->slot,
			     kv_answer_caches(r->response.status) ? KV_CALL_SETTLE_ANSWERED
								  : KV_CALL_SETTLE_REFUSED);
	if (!begun && kv_framing_done(&r->response))
		relay_usage(c, piece, used);
	relay_deadline(c);
	relay_free_body(c);
	if (at) {
		used += r->header_len;
		piece = relay_insert(r, piece, at);
	}
	r->held = kv_framing_done(&r->response) && !offer_whole(&agent->dp, r->up->slot, c->hold);
	if (client_send(c, piece, used, r->held ? MSG_MORE : 0)) {
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
