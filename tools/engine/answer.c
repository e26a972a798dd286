// SPDX-License-Identifier: BSD-2-Clause
/* Heads and whole answers. */
#include <string.h>

#include "engine.h"

const char *status_text(int status)
{
	switch (status) {
	case 200:
		return "OK";
	case 204:
		return "No Content";
	case 304:
		return "Not Modified";
	case 400:
		return "Bad Request";
	case 404:
		return "Not Found";
	case 405:
		return "Method Not Allowed";
	case 413:
		return "Content Too Large";
	case 417:
		return "Expectation Failed";
	case 429:
		return "Too Many Requests";
	case 431:
		return "Request Header Fields Too Large";
	case 500:
		return "Internal Server Error";
	case 501:
		return "Not Implemented";
	case 503:
		return "Service Unavailable";
	case 505:
		return "HTTP Version Not Supported";
	}
	return "Status";
}

void conn_head(struct conn *c, int status, const char *type, int64_t length, const char *extra)
{
	char framing[64] = "";

	if (length >= 0 && status != 204 && status != 304)
		snprintf(framing, sizeof(framing), "content-length: %lld\r\n", (long long)length);
	else if (length == -1)
		strcpy(framing, "transfer-encoding: chunked\r\n");
	else if (length == -2)
		c->keep_alive = false;
	c->status = status;
	conn_addf(c,
		  "HTTP/1.1 %d %s\r\nserver: kv-engine\r\nx-engine: %s\r\n%scontent-type: %s\r\n"
		  "%s%s\r\n",
		  status, status_text(status), c->engine->name, framing, type, extra,
		  c->keep_alive ? "" : "connection: close\r\n");
	if (c->close_silently)
		c->keep_alive = false;
	if (c->fin_mid_body >= 0)
		c->cut = c->sent + c->fin_mid_body;
}

void conn_answer(struct conn *c, int status, const char *type, const char *body, size_t n)
{
	conn_head(c, status, type, n, "");
	if (!c->head_only && status != 204 && status != 304)
		conn_add(c, body, n);
	conn_done(c);
}

void conn_error(struct conn *c, int status, const char *message)
{
	struct buf b = {0};

	buf_printf(&b,
		   "{\"error\":{\"message\":\"%s\",\"type\":\"%s\",\"param\":null,\"code\":%d}}",
		   message, status < 500 ? "invalid_request_error" : "server_error", status);
	conn_answer(c, status, "application/json", buf_head(&b), b.len);
	buf_free(&b);
}
