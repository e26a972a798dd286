// SPDX-License-Identifier: BSD-2-Clause
/*
 * /tagged/TAG?size=N&framing=length|chunked|sse|close, or any path with ?tagged=TAG: N bytes of
 * TAG's records (tools/common/tagged.h), where TAG is 16 hexadecimal digits. The request's body
 * must be records of the complement, else 599. &body=N: length that the request's body must have
 * &piece=B: bytes at a time, &delay_us=D: between pieces, &first_us=F: before the head
 * &interim=K: K answers of status 103 before
 * &early=1: answers when the head has come; the body is read and checked afterwards
 * &twice=N: a second answer behind the first, of N bytes and with another tag
 */
#include <stdlib.h>
#include <string.h>

#include "../common/tagged.h"
#include "engine.h"

#define BATCH (256 << 10)

struct tagged {
	struct job job;
	struct tagged_sse what;
	uint64_t at, length; /* of the body as it is sent */
	uint64_t twice;
	uint32_t step, delay_us, interims;
	enum tagged_framing framing;
	bool head_sent, waiting;
};

static bool has_tag(const struct request *r, uint64_t *ret_tag)
{
	static const char path[] = "/tagged/";
	struct slice text = query_get(r->query, "tagged");
	char digits[17] = "", *end;
	const char *found;

	if (!text.n) {
		found = memmem(r->path.p, r->path.n, path, strlen(path));
		if (!found)
			return false;
		text.p = found + strlen(path);
		text.n = r->path.p + r->path.n - text.p;
	}
	if (text.n != 16)
		return false;
	memcpy(digits, text.p, 16);
	*ret_tag = strtoull(digits, &end, 16);
	return end == digits + 16;
}

static int read_query(struct slice q, struct tagged *t)
{
	struct slice how = query_get(q, "framing");
	uint64_t piece = query_num(q, "piece", 4096);

	for (t->framing = 0; how.n && !slice_is(how, tagged_framing_names[t->framing]);)
		if (++t->framing == TAGGED_FRAMINGS)
			return -1;
	if (!piece || piece > TAGGED_PIECE_MAX)
		return -1;
	t->what.size = query_num(q, "size", 0);
	t->what.piece = piece;
	t->delay_us = query_num(q, "delay_us", 0);
	t->interims = query_num(q, "interim", 0);
	t->twice = query_num(q, "twice", 0);
	t->length = t->framing == TAGGED_SSE ? tagged_sse_length(&t->what) : t->what.size;
	t->step = t->framing == TAGGED_SSE ? 2 * piece + 8 : piece;
	return 0;
}

static void head(struct conn *c, struct tagged *t)
{
	char tag[40];

	snprintf(tag, sizeof(tag), "x-tag: %016llx\r\n", (unsigned long long)t->what.tag);
	for (uint32_t i = 0; i < t->interims && i < 100; i++)
		conn_interim(c, "HTTP/1.1 103 Early Hints\r\nlink: </next>\r\n\r\n");
	conn_head(c, 200,
		  t->framing == TAGGED_SSE ? "text/event-stream" : "application/octet-stream",
		  t->framing == TAGGED_LENGTH  ? (int64_t)t->length
		  : t->framing == TAGGED_CLOSE ? -2
					       : -1,
		  tag);
	t->head_sent = true;
}

static void one(struct conn *c, struct tagged *t)
{
	static char piece[2 * TAGGED_PIECE_MAX + 8];
	bool chunked = t->framing == TAGGED_CHUNKED || t->framing == TAGGED_SSE;
	uint64_t n = t->length - t->at;

	if (n > t->step)
		n = t->step;
	if (t->framing == TAGGED_SSE)
		tagged_sse_fill(&t->what, t->at, piece, n);
	else
		tagged_fill(t->what.tag, t->at, piece, n);
	if (chunked)
		conn_addf(c, "%llx\r\n", (unsigned long long)n);
	conn_add(c, piece, n);
	if (chunked)
		conn_add(c, "\r\n", 2);
	t->at += n;
}

static void unasked(struct conn *c, struct tagged *t)
{
	uint64_t tag = tagged_unasked_tag(t->what.tag);

	buf_printf(&c->out, "HTTP/1.1 200 OK\r\nx-tag: %016llx\r\ncontent-length: %llu\r\n\r\n",
		   (unsigned long long)tag, (unsigned long long)t->twice);
	tagged_fill(tag, 0, buf_room(&c->out, t->twice), t->twice);
	c->out.len += t->twice;
}

static void end(struct conn *c, struct tagged *t)
{
	if (t->framing == TAGGED_CHUNKED || t->framing == TAGGED_SSE)
		conn_add(c, "0\r\n\r\n", 5);
	if (t->twice && t->twice < BATCH && c->keep_alive)
		unasked(c, t);
}

static void finish(struct conn *c, struct tagged *t)
{
	end(c, t);
	free(t);
	conn_done(c);
}

static void wake(evutil_socket_t fd, short what, void *arg)
{
	struct conn *c = arg;
	struct tagged *t = (struct tagged *)c->job;

	(void)fd;
	(void)what;
	t->waiting = false;
	if (!t->head_sent)
		head(c, t);
	if (t->at < t->length && !c->head_only)
		one(c, t);
	if (t->at == t->length || c->head_only)
		finish(c, t);
	else
		conn_run(c);
}

static void wait_for(struct conn *c, struct tagged *t, uint32_t us)
{
	struct timeval after = {us / 1000000, us % 1000000};

	t->waiting = true;
	evtimer_add(&c->timer, &after);
}

static void pump(struct conn *c)
{
	struct tagged *t = (struct tagged *)c->job;
	size_t most = c->out.len + BATCH;

	if (t->waiting)
		return;
	if (t->delay_us) {
		wait_for(c, t, t->delay_us);
		return;
	}
	while (t->at < t->length && c->out.len < most && c->state == CONN_BUSY && !c->head_only)
		one(c, t);
	if (t->at == t->length || c->state != CONN_BUSY || c->head_only)
		finish(c, t);
}

static void cancel(struct conn *c)
{
	free(c->job);
	c->job = NULL;
}

/* The whole answer at once, into the output: what is left of the request is still to come. */
void tagged_early(struct conn *c)
{
	struct tagged t = {0};

	if (!query_num(c->req.query, "early", 0) || !has_tag(&c->req, &t.what.tag) ||
	    read_query(c->req.query, &t) || t.framing == TAGGED_CLOSE)
		return;
	c->keep_alive = c->req.keep_alive;
	c->head_only = c->req.head_only;
	c->state = CONN_BUSY;
	c->sent = 0;
	c->fin_mid_body = -1;
	c->close_silently = false;
	head(c, &t);
	while (t.at < t.length && !c->head_only)
		one(c, &t);
	end(c, &t);
	c->state = CONN_READ;
	c->early = true;
}

/* The request's bytes are the client's own. */
static bool body_is_right(struct conn *c, uint64_t tag)
{
	struct slice body = c->req.body;
	uint64_t want = query_num(c->req.query, "body", body.n), wrong = 0;
	size_t first = tagged_equal(tagged_request_tag(tag), 0, body.p, body.n);
	char text[160];
	size_t at;

	if (first == body.n && want == body.n)
		return true;
	for (at = first; at < body.n; at++)
		wrong += !tagged_equal(tagged_request_tag(tag), at, body.p + at, 1);
	c->engine->stats.foreign_bytes += wrong + (body.n > want ? body.n - want : want - body.n);
	at = snprintf(text, sizeof(text),
		      "%016llx: %zu of %llu bytes, from byte %zu:", (unsigned long long)tag, body.n,
		      (unsigned long long)want, first);
	for (size_t i = first; i < body.n && i < first + 24; i++)
		at += snprintf(text + at, sizeof(text) - at, " %02x", (unsigned char)body.p[i]);
	if (!c->early)
		conn_answer(c, 599, "text/plain", text, at);
	return false;
}

bool tagged_request(struct conn *c)
{
	struct tagged *t;
	uint64_t tag;
	bool right;

	if (!has_tag(&c->req, &tag))
		return false;
	right = body_is_right(c, tag);
	if (c->early) {
		/* It cannot be told any more: the end of the connection must do. */
		c->keep_alive &= right;
		conn_done(c);
		return true;
	}
	if (!right)
		return true;
	t = calloc(1, sizeof(*t));
	if (!t)
		exit(1);
	t->job = (struct job){pump, cancel};
	t->what.tag = tag;
	if (read_query(c->req.query, t)) {
		free(t);
		conn_error(c, 400, "framing is length, chunked, sse or close; piece 1 to 65536");
		return true;
	}
	c->job = &t->job;
	evtimer_assign(&c->timer, c->engine->base, wake, c);
	if (query_num(c->req.query, "first_us", 0)) {
		wait_for(c, t, query_num(c->req.query, "first_us", 0));
		return true;
	}
	head(c, t);
	pump(c); /* into the same write: a second answer is behind the first, not after it */
	return true;
}
