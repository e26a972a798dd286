// SPDX-License-Identifier: BSD-2-Clause
/*
 * Faults on demand: POST /fault with a JSON object sets them, an empty object clears them, GET
 * shows them. ?engine=NAME speaks to another engine of the process (its listener may be closed).
 */
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "engine.h"

void fault_clear(struct fault *f)
{
	*f = (struct fault){.rst_after_tokens = -1, .fin_mid_body = -1};
}

int fault_parse(const char *json, size_t n, struct fault *f, enum fault_now *ret_now,
		const char **ret_why)
{
	yyjson_doc *doc = yyjson_read(json, n, 0);
	yyjson_val *root = yyjson_doc_get_root(doc), *key, *val;
	size_t i, max;
	int err = 0;

	fault_clear(f);
	*ret_now = FAULT_NONE;
	*ret_why = "a JSON object is needed";
	if (!yyjson_is_obj(root))
		err = -1;
	yyjson_obj_foreach (root, i, max, key, val) {
		const char *name = yyjson_get_str(key);

		if (!strcmp(name, "refuse"))
			f->refuse = yyjson_get_bool(val);
		else if (!strcmp(name, "hang"))
			f->hang = yyjson_get_bool(val);
		else if (!strcmp(name, "rst_before_headers"))
			f->rst_before_headers = yyjson_get_bool(val);
		else if (!strcmp(name, "after_ms"))
			f->after_ms = yyjson_get_int(val);
		else if (!strcmp(name, "rst_after_tokens"))
			f->rst_after_tokens = yyjson_get_sint(val);
		else if (!strcmp(name, "fin_mid_body"))
			f->fin_mid_body = yyjson_get_sint(val);
		else if (!strcmp(name, "status"))
			f->status = yyjson_get_int(val);
		else if (!strcmp(name, "health_ms"))
			f->health_ms = yyjson_get_int(val);
		else if (!strcmp(name, "health_status"))
			f->health_status = yyjson_get_int(val);
		else if (!strcmp(name, "close_after_response"))
			f->close_after_response = yyjson_get_bool(val);
		else if (!strcmp(name, "followed"))
			f->followed = yyjson_get_bool(val);
		else if (!strcmp(name, "say_close"))
			f->say_close = yyjson_get_bool(val);
		else if (!strcmp(name, "no_cache"))
			f->no_cache = yyjson_get_bool(val);
		else if (!strcmp(name, "count"))
			f->count = yyjson_get_uint(val);
		else if (!strcmp(name, "reset"))
			*ret_now = yyjson_get_bool(val) ? FAULT_RESET : *ret_now;
		else if (!strcmp(name, "close"))
			*ret_now = yyjson_get_bool(val) ? FAULT_CLOSE : *ret_now;
		else
			err = -1, *ret_why = "unknown fault";
	}
	yyjson_doc_free(doc);
	return err;
}

struct engine *fault_engine(struct conn *c)
{
	struct slice name = query_get(c->req.query, "engine");
	struct engine *e;

	if (!name.n)
		return c->engine->control ? NULL : c->engine;
	LIST_FOREACH(e, &engines, link)
	if (!e->control && slice_is(name, e->name))
		return e;
	return NULL;
}

static void show(struct conn *c, struct engine *e)
{
	struct fault *f = &e->fault;
	struct buf b = {0};

	buf_printf(&b,
		   "{\"engine\":\"%s\",\"refuse\":%s,\"hang\":%s,\"rst_before_headers\":%s,"
		   "\"after_ms\":%u,\"rst_after_tokens\":%lld,\"fin_mid_body\":%lld,\"status\":%d,"
		   "\"health_ms\":%u,\"health_status\":%d,\"close_after_response\":%s,"
		   "\"say_close\":%s,\"no_cache\":%s,\"count\":%llu}\n",
		   e->name, f->refuse ? "true" : "false", f->hang ? "true" : "false",
		   f->rst_before_headers ? "true" : "false", f->after_ms,
		   (long long)f->rst_after_tokens, (long long)f->fin_mid_body, f->status,
		   f->health_ms, f->health_status, f->close_after_response ? "true" : "false",
		   f->say_close ? "true" : "false", f->no_cache ? "true" : "false",
		   (unsigned long long)f->count);
	conn_answer(c, 200, "application/json", buf_head(&b), b.len);
	buf_free(&b);
}

/* What is done once, to the connections that there are. */
static void act(struct engine *e, enum fault_now now, const struct conn *but)
{
	struct conn *c, *next;

	for (c = LIST_FIRST(&e->conns); c && now != FAULT_NONE; c = next) {
		next = LIST_NEXT(c, link);
		if (c == but)
			continue;
		if (now == FAULT_RESET)
			conn_rst(c);
		else
			conn_close_idle(c);
	}
}

void fault_request(struct conn *c)
{
	struct engine *e = fault_engine(c);
	enum fault_now now;
	const char *why;
	struct fault f;

	if (!e) {
		conn_error(c, 404, "no engine of that name");
		return;
	}
	if (!slice_is(c->req.method, "POST")) {
		show(c, e);
		return;
	}
	if (fault_parse(c->req.body.p, c->req.body.n, &f, &now, &why)) {
		conn_error(c, 400, why);
		return;
	}
	if (f.refuse && !e->fault.refuse)
		engine_unlisten(e);
	if (!f.refuse && e->fault.refuse && engine_listen(e)) {
		conn_error(c, 500, "cannot listen again");
		return;
	}
	e->fault = f;
	act(e, now, c);
	show(c, e);
}

static void slow_health(evutil_socket_t fd, short what, void *arg)
{
	struct conn *c = arg;
	int status = c->engine->fault.health_status;

	(void)fd;
	(void)what;
	free(c->job);
	c->job = NULL;
	conn_answer(c, status ? status : 200, "application/json", "", 0);
}

static void late_rst(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	conn_rst(arg);
}

static void cancel(struct conn *c)
{
	free(c->job);
	c->job = NULL;
}

/* Nothing for so long, then that. False: no memory. */
static bool later(struct conn *c, uint32_t ms, event_callback_fn fn)
{
	struct timeval after = {ms / 1000, ms % 1000 * 1000};

	c->job = calloc(1, sizeof(*c->job));
	if (!c->job)
		return false;
	c->job->cancel = cancel;
	evtimer_assign(&c->timer, c->engine->base, fn, c);
	evtimer_add(&c->timer, &after);
	return true;
}

/* Who follows engines asks for these all the time: faults are for requests, unless they say
 * otherwise. */
static bool is_followed(const struct conn *c)
{
	static const char *const paths[] = {"/metrics", "/prometheus/metrics", "/v1/models"};

	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++)
		if (slice_is(c->req.path, paths[i]))
			return true;
	return false;
}

bool fault_take(struct conn *c)
{
	struct fault *f = &c->engine->fault, taken = *f;

	if (slice_is(c->req.path, "/health"))
		return f->health_ms && later(c, f->health_ms, slow_health);
	if (is_followed(c) && !f->followed)
		return false;
	if (f->count && !--f->count)
		fault_clear(f);
	c->rst_after_tokens = taken.rst_after_tokens;
	c->fin_mid_body = taken.fin_mid_body;
	c->close_silently = taken.close_after_response;
	if (taken.say_close)
		c->keep_alive = false;
	if (taken.rst_before_headers) {
		if (!taken.after_ms || !later(c, taken.after_ms, late_rst))
			conn_rst(c);
		return true;
	}
	if (taken.hang)
		return true;
	if (taken.status) {
		conn_error(c, taken.status, "fault set by the test");
		return true;
	}
	return false;
}
