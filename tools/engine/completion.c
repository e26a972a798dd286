// SPDX-License-Identifier: BSD-2-Clause
/*
 * A request's way through the engine: prompts, the prefill queue (first in first out, one at
 * a time, uncached tokens over the rate), then one token per decode interval.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

#include "completion.h"
#include "events.h"

static void prefill_next(struct engine *e);

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void answer_free(struct answer *a)
{
	a->conn->job = NULL;
	free(a->n_blocks);
	free(a->hashes);
	free(a->tokens);
	free(a->lora);
	free(a->salt);
	free(a);
}

static void after(struct answer *a, double at, event_callback_fn fn)
{
	double s = at - now_s();
	struct timeval tv = {0};

	if (s > 0) {
		tv.tv_sec = s;
		tv.tv_usec = (s - tv.tv_sec) * 1e6;
	}
	evtimer_assign(&a->conn->timer, a->engine->base, fn, a);
	evtimer_add(&a->conn->timer, &tv);
}

static void cancel(struct conn *c)
{
	struct answer *a = (struct answer *)c->job;
	struct engine *e = a->engine;

	event_del(&c->timer);
	if (a->waiting) {
		TAILQ_REMOVE(&e->queue, a, link);
		e->stats.waiting--;
	} else {
		e->stats.running--;
	}
	answer_free(a);
	if (e->prefilling == a) {
		e->prefilling = NULL;
		prefill_next(e);
	}
}

/* One event is one chunk. */
static void emit(struct conn *c, struct buf *b)
{
	if (c->until_close) {
		conn_add(c, buf_head(b), b->len);
		return;
	}
	conn_addf(c, "%zx\r\n", b->len);
	conn_add(c, buf_head(b), b->len);
	conn_add(c, "\r\n", 2);
}

static void finish(struct answer *a)
{
	struct conn *c = a->conn;

	a->engine->stats.generation_tokens += a->max_tokens * a->n_prompts;
	a->engine->stats.running--;
	answer_free(a);
	conn_done(c);
}

static void whole(struct answer *a)
{
	struct buf b = {0};
	bool broken;

	wire_whole(a, &b);
	conn_head(a->conn, 200, "application/json", b.len, "");
	/* A fault of streams: for a whole answer the same in its middle. */
	broken = a->conn->rst_after_tokens >= 0;
	conn_add(a->conn, buf_head(&b), broken ? b.len / 2 : b.len);
	buf_free(&b);
	if (broken)
		conn_rst(a->conn);
	else
		finish(a);
}

static void decode(evutil_socket_t fd, short what, void *arg)
{
	struct answer *a = arg;
	struct conn *c = a->conn;
	double step = a->engine->opt->decode_ms / 1000, now = now_s();

	(void)fd;
	(void)what;
	if (!a->stream) {
		whole(a);
		return;
	}
	while (a->sent_tokens < a->max_tokens && a->first + a->sent_tokens * step <= now) {
		wire_token(a, a->sent_tokens++, emit);
		if (c->rst_after_tokens >= 0 && (uint64_t)c->rst_after_tokens <= a->sent_tokens) {
			conn_rst(c);
			return;
		}
	}
	if (a->sent_tokens == a->max_tokens) {
		wire_end(a, emit);
		if (!c->until_close)
			conn_add(c, "0\r\n\r\n", 5);
		finish(a);
		return;
	}
	after(a, a->first + a->sent_tokens * step, decode);
	if (!c->in_loop)
		conn_run(c);
}

/* The prompt is in the cache, and the first token is there. */
static void answer_begin(struct answer *a)
{
	double rest = (a->max_tokens - 1) * a->engine->opt->decode_ms / 1000;

	a->first = now_s();
	a->engine->stats.ttft_count++;
	a->engine->stats.ttft_sum += a->first - a->arrived;
	if (a->stream) {
		conn_head(a->conn, 200, "text/event-stream; charset=utf-8",
			  a->conn->until_close ? -2 : -1, "");
		wire_begin(a, emit);
	} else if (rest > 0) {
		after(a, a->first + rest, decode);
		return;
	}
	decode(-1, 0, a);
}

static void publish(struct answer *a, uint32_t prompt, uint64_t at, const bool *fresh)
{
	struct events_change change = {
		.hashes = a->hashes + at,
		.tokens = a->tokens + at * a->engine->opt->block_size,
		.fresh = fresh,
		.n = a->n_blocks[prompt],
		.block_size = a->engine->opt->block_size,
		.lora = a->lora,
		.salt = a->salt,
	};

	if (change.n > a->engine->opt->blocks) /* what does not fit is not kept */
		change.n = a->engine->opt->blocks;
	events_stored(a->engine, &change);
}

/* The prompts' blocks are in the cache from here on. */
static void keep(struct answer *a)
{
	uint64_t at = 0;

	for (uint32_t k = 0; k < a->n_prompts; at += a->n_blocks[k], k++) {
		bool *fresh = a->tokens ? calloc(a->n_blocks[k] + 1, sizeof(*fresh)) : NULL;

		cache_insert(a->engine->cache, a->hashes + at, a->n_blocks[k], fresh);
		if (fresh)
			publish(a, k, at, fresh);
		free(fresh);
	}
}

static void prefill_done(evutil_socket_t fd, short what, void *arg)
{
	struct answer *a = arg;
	struct engine *e = a->engine;

	(void)fd;
	(void)what;
	if (!e->fault.no_cache)
		keep(a);
	e->prefilling = NULL;
	prefill_next(e);
	answer_begin(a);
}

static void prefill_next(struct engine *e)
{
	struct answer *a = TAILQ_FIRST(&e->queue);
	uint32_t bs = e->opt->block_size;
	double took;

	if (!a || e->prefilling)
		return;
	TAILQ_REMOVE(&e->queue, a, link);
	a->waiting = false;
	e->stats.waiting--;
	e->stats.running++;
	e->prefilling = a;
	uint64_t *h = a->hashes;
	for (uint32_t k = 0; k < a->n_prompts && !e->fault.no_cache; h += a->n_blocks[k], k++)
		a->cached += (uint64_t)cache_match(e->cache, h, a->n_blocks[k]) * bs;
	/* the last token is always computed: its logits are needed */
	if (a->cached >= a->prompt_tokens && a->cached)
		a->cached -= bs;
	if (!e->fault.no_cache)
		e->stats.queries += a->prompt_tokens;
	e->stats.hits += a->cached;
	e->stats.prompt_tokens += a->prompt_tokens;
	took = e->opt->rate > 0 ? (a->prompt_tokens - a->cached) / e->opt->rate : 0;
	after(a, now_s() + took, prefill_done);
}

static void hash_prompts(struct answer *a, const struct ask *ask)
{
	uint32_t block = a->engine->opt->block_size * 4, total = 0, at = 0;

	a->n_prompts = ask->prompts.n;
	a->n_blocks = calloc(a->n_prompts, sizeof(*a->n_blocks));
	for (uint32_t k = 0; k < a->n_prompts; k++)
		total += ask->prompts.prompt[k].tokens.len / block;
	a->hashes = calloc(total + 1, sizeof(*a->hashes));
	if (a->engine->events) {
		a->tokens = malloc((size_t)total * block + 1);
		if (ask->model && strcmp(ask->model, a->engine->opt->model))
			a->lora = strdup(ask->model);
		if (ask->salt)
			a->salt = strdup(ask->salt);
	}
	if (!a->n_blocks || !a->hashes || (a->engine->events && !a->tokens))
		exit(1);
	for (uint32_t k = 0; k < a->n_prompts; k++) {
		const struct prompt *p = &ask->prompts.prompt[k];
		uint64_t h = XXH3_64bits_withSeed(a->model, strlen(a->model), p->ids);
		const char *bytes = buf_head(&p->tokens);

		if (ask->salt)
			h = XXH3_64bits_withSeed(ask->salt, strlen(ask->salt), h);
		a->seed = XXH3_64bits_withSeed(bytes, p->tokens.len, a->seed + h);
		a->prompt_tokens += prompt_tokens(p);
		a->n_blocks[k] = p->tokens.len / block;
		if (a->tokens && a->n_blocks[k])
			memcpy(a->tokens + (size_t)at * block / 4, bytes,
			       (size_t)a->n_blocks[k] * block);
		for (uint32_t i = 0; i < a->n_blocks[k]; i++) {
			h = XXH3_64bits_withSeed(bytes + (size_t)i * block, block, h);
			a->hashes[at++] = h;
		}
	}
}

static struct answer *answer_new(struct conn *c, int api, const struct ask *ask)
{
	const char *model = ask->model ? ask->model : c->engine->opt->model;
	struct answer *a = calloc(1, sizeof(*a));
	struct buf b = {0};

	if (!a)
		exit(1);
	a->job.cancel = cancel;
	a->conn = c;
	a->engine = c->engine;
	a->api = api;
	a->stream = ask->stream;
	a->usage = ask->usage;
	a->max_tokens = ask->max_tokens;
	a->arrived = now_s();
	buf_json(&b, model, strlen(model));
	snprintf(a->model, sizeof(a->model), "%.*s", (int)b.len, buf_head(&b));
	buf_free(&b);
	c->job = &a->job;
	return a;
}

static void completion_instant(struct conn *c, int api)
{
	struct slice body = c->req.body;
	struct ask ask = {0};
	struct answer *a;

	ask_glance(&ask, body);
	a = answer_new(c, api, &ask);
	a->n_prompts = 1;
	a->seed = XXH3_64bits(body.p, body.n);
	a->prompt_tokens = (body.n + 3) / 4;
	a->engine->stats.prompt_tokens += a->prompt_tokens;
	a->engine->stats.queries += a->prompt_tokens;
	a->engine->stats.running++;
	answer_begin(a);
}

void completion_request(struct conn *c, int api)
{
	struct ask ask = {0};
	struct answer *a;
	const char *why;

	if (c->engine->opt->instant) {
		completion_instant(c, api);
		return;
	}
	if (ask_read(&ask, c->req.body, api, &why)) {
		conn_error(c, 400, why);
	} else {
		c->until_close = ask.until_close;
		a = answer_new(c, api, &ask);
		hash_prompts(a, &ask);
		a->waiting = true;
		a->engine->stats.waiting++;
		TAILQ_INSERT_TAIL(&a->engine->queue, a, link);
		prefill_next(a->engine);
	}
	ask_free(&ask);
}
