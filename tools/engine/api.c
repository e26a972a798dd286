// SPDX-License-Identifier: BSD-2-Clause
/* Paths. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "completion.h"
#include "engine.h"
#include "events.h"

static void health(struct conn *c)
{
	int status = c->engine->fault.health_status;

	if (status)
		conn_error(c, status, "unhealthy");
	else
		conn_answer(c, 200, "application/json", "", 0);
}

static void model(struct conn *c, struct buf *b, const char *name, const char *parent)
{
	buf_printf(b,
		   "{\"id\":\"%s\",\"object\":\"model\",\"created\":1754000000,\"owned_by\":"
		   "\"kv-engine\",\"root\":\"%s\",\"parent\":%s%s%s,\"max_model_len\":%u}",
		   name, name, parent ? "\"" : "", parent ? parent : "null", parent ? "\"" : "",
		   c->engine->opt->max_model_len);
}

static void models(struct conn *c)
{
	const struct options *opt = c->engine->opt;
	struct buf b = {0};

	buf_str(&b, "{\"object\":\"list\",\"data\":[");
	model(c, &b, opt->model, NULL);
	for (int i = 0; i < opt->n_also; i++) {
		buf_str(&b, ",");
		model(c, &b, opt->also[i], opt->model);
	}
	buf_str(&b, "]}");
	conn_answer(c, 200, "application/json", buf_head(&b), b.len);
	buf_free(&b);
}

/* What arrived, for a client that wants to know whether it was what it sent. */
static void echo(struct conn *c)
{
	struct slice body = c->req.body;
	struct sha256 hash;
	char body_hex[65], head_hex[65];
	struct buf b = {0};

	if (query_num(c->req.query, "body", 0)) {
		conn_answer(c, 200, "application/octet-stream", body.p, body.n);
		return;
	}
	sha256_init(&hash);
	sha256_add(&hash, body.p, body.n);
	sha256_hex(&hash, body_hex);
	sha256_init(&hash);
	sha256_add(&hash, c->req.head.p, c->req.head.n);
	sha256_hex(&hash, head_hex);
	buf_printf(&b,
		   "{\"engine\":\"%s\",\"method\":\"%.*s\",\"head_bytes\":%zu,\"head_sha256\":"
		   "\"%s\",\"body_bytes\":%zu,\"body_sha256\":\"%s\",\"body_xxh64\":\"%016llx\","
		   "\"chunked\":%s,\"head\":\"",
		   c->engine->name, (int)c->req.method.n, c->req.method.p, c->req.head_len,
		   head_hex, body.n, body_hex, (unsigned long long)XXH64(body.p, body.n, 0),
		   c->req.chunked ? "true" : "false");
	buf_json(&b, c->req.head.p, c->req.head.n);
	buf_str(&b, "\"}");
	conn_answer(c, 200, "application/json", buf_head(&b), b.len);
	buf_free(&b);
}

/* GET /status/N: an answer of that status, without a body where there is none. */
static void status(struct conn *c)
{
	int n = atoi(c->req.path.p + strlen("/status/"));

	if (n < 200 || n > 599)
		conn_error(c, 400, "a status from 200 to 599 is needed");
	else
		conn_answer(c, n, "text/plain", "status\n", 7);
}

static void reset_cache(struct conn *c)
{
	cache_clear(c->engine->cache);
	if (c->engine->events)
		events_cleared(c->engine);
	conn_answer(c, 200, "application/json", "", 0);
}

static bool starts(struct slice s, const char *text)
{
	return s.n >= strlen(text) && !memcmp(s.p, text, strlen(text));
}

static const struct {
	const char *path;
	const char *method;
	void (*handle)(struct conn *c);
	int api;
} routes[] = {
	{"/v1/chat/completions", "POST", NULL, API_CHAT},
	{"/v1/completions", "POST", NULL, API_COMPLETIONS},
	{"/v1/messages", "POST", NULL, API_MESSAGES},
	{"/v1/responses", "POST", NULL, API_RESPONSES},
	{"/generate", "POST", NULL, API_GENERATE},
	{"/v1/models", "GET", models, 0},
	{"/health", "GET", health, 0},
	{"/metrics", "GET", metrics_request, 0},
	{"/prometheus/metrics", "GET", metrics_request, 0},
	{"/tokenize", "POST", tokenize_request, 0},
	{"/detokenize", "POST", detokenize_request, 0},
	{"/reset_prefix_cache", "POST", reset_cache, 0},
	{"/kv_cache_events", "POST", events_polled, 0},
	{"/echo", "POST", echo, 0},
};

void api_request(struct conn *c)
{
	struct request *r = &c->req;

	if (slice_is(r->path, "/fault")) {
		fault_request(c);
		return;
	}
	if (slice_is(r->path, "/events")) {
		events_request(c, fault_engine(c));
		return;
	}
	if (c->engine->control) {
		conn_error(c, 404, "this address answers /fault and /events only");
		return;
	}
	if (c->early ? tagged_request(c) : fault_take(c) || tagged_request(c))
		return;
	for (size_t i = 0; i < sizeof(routes) / sizeof(*routes); i++) {
		if (!slice_is(r->path, routes[i].path))
			continue;
		if (!slice_is(r->method, routes[i].method) &&
		    !(r->head_only && routes[i].method[0] == 'G'))
			conn_error(c, 405, "method not allowed here");
		else if (routes[i].handle)
			routes[i].handle(c);
		else
			completion_request(c, routes[i].api);
		return;
	}
	if (starts(r->path, "/bytes/"))
		bytes_request(c);
	else if (starts(r->path, "/status/"))
		status(c);
	else
		conn_error(c, 404, "no such path");
}
