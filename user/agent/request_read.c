// SPDX-License-Identifier: BSD-2-Clause
/* Requests come in: head, body, whole. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <kvsteer/framing.h>

#include "agent/address.h"
#include "agent/answer.h"
#include "agent/entry.h"
#include "agent/events.h"
#include "agent/head.h"
#include "agent/request.h"
#include "agent/request_private.h"
#include "agent/restart.h"
#include "agent/sweep.h"

#define FIRST_READ (16u << 10) /* holds any head that is accepted */
#define HEAD_STEP 512u
#define CHUNKED_STEP (64u << 10)

/* Fields that speak to us, not to the backend. */
static void request_edit(struct client *c)
{
	struct request *r = c->request;
	size_t head_len = r->head.head_len, was = head_len;

	if (r->head.expect_continue)
		head_len = head_remove(c->in.data, head_len, "Expect");
	if (r->head.upgrade) {
		head_len = head_remove(c->in.data, head_len, "Upgrade");
		head_len = head_remove(c->in.data, head_len, "HTTP2-Settings");
		if (!r->head.close && !r->head.keep_alive)
			head_len = head_remove(c->in.data, head_len, "Connection");
	}
	if (head_len == was)
		return;
	memmove(c->in.data + head_len, c->in.data + was, c->in.len - was);
	c->in.len -= was - head_len;
	r->head.head_len = head_len;
}

static void request_too_large(struct client *c)
{
	answer_refuse(c, 413, "body_too_large", "request body over this service's limit");
}

/* A chunked body ends by the same rules in both directions: the machine is shown a head, and
 * then follows the request. */
static void request_body_framing(struct kv_framing *f)
{
	static const char head[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
	struct kv_source s = {.data = (const __u8 *)head, .len = sizeof(head) - 1};

	kv_framing_init(f, false);
	kv_framing_run(f, &s, 0, s.len);
}

/* A head has this time in all, and so has each step of the body: who sends a byte now and then must
 * not hold for long what others need. */
static void request_time(struct client *c)
{
	c->request->timed = c->in.len;
	c->deadline_ns = c->last_ns + c->agent->config->timeouts.request_ms * MS;
}

/* True if the head is there and accepted; the request may be gone otherwise. */
static bool request_head(struct client *c)
{
	struct kv_source s = {.data = (const __u8 *)c->in.data, .len = c->in.len};
	struct agent *agent = c->agent;
	struct request *r = c->request;
	const struct kv_reason_info *reason;

	if (kv_request_parse(&r->head, &s, &agent->names) == KV_LANE_REFUSE) {
		reason = kv_reason_info(r->head.reason);
		answer_refuse(c, reason->status, reason->name, reason->text);
		return false;
	}
	if (!r->head.head_len)
		return false;
	if (r->head.body_len > agent->dp.services[c->service].body_limit) {
		request_too_large(c);
		return false;
	}
	r->have_head = true;
	c->close_after = !kv_request_persistent(&r->head);
	request_edit(c);
	request_time(c);
	r->len = r->head.head_len + r->head.body_len;
	r->framed = r->head.head_len;
	if (r->head.chunked)
		request_body_framing(&r->body);
	if (r->head.expect_continue && r->head.minor &&
	    (r->head.chunked ? c->in.len == r->len : c->in.len < r->len)) {
		static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";

		if (client_send(c, go_on, sizeof(go_on) - 1, 0)) {
			client_close(c);
			return false;
		}
	}
	return true;
}

/* True if the chunked body is whole. */
static bool request_chunked(struct client *c)
{
	struct kv_source s = {.data = (const __u8 *)c->in.data, .len = c->in.len};
	struct request *r = c->request;

	r->framed += kv_framing_run(&r->body, &s, r->framed, c->in.len - r->framed);
	if (kv_framing_broken(&r->body)) {
		answer_refuse(c, 400, "body_malformed", "malformed chunked request body");
		return false;
	}
	if (r->framed - r->head.head_len > c->agent->dp.services[c->service].body_limit) {
		request_too_large(c);
		return false;
	}
	r->len = r->framed;
	return kv_framing_done(&r->body);
}

static void request_advance(struct client *c)
{
	struct request *r = c->request;

	if (!r->have_head && !request_head(c))
		return;
	if (r->head.chunked ? request_chunked(c) : c->in.len >= r->len)
		request_ready(c);
}

/* The buffer's size for the next read. */
static size_t request_want(const struct client *c)
{
	const struct buffer *in = &c->in;

	if (!c->request->head.chunked)
		return c->request->len; /* no byte of a further request is read */
	return in->len + CHUNKED_STEP > 2 * in->size   ? in->len + CHUNKED_STEP
	       : in->len + CHUNKED_STEP / 2 > in->size ? 2 * in->size
						       : in->size;
}

int request_fits(const struct client *c)
{
	const struct agent *agent = c->agent;
	size_t want = request_want(c), more;

	if (want <= FIRST_READ || want <= c->in.size)
		return 0;
	more = want - c->in.size;
	if (address_full(agent, c->address, more))
		return -EDQUOT;
	return agent->memory.used + more > agent->config->limits.memory ? -ENOMEM : 0;
}

/* Room for the next read: its size, 0 if the client has to wait for memory. */
static size_t request_room(struct client *c)
{
	struct request *r = c->request;
	int err = request_fits(c);

	/* What is promised to one request cannot be given to another: so each one that has been
	 * let in can be read to its end. */
	if (err) {
		client_starve(c, err);
		return 0;
	}
	if (buffer_reserve(&c->in, request_want(c), &c->address->memory)) {
		answer_unavailable(c, "out of memory");
		return 0;
	}
	return (r->head.chunked ? c->in.size : r->len) - c->in.len;
}

/* By way of the scratch: a head that comes in bits takes no more than has come. */
static ssize_t request_read_head(struct client *c)
{
	char *scratch = c->agent->scratch;
	ssize_t n = recv(c->fd, scratch, FIRST_READ - c->in.len, 0);
	size_t size;

	if (n <= 0)
		return n;
	size = (c->in.len + n + HEAD_STEP - 1) & ~(size_t)(HEAD_STEP - 1);
	if (buffer_reserve(&c->in, size, &c->address->memory) ||
	    buffer_append(&c->in, scratch, n, &c->address->memory)) {
		errno = ENOMEM;
		return -1;
	}
	return n;
}

static ssize_t request_read_body(struct client *c, size_t room)
{
	ssize_t n = recv(c->fd, c->in.data + c->in.len, room, 0);

	if (n > 0)
		c->in.len += n;
	return n;
}

void request_read(struct client *c)
{
	struct request *r = c->request;
	size_t room = 0;
	ssize_t n;

	if (r->have_head) {
		room = request_room(c);
		if (!room)
			return;
	}
	n = r->have_head ? request_read_body(c, room) : request_read_head(c);
	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0) {
		/* Between requests this is the usual end; inside one there is no one to answer. */
		client_close(c);
		return;
	}
	c->last_ns = kv_now_ns();
	if (r->have_head && c->in.len - r->timed >= REQUEST_STEP)
		request_time(c);
	request_advance(c);
}

static void request_start(struct client *c)
{
	c->request = calloc(1, sizeof(*c->request));
	if (!c->request) {
		answer_unavailable(c, "out of memory");
		return;
	}
	request_trace_begin(c);
	client_set_phase(c, CLIENT_READING);
	request_time(c);
	if (c->in.len)
		request_advance(c);
}

/* Takes the client's entry for a request. False: the client is dealt with otherwise. */
static bool request_take(struct client *c)
{
	struct agent *agent = c->agent;
	char byte;
	int err;

	err = entry_set_busy(&agent->dp, &c->key, c->service, kv_now_ns(), &c->hold);
	if (err == -E2BIG && sweep_make_room(agent))
		err = entry_set_busy(&agent->dp, &c->key, c->service, kv_now_ns(), &c->hold);
	if (!err)
		return true;
	if (err != -EBUSY) {
		count(&agent->dp, agent_clients_full);
		answer_unavailable(c, "too many connections");
		return false;
	}
	/* Lent: what comes up here is a RST, or the pair has just been returned. Or it has ended
	 * with the client: an event will tell how, or the sweep if that was lost. */
	if (recv(c->fd, &byte, 1, MSG_PEEK) < 0 && errno != EAGAIN)
		client_close(c);
	else
		client_recheck(c);
	return false;
}

void request_expect(struct client *c)
{
	if (!restart_waits(c->agent) &&
	    !entry_set_busy(&c->agent->dp, &c->key, c->service, kv_now_ns(), &c->hold))
		request_start(c);
}

void request_next(struct client *c)
{
	if (request_take(c))
		request_start(c);
}

void request_begin(struct client *c)
{
	/* An event that ends this client may be waiting beside the bytes that came after it. */
	events_consume(c->agent);
	if (c->phase != CLIENT_IDLE)
		return;
	if (restart_waits(c->agent)) {
		client_watch(c, false); /* the next agent reads it */
		return;
	}
	if (!request_take(c))
		return;
	request_start(c);
	if (c->phase == CLIENT_READING)
		request_read(c);
}
