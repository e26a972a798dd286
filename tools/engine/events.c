// SPDX-License-Identifier: BSD-2-Clause
/* Publishing: numbers, the replay buffer, and what can go wrong. */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>
#include <zmq.h>

#include "engine.h"
#include "events.h"
#include "events/frames.h"

#define POLL_MS 10 /* of the replay socket; vLLM's publisher looks every 100 ms */

/* How many of the next batches … */
struct events_faults {
	uint64_t lose;	  /* … are not sent, but can be replayed */
	uint64_t skip;	  /* … are not sent and cannot be replayed */
	uint64_t garbage; /* … are other bytes */
};

struct events {
	struct events_config config;
	void *pub, *router;
	struct events_queue *queue; /* form polled: in place of these */
	struct event timer;
	uint64_t seq; /* of the next batch */
	uint64_t kept_from;
	msgpack_sbuffer *kept; /* by number, config.keep of them */
	uint64_t *evicted;
	uint32_t n_evicted, evicted_capacity;
	struct events_faults faults;
	uint64_t sent, replays;
};

static const char *const forms[] = {"map", "array", "sglang", "trtllm", "sim", "polled"};

static bool one_of(yyjson_val *v, const char *const *names, int n, int *ret)
{
	for (int i = 0; i < n; i++)
		if (!v || yyjson_equals_str(v, names[i])) {
			*ret = i;
			return true;
		}
	return false;
}

static bool text_of(yyjson_val *v, char *ret, size_t size)
{
	const char *s = v ? yyjson_get_str(v) : "";

	return s && snprintf(ret, size, "%s", s) < (int)size;
}

int events_config(const char *json, size_t n, struct events_config *ret, const char **ret_why)
{
	static const char *const layouts[] = {"new", "old"}, *const hashes[] = {"int", "bytes"};
	yyjson_doc *doc = yyjson_read(json, n, 0);
	yyjson_val *root = yyjson_doc_get_root(doc), *keep = yyjson_obj_get(root, "buffer_steps");
	int form = 0, layout = 0, hash = 0;
	bool ok;

	*ret = (struct events_config){0};
	*ret_why = "endpoint, replay_endpoint, topic, form, replay, hashes, buffer_steps or "
		   "dp_rank is wrong";
	ok = yyjson_is_obj(root) &&
	     text_of(yyjson_obj_get(root, "endpoint"), ret->endpoint, sizeof(ret->endpoint)) &&
	     text_of(yyjson_obj_get(root, "replay_endpoint"), ret->replay, sizeof(ret->replay)) &&
	     text_of(yyjson_obj_get(root, "topic"), ret->topic, sizeof(ret->topic)) &&
	     one_of(yyjson_obj_get(root, "form"), forms, 6, &form) &&
	     one_of(yyjson_obj_get(root, "replay"), layouts, 2, &layout) &&
	     one_of(yyjson_obj_get(root, "hashes"), hashes, 2, &hash);
	ret->form = form;
	ret->old_replay = layout == 1;
	ret->bytes = hash == 1;
	ret->keep = keep ? yyjson_get_uint(keep) : 10000;
	ret->rank = yyjson_get_uint(yyjson_obj_get(root, "dp_rank"));
	ret->first = form == EVENTS_SIM;
	yyjson_doc_free(doc);
	return ok && ret->keep && (*ret->endpoint || form == EVENTS_POLLED) ? 0 : -1;
}

/* vLLM's rule. */
static bool binds(const char *endpoint)
{
	return strchr(endpoint, '*') || strstr(endpoint, "::") || !strncmp(endpoint, "ipc://", 6) ||
	       !strncmp(endpoint, "inproc://", 9);
}

static void answer_replay(struct events *ev, zmq_msg_t *who, uint64_t from)
{
	if (from < ev->kept_from)
		from = ev->kept_from;
	if (from > ev->seq)
		from = ev->seq; /* the end comes in any case */
	for (uint64_t seq = from; seq <= ev->seq; seq++) {
		bool end = seq == ev->seq;
		const msgpack_sbuffer *b = &ev->kept[seq % ev->config.keep];
		uint64_t be = end ? UINT64_MAX : htobe64(seq);
		zmq_msg_t to;

		zmq_msg_init(&to);
		zmq_msg_copy(&to, who);
		zmq_msg_send(&to, ev->router, ZMQ_SNDMORE);
		zmq_send(ev->router, "", 0, ZMQ_SNDMORE);
		if (!ev->config.old_replay)
			zmq_send(ev->router, ev->config.topic, end ? 0 : strlen(ev->config.topic),
				 ZMQ_SNDMORE);
		zmq_send(ev->router, &be, sizeof(be), ZMQ_SNDMORE);
		zmq_send(ev->router, end ? "" : b->data, end ? 0 : b->size, 0);
	}
	ev->replays++;
}

/* Requests are: who, empty, number. Anything else is dropped. */
static void poll_replays(evutil_socket_t fd, short what, void *arg)
{
	struct events *ev = arg;
	struct frames f;
	uint64_t from;

	(void)fd;
	(void)what;
	while (frames_receive(ev->router, &f) > 0) {
		if (f.n == 3 && zmq_msg_size(&f.part[2]) == sizeof(from)) {
			memcpy(&from, zmq_msg_data(&f.part[2]), sizeof(from));
			answer_replay(ev, &f.part[0], be64toh(from));
		}
		frames_close(&f);
	}
}

/* Goes out with the next stored. */
static void evicted(void *ctx, uint64_t hash)
{
	struct events *ev = ctx;

	if (ev->n_evicted == ev->evicted_capacity) {
		ev->evicted_capacity = ev->evicted_capacity ? 2 * ev->evicted_capacity : 64;
		ev->evicted = reallocarray(ev->evicted, ev->evicted_capacity, sizeof(hash));
		if (!ev->evicted)
			exit(1);
	}
	ev->evicted[ev->n_evicted++] = hash;
}

int events_start(struct engine *e, const struct events_config *config, const char **ret_why)
{
	static void *zmq;
	struct events *ev = calloc(1, sizeof(*ev));
	struct timeval every = {0, POLL_MS * 1000};
	int zero = 0, many = 100000, one = 1;

	zmq = zmq ? zmq : zmq_ctx_new();
	*ret_why = "no memory";
	if (!ev || !zmq)
		return -1;
	ev->config = *config;
	if (config->form == EVENTS_POLLED) {
		ev->queue = events_queue_new(config->keep, config->rank);
		events_queue_restart(ev->queue, e->opt->blocks);
		cache_watch(e->cache, evicted, ev);
		e->events = ev;
		return 0;
	}
	ev->seq = ev->kept_from = config->first;
	ev->kept = calloc(config->keep, sizeof(*ev->kept));
	ev->pub = zmq_socket(zmq, ZMQ_PUB);
	ev->router = zmq_socket(zmq, ZMQ_ROUTER);
	if (!ev->kept || !ev->pub || !ev->router)
		return -1;
	zmq_setsockopt(ev->pub, ZMQ_SNDHWM, &many, sizeof(many));
	zmq_setsockopt(ev->pub, ZMQ_LINGER, &zero, sizeof(zero));
	zmq_setsockopt(ev->pub, ZMQ_IPV6, &one, sizeof(one));
	zmq_setsockopt(ev->router, ZMQ_LINGER, &zero, sizeof(zero));
	zmq_setsockopt(ev->router, ZMQ_IPV6, &one, sizeof(one));
	*ret_why = "the endpoint cannot be used";
	if (binds(config->endpoint) ? zmq_bind(ev->pub, config->endpoint)
				    : zmq_connect(ev->pub, config->endpoint))
		return -1;
	if (config->replay[0]) {
		if (zmq_bind(ev->router, config->replay))
			return -1;
		event_assign(&ev->timer, e->base, -1, EV_PERSIST, poll_replays, ev);
		event_add(&ev->timer, &every);
	}
	cache_watch(e->cache, evicted, ev);
	e->events = ev;
	return 0;
}

/* ---- publishing ---------------------------------------------------------------------- */

static void publish(struct events *ev, const void *payload, size_t n)
{
	uint64_t be = htobe64(ev->seq - 1);

	zmq_send(ev->pub, ev->config.topic, strlen(ev->config.topic), ZMQ_SNDMORE);
	zmq_send(ev->pub, &be, sizeof(be), ZMQ_SNDMORE);
	zmq_send(ev->pub, payload, n, 0);
	ev->sent++;
}

/* Both faults come to the same: there is no replay. */
static void batch_queued(struct events *ev, const struct events_batch *batch)
{
	bool lost = ev->faults.skip || ev->faults.lose;

	ev->faults.skip -= ev->faults.skip > 0;
	ev->faults.lose -= ev->faults.lose > 0;
	ev->sent += events_queue_add(ev->queue, batch, lost);
	ev->seq = events_queue_next(ev->queue);
}

static void batch_out(struct events *ev, const struct events_batch *batch)
{
	msgpack_sbuffer *b;

	if (ev->queue) {
		batch_queued(ev, batch);
		return;
	}
	b = &ev->kept[ev->seq % ev->config.keep];

	ev->seq++;
	if (ev->seq - ev->kept_from > ev->config.keep)
		ev->kept_from = ev->seq - ev->config.keep;
	msgpack_sbuffer_clear(b);
	events_pack(b, &ev->config, batch);
	if (ev->faults.garbage) {
		ev->faults.garbage--;
		for (size_t i = 0; i < b->size; i++)
			b->data[i] = (char)(i * 197 + 0xc1);
	}
	if (ev->faults.skip) {
		ev->faults.skip--;
		ev->kept_from = ev->seq;
	} else if (ev->faults.lose) {
		ev->faults.lose--;
	} else {
		publish(ev, b->data, b->size);
	}
}

void events_stored(struct engine *e, const struct events_change *change)
{
	struct events *ev = e->events;
	struct events_batch batch = {
		.removed = ev->evicted, .n_removed = ev->n_evicted, .stored = change};

	if (change->n && memchr(change->fresh, true, change->n)) /* else nothing had to go either */
		batch_out(ev, &batch);
	ev->n_evicted = 0;
}

void events_cleared(struct engine *e)
{
	struct events_batch batch = {.cleared = true};

	batch_out(e->events, &batch);
}

/* ---- faults -------------------------------------------------------------------------- */

static void huge(struct events *ev, size_t n)
{
	char *bytes = ev->queue ? NULL : calloc(1, n);

	if (!bytes)
		return;
	ev->seq++;
	ev->kept_from = ev->seq;
	publish(ev, bytes, n);
	free(bytes);
}

/* lose, skip, garbage: of the next batches; huge: one message of so many bytes, now; forget: no
 * replay of what has been; restart: cache, numbers and replay buffer as after a start. */
static int set_faults(struct engine *e, struct slice body)
{
	struct events *ev = e->events;
	yyjson_doc *doc = yyjson_read(body.p, body.n, 0);
	yyjson_val *root = yyjson_doc_get_root(doc), *key, *val;
	int err = yyjson_is_obj(root) ? 0 : -1;
	size_t i, max;

	yyjson_obj_foreach (root, i, max, key, val) {
		const char *name = yyjson_get_str(key);

		if (!strcmp(name, "lose"))
			ev->faults.lose = yyjson_get_uint(val);
		else if (!strcmp(name, "skip"))
			ev->faults.skip = yyjson_get_uint(val);
		else if (!strcmp(name, "garbage"))
			ev->faults.garbage = yyjson_get_uint(val);
		else if (!strcmp(name, "huge"))
			huge(ev, yyjson_get_uint(val));
		else if (!strcmp(name, "forget")) {
			ev->kept_from = ev->seq;
			if (ev->queue)
				events_queue_forget(ev->queue);
		} else if (!strcmp(name, "restart")) {
			cache_clear(e->cache);
			ev->seq = ev->kept_from = ev->config.first;
			if (ev->queue)
				events_queue_restart(ev->queue, e->opt->blocks);
		} else
			err = -1;
	}
	yyjson_doc_free(doc);
	return err;
}

void events_request(struct conn *c, struct engine *e)
{
	struct events *ev = e ? e->events : NULL;
	struct buf b = {0};

	if (!ev) {
		conn_error(c, 404, "no engine of that name that publishes events");
		return;
	}
	if (slice_is(c->req.method, "POST") && set_faults(e, c->req.body)) {
		conn_error(c, 400, "lose, skip, garbage, huge, forget or restart is needed");
		return;
	}
	buf_printf(&b,
		   "{\"engine\":\"%s\",\"seq\":%llu,\"kept_from\":%llu,\"sent\":%llu,"
		   "\"replays\":%llu}\n",
		   e->name, (unsigned long long)ev->seq, (unsigned long long)ev->kept_from,
		   (unsigned long long)ev->sent, (unsigned long long)ev->replays);
	conn_answer(c, 200, "application/json", buf_head(&b), b.len);
	buf_free(&b);
}

/* trtllm-serve waits for events, up to 2 s, when it has none; this one answers at once. */
void events_polled(struct conn *c)
{
	struct events *ev = c->engine->events;
	struct buf b = {0};

	if (!ev || !ev->queue) {
		conn_error(c, 404, "events are not asked for here");
		return;
	}
	if (ev->faults.garbage) {
		ev->faults.garbage--;
		buf_str(&b, "[{\"event_id\": \"\xff\", [}, 7]");
	} else {
		events_queue_take(ev->queue, &b);
	}
	ev->replays++;
	conn_answer(c, 200, "application/json", buf_head(&b), b.len);
	buf_free(&b);
}
