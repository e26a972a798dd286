// SPDX-License-Identifier: BSD-2-Clause
/* Requests are made while they are sent, a stage at a time. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "traffic.h"

#define CHUNK_MAX 3000
#define CHUNK_ROOM 16 /* size line and the CRLF behind */

static void stage_body(struct traffic_conn *c, const struct traffic_request *q)
{
	uint64_t tag = tagged_request_tag(q->tag);
	size_t room = TRAFFIC_STAGE - c->stage_len, n = q->body - c->body_at;

	if (n > room)
		n = room;
	tagged_fill(tag, c->body_at, c->stage + c->stage_len, n);
	c->stage_len += n;
	c->body_at += n;
	c->tail = c->body_at == q->body;
}

static void stage_chunks(struct traffic_conn *c, const struct traffic_request *q)
{
	uint64_t tag = tagged_request_tag(q->tag);

	while (TRAFFIC_STAGE - c->stage_len > 2 * CHUNK_ROOM && !c->tail) {
		size_t n = q->body - c->body_at, room = TRAFFIC_STAGE - c->stage_len - CHUNK_ROOM;

		n = n < room ? n : room;
		n = n < CHUNK_MAX ? n : CHUNK_MAX;
		c->stage_len += sprintf(c->stage + c->stage_len, "%zx\r\n", n);
		tagged_fill(tag, c->body_at, c->stage + c->stage_len, n);
		memcpy(c->stage + c->stage_len + n, "\r\n", 2);
		c->stage_len += n + 2;
		c->body_at += n;
		c->tail = !n; /* the last chunk: a size of 0, an empty line */
	}
}

static void stage(struct traffic_conn *c, const struct traffic_request *q)
{
	c->stage_at = c->stage_len = 0;
	if (!c->begun) {
		c->begun = true;
		c->tail = false;
		c->sent = c->body_at = 0;
		c->stage_len = traffic_head(c->run->o, q, c->stage, TRAFFIC_STAGE);
	}
	if (q->chunked)
		stage_chunks(c, q);
	else
		stage_body(c, q);
}

/* The whole request has gone. */
static void sent(struct traffic_conn *c, const struct traffic_request *q)
{
	struct timeval after = {q->abort_at / 1000000, q->abort_at % 1000000};
	bool followed = q->followed && q->framing != TAGGED_CLOSE && !q->half_close && !q->abort;

	c->run->r->bytes_sent += q->body;
	c->begun = false;
	c->n_sent++;
	if (q->half_close)
		shutdown(c->fd, SHUT_WR);
	if (q->abort == ABORT_WAITING)
		event_add(&c->timer, &after);
	if (c->answered) {
		c->answered = false;
		traffic_pop(c);
	}
	if (followed && c->n && c->n < TRAFFIC_PIPELINE && c->left && traffic_may_issue(c->run))
		traffic_issue(c);
}

int traffic_send(struct traffic_conn *c)
{
	while (c->n_sent < c->n) {
		struct traffic_request *q = traffic_at(c, c->n_sent);
		size_t most;
		ssize_t n;

		if (c->stage_at == c->stage_len) {
			if (c->begun && c->tail) {
				sent(c, q);
				continue;
			}
			stage(c, q);
		}
		most = c->stage_len - c->stage_at;
		if (q->abort == ABORT_SENDING && q->abort_at < c->sent + most)
			most = q->abort_at - c->sent;
		if (!most) {
			traffic_abort(c);
			return 0;
		}
		n = send(c->fd, c->stage + c->stage_at, most, MSG_NOSIGNAL);
		if (n < 0) {
			if (errno != EAGAIN)
				return -errno;
			event_add(&c->wr, NULL);
			return 0;
		}
		c->stage_at += n;
		c->sent += n;
	}
	return 0;
}
