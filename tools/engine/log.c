// SPDX-License-Identifier: BSD-2-Clause
/*
 * The log: one JSON object a line. Its answer hash covers the bytes of the answer as they went
 * to the wire (1xx excepted). --raw keeps all bytes of each connection in files beside it.
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <string.h>

#include "engine.h"

static void begin(struct conn *c, struct buf *b, const char *what)
{
	buf_printf(b, "{\"t\":%lld,\"engine\":\"%s\",\"conn\":%llu,\"event\":\"%s\"",
		   (long long)now_ms(), c->engine->name, (unsigned long long)c->id, what);
}

static void end(struct conn *c, struct buf *b)
{
	buf_str(b, "}\n");
	fwrite(buf_head(b), 1, b->len, c->engine->opt->log);
	fflush(c->engine->opt->log);
	buf_free(b);
}

static FILE *raw_file(struct conn *c, const char *suffix)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s-%llu.%s", c->engine->opt->raw_dir, c->engine->name,
		 (unsigned long long)c->id, suffix);
	return fopen(path, "w");
}

void log_accept(struct conn *c)
{
	struct sockaddr_storage a;
	socklen_t len = sizeof(a);
	char host[64] = "", port[8] = "";
	struct buf b = {0};

	if (c->engine->opt->raw_dir) {
		c->raw_in = raw_file(c, "in");
		c->raw_out = raw_file(c, "out");
	}
	if (!c->engine->opt->log)
		return;
	if (!getpeername(c->fd, (struct sockaddr *)&a, &len))
		getnameinfo((struct sockaddr *)&a, len, host, sizeof(host), port, sizeof(port),
			    NI_NUMERICHOST | NI_NUMERICSERV);
	begin(c, &b, "accept");
	buf_printf(&b, ",\"peer\":\"%s\",\"port\":%s", host, *port ? port : "0");
	end(c, &b);
}

void log_close(struct conn *c, const char *how)
{
	struct buf b = {0};

	if (!c->engine->opt->log)
		return;
	begin(c, &b, "close");
	buf_printf(&b, ",\"how\":\"%s\"", how);
	end(c, &b);
}

/* "eof": the client will send no more, but may still be there; "fin": nor will we. */
void log_event(struct conn *c, const char *event)
{
	struct buf b = {0};

	if (!c->engine->opt->log)
		return;
	begin(c, &b, event);
	end(c, &b);
}

void log_request(struct conn *c)
{
	struct request *r = &c->req;
	struct sha256 hash;
	struct buf b = {0};
	size_t line = r->method.n + 1 + r->target.n;

	if (c->raw_in)
		fflush(c->raw_in);
	if (!c->engine->opt->log)
		return;
	sha256_init(&hash);
	sha256_add(&hash, r->body.p, r->body.n);
	sha256_hex(&hash, c->body_hash);
	sha256_init(&c->hash);
	snprintf(c->tag, sizeof(c->tag), "%.*s", (int)r->tag.n, r->tag.p ? r->tag.p : "");
	snprintf(c->line, sizeof(c->line), "%.*s", (int)line, r->method.p);
	begin(c, &b, r->follower ? "question" : "request");
	buf_str(&b, ",\"tag\":\"");
	buf_json(&b, c->tag, strlen(c->tag));
	buf_str(&b, "\",\"line\":\"");
	buf_json(&b, c->line, strlen(c->line));
	buf_printf(&b, "\",\"head_bytes\":%zu,\"body_bytes\":%zu,\"body_sha256\":\"%s\"",
		   r->head_len, r->body.n, c->body_hash);
	end(c, &b);
}

void log_bad(struct conn *c, const char *why)
{
	struct buf b = {0};

	if (!c->engine->opt->log)
		return;
	c->tag[0] = c->line[0] = 0;
	sha256_init(&c->hash);
	begin(c, &b, "malformed");
	buf_printf(&b, ",\"why\":\"%s\"", why);
	end(c, &b);
}

void log_answer(struct conn *c)
{
	char hex[65];
	struct buf b = {0};

	if (c->raw_out)
		fflush(c->raw_out);
	if (!c->engine->opt->log)
		return;
	sha256_hex(&c->hash, hex);
	begin(c, &b, "answer");
	buf_str(&b, ",\"tag\":\"");
	buf_json(&b, c->tag, strlen(c->tag));
	buf_str(&b, "\",\"line\":\"");
	buf_json(&b, c->line, strlen(c->line));
	buf_printf(&b, "\",\"status\":%d,\"bytes\":%llu,\"sha256\":\"%s\"", c->status,
		   (unsigned long long)c->sent, hex);
	end(c, &b);
}
