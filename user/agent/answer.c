// SPDX-License-Identifier: BSD-2-Clause
#include <stdio.h>

#include "agent/answer.h"
#include "agent/request.h"
#include "common/cleanup.h"
#include "common/reason.h"
#include "engines/models.h"

/* Sends a body of JSON and closes gently. */
static void answer_json(struct client *c, int status, const char *body, int body_len)
{
	bool head_request = c->request && c->request->head.is_head;
	char text[1024];
	int len;

	len = snprintf(text, sizeof(text),
		       "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
		       "%sConnection: close\r\n\r\n%.*s",
		       status, kv_reason_phrase(status), body_len,
		       status == 503 ? "Retry-After: 1\r\n" : "", head_request ? 0 : body_len,
		       body);
	request_trace_end(c, status == 502 || status == 504 ? KV_TRACE_FAILED : KV_TRACE_REFUSED,
			  status);
	client_drop_request(c, true);
	if (client_send(c, text, len, 0))
		client_close(c);
	else
		client_close_gently(c);
}

void answer_error(struct client *c, int status, const char *code, const char *message)
{
	char body[512];
	int len = snprintf(body, sizeof(body),
			   "{\"error\":{\"message\":\"%s\",\"type\":\"%s\",\"param\":null,"
			   "\"code\":\"%s\"}}\n",
			   message, status < 500 ? "invalid_request_error" : "server_error", code);

	answer_json(c, status, body, len);
}

void answer_no_model(struct client *c, const char *model, size_t len)
{
	_cleanup_free_ char *body = models_not_found(model, len, &len);

	count(&c->agent->dp, requests_no_model);
	if (body)
		answer_json(c, 404, body, len);
	else
		answer_error(c, 404, "model_not_found", "no engine serves this model");
}

void answer_refuse(struct client *c, int status, const char *code, const char *message)
{
	count(&c->agent->dp, requests_refused);
	answer_error(c, status, code, message);
}

void answer_too_slow(struct client *c)
{
	count(&c->agent->dp, agent_request_timeout);
	answer_refuse(c, 408, "request_timeout", "the request did not arrive in time");
}

void answer_unavailable(struct client *c, const char *message)
{
	count(&c->agent->dp, agent_unavailable);
	answer_error(c, 503, "service_unavailable", message);
}

void answer_bad_gateway(struct client *c)
{
	count(&c->agent->dp, agent_bad_gateway);
	answer_error(c, 502, "bad_gateway", "the backend ended the connection before its response");
}

void answer_timeout(struct client *c)
{
	count(&c->agent->dp, agent_timeout);
	answer_error(c, 504, "gateway_timeout", "the backend did not answer in time");
}
