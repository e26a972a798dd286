// SPDX-License-Identifier: BSD-2-Clause
/*
 * /bytes/N?seed=S&framing=length|chunked|close&chunk=K&delay_us=D: N bytes that a client can
 * compute: a table of 65,521 bytes (a prime, so that no segment size divides it) over and over,
 * with the position written over every 4,096th byte and the seven after it.
 * &ext=1: chunk extensions, &trailer=1: trailers, &interim=N: N answers of status 103 before,
 * &status=N: that status.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine.h"

#define TABLE 65521
#define STAMP 4096
#define BATCH (256 << 10)

enum framing { BY_LENGTH, BY_CHUNKS, BY_CLOSE };

struct bytes {
	struct job job;
	uint64_t total, at, chunk, seed;
	uint32_t delay_us;
	enum framing framing;
	bool ext, trailer, waiting;
	unsigned char table[TABLE];
};

static void fill_table(struct bytes *b)
{
	uint64_t x = b->seed;

	for (int i = 0; i < TABLE; i++) {
		x = x * 6364136223846793005ull + 1442695040888963407ull;
		b->table[i] = x >> 56;
	}
}

static void fill(struct bytes *b, char *out, size_t n)
{
	for (size_t done = 0; done < n;) {
		size_t from = (b->at + done) % TABLE;
		size_t take = n - done < TABLE - from ? n - done : TABLE - from;

		memcpy(out + done, b->table + from, take);
		done += take;
	}
	for (uint64_t s = b->at / STAMP * STAMP; s < b->at + n; s += STAMP)
		for (int i = 0; i < 8; i++)
			if (s + i >= b->at && s + i < b->at + n)
				out[s + i - b->at] = (s ^ b->seed) >> (8 * i);
}

static void one(struct conn *c, struct bytes *b)
{
	static char piece[BATCH];
	uint64_t n = b->total - b->at;

	if (n > b->chunk)
		n = b->chunk;
	fill(b, piece, n);
	if (b->framing == BY_CHUNKS)
		conn_addf(c, "%llx%s\r\n", (unsigned long long)n,
			  b->ext ? ";name=\"a;\\\"b\"" : "");
	conn_add(c, piece, n);
	if (b->framing == BY_CHUNKS)
		conn_add(c, "\r\n", 2);
	b->at += n;
}

static void finish(struct conn *c, struct bytes *b)
{
	if (b->framing == BY_CHUNKS)
		conn_addf(c, "0%s\r\n%s\r\n", b->ext ? ";last" : "",
			  b->trailer ? "x-trailer: one\r\nx-second: two\r\n" : "");
	free(b);
	conn_done(c);
}

static void wake(evutil_socket_t fd, short what, void *arg)
{
	struct conn *c = arg;
	struct bytes *b = (struct bytes *)c->job;

	(void)fd;
	(void)what;
	b->waiting = false;
	if (b->at == b->total) {
		finish(c, b);
		return;
	}
	one(c, b);
	conn_run(c);
}

static void pump(struct conn *c)
{
	struct bytes *b = (struct bytes *)c->job;
	struct timeval after = {b->delay_us / 1000000, b->delay_us % 1000000};
	size_t most = c->out.len + BATCH;

	if (b->waiting)
		return;
	if (b->delay_us) {
		b->waiting = true;
		evtimer_add(&c->timer, &after);
		return;
	}
	while (b->at < b->total && c->out.len < most && c->state == CONN_BUSY)
		one(c, b);
	if (b->at == b->total || c->state != CONN_BUSY)
		finish(c, b);
}

static void cancel(struct conn *c)
{
	free(c->job);
	c->job = NULL;
}

void bytes_request(struct conn *c)
{
	struct slice q = c->req.query, how = query_get(q, "framing");
	uint64_t interim = query_num(q, "interim", 0);
	int status = query_num(q, "status", 200);
	struct bytes *b = calloc(1, sizeof(*b));

	if (!b)
		exit(1);
	b->job = (struct job){pump, cancel};
	b->total = strtoull(c->req.path.p + strlen("/bytes/"), NULL, 10);
	b->seed = query_num(q, "seed", 1);
	b->chunk = query_num(q, "chunk", 65536);
	b->delay_us = query_num(q, "delay_us", 0);
	b->ext = query_num(q, "ext", 0);
	b->trailer = query_num(q, "trailer", 0);
	if (slice_is(how, "chunked"))
		b->framing = BY_CHUNKS;
	else if (slice_is(how, "close"))
		b->framing = BY_CLOSE;
	if (!b->chunk || b->chunk > BATCH || status < 200 || status > 599) {
		free(b);
		conn_error(c, 400, "chunk is 1 to 262144, status 200 to 599");
		return;
	}
	fill_table(b);
	for (uint64_t i = 0; i < interim && i < 100; i++)
		conn_interim(c, "HTTP/1.1 103 Early Hints\r\nlink: </next>\r\n\r\n");
	conn_head(c, status, "application/octet-stream",
		  b->framing == BY_LENGTH   ? (int64_t)b->total
		  : b->framing == BY_CHUNKS ? -1
					    : -2,
		  b->trailer ? "trailer: x-trailer, x-second\r\n" : "");
	if (c->head_only || status == 204 || status == 304) {
		free(b);
		conn_done(c);
		return;
	}
	c->job = &b->job;
	evtimer_assign(&c->timer, c->engine->base, wake, c);
}
