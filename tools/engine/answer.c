// SPDX-License-Identifier: BSD-2-Clause
/* Heads and whole answers. */
#include <string.h>

#include "common/reason.h"
#include "engine.h"

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
		  status, kv_reason_phrase(status), c->engine->name, framing, type, extra,
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
