/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The steering core over whole traces in virtual time: emulated LRU caches and FIFO prefill servers
 * behind it, against the reference simulator's hit rate and times to first token.
 *
 * Traces are Mooncake's (JSON lines: timestamp in ms, input_length, hash_ids; an id names a block
 * and all before it), found in $KVSTEER_TRACES or ../shared/traces/mooncake-fast25.
 */
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <yyjson.h>

#include "check.h"
#include "kvsteer/ladder.h"
#include "steer_world.h"

#define BACKENDS 8
#define CACHE 2000 /* blocks */
#define BLOCK 512
#define RATE 16000 /* tokens per second */

/* ---- traces -------------------------------------------------------------------------- */

struct request {
	double at; /* seconds */
	__u32 tokens, n, first;
};

struct trace {
	struct request *requests;
	__u32 *ids; /* of all requests, one after the other */
	size_t n, n_ids;
	__u32 max_id;
};

static int by_time(const void *a, const void *b)
{
	const struct request *x = a, *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return x->first < y->first ? -1 : 1; /* stable */
}

static int trace_line(struct trace *t, yyjson_val *line)
{
	yyjson_val *ids = yyjson_obj_get(line, "hash_ids"), *id;
	size_t i, max, n = yyjson_arr_size(ids);
	struct request *r;

	if (!n)
		return 0;
	t->requests = realloc(t->requests, (t->n + 1) * sizeof(*t->requests));
	t->ids = realloc(t->ids, (t->n_ids + n) * sizeof(*t->ids));
	if (!t->requests || !t->ids)
		return -ENOMEM;
	r = &t->requests[t->n++];
	r->at = yyjson_get_num(yyjson_obj_get(line, "timestamp")) / 1000.0;
	r->tokens = yyjson_get_uint(yyjson_obj_get(line, "input_length"));
	r->n = n;
	r->first = t->n_ids;
	yyjson_arr_foreach (ids, i, max, id) {
		t->ids[t->n_ids] = yyjson_get_uint(id);
		if (t->ids[t->n_ids] > t->max_id)
			t->max_id = t->ids[t->n_ids];
		t->n_ids++;
	}
	return 0;
}

static int trace_load(struct trace *t, const char *dir, const char *name)
{
	char path[4096], *line = NULL;
	size_t size = 0;
	ssize_t len;
	yyjson_doc *doc;
	FILE *f;
	int err = 0;

	snprintf(path, sizeof(path), "%s/%s_trace.jsonl", dir, name);
	f = fopen(path, "r");
	if (!f)
		return -errno;
	while (!err && (len = getline(&line, &size, f)) > 0) {
		doc = yyjson_read(line, len, 0);
		err = doc ? trace_line(t, yyjson_doc_get_root(doc)) : -EINVAL;
		yyjson_doc_free(doc);
	}
	free(line);
	fclose(f);
	if (!err)
		qsort(t->requests, t->n, sizeof(*t->requests), by_time);
	return err;
}

/* ---- engines ------------------------------------------------------------------------- */

/* An LRU of blocks: a doubly linked list over the trace's ids, 0 being its head. */
struct cache {
	__u32 *next, *prev;
	__u32 n;
};

static void cache_unlink(struct cache *c, __u32 i)
{
	c->next[c->prev[i]] = c->next[i];
	c->prev[c->next[i]] = c->prev[i];
	c->next[i] = c->prev[i] = UINT32_MAX;
	c->n--;
}

static __u32 cache_match(const struct cache *c, const __u32 *ids, __u32 n)
{
	__u32 i = 0;

	while (i < n && c->next[ids[i] + 1] != UINT32_MAX)
		i++;
	return i;
}

/* Head most recent, tail least, as engines free them. */
static void cache_serve(struct cache *c, const __u32 *ids, __u32 n)
{
	for (__u32 i = n < CACHE ? n : CACHE; i--;) {
		__u32 e = ids[i] + 1;

		if (c->next[e] != UINT32_MAX)
			cache_unlink(c, e);
		c->next[e] = c->next[0];
		c->prev[e] = 0;
		c->prev[c->next[0]] = e;
		c->next[0] = e;
		c->n++;
	}
	while (c->n > CACHE)
		cache_unlink(c, c->prev[0]);
}

struct engine {
	struct cache cache;
	double free_at;
	/* dispatched, not yet answered: a ring */
	struct kv_dispatch *queue;
	double *done;
	__u32 head, tail, size;
};

#define EPOCH 1000000000000ull

static __u64 virtual_ns(double at)
{
	return EPOCH + (__u64)(at * 1e9);
}

static void engine_settle(struct engine *e, double now)
{
	for (; e->head != e->tail && e->done[e->head % e->size] <= now; e->head++) {
		world.now = virtual_ns(e->done[e->head % e->size]);
		kv_dispatch_answered(&e->queue[e->head % e->size]);
		kv_dispatch_finished(&e->queue[e->head % e->size]);
	}
}

static void engine_init(struct engine *e, const struct trace *t)
{
	size_t n = t->max_id + 2ul;

	memset(e, 0, sizeof(*e));
	e->size = 4096;
	e->queue = calloc(e->size, sizeof(*e->queue));
	e->done = calloc(e->size, sizeof(*e->done));
	e->cache.next = malloc(n * sizeof(__u32));
	e->cache.prev = malloc(n * sizeof(__u32));
	if (!e->queue || !e->done || !e->cache.next || !e->cache.prev)
		abort();
	memset(e->cache.next, 0xff, n * sizeof(__u32));
	memset(e->cache.prev, 0xff, n * sizeof(__u32));
	e->cache.next[0] = e->cache.prev[0] = 0;
}

static void engine_free(struct engine *e)
{
	free(e->queue);
	free(e->done);
	free(e->cache.next);
	free(e->cache.prev);
}

/* ---- replay -------------------------------------------------------------------------- */

struct result {
	double hit_rate, mean, p90;
};

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void ask(struct kv_query *q, const struct request *r, const __u32 *ids)
{
	__u32 depths[KV_MAX_RUNGS];

	memset(q, 0, sizeof(*q));
	q->total = r->tokens;
	q->exclude = KV_NONE;
	q->n_rungs = kv_ladder(r->n, NULL, 0, depths);
	for (__u32 i = 0; i < q->n_rungs; i++) {
		q->rungs[i].depth = depths[i] * BLOCK;
		q->rungs[i].hash = kv_mix(ids[depths[i] - 1] + 1);
	}
}

static struct result replay(const struct trace *t, enum kv_policy policy, double speed, __u32 rate)
{
	static struct kv_steer st;
	struct engine engines[BACKENDS], *e;
	double *ttft = calloc(t->n, sizeof(*ttft)), now, sum = 0;
	__u64 hits = 0, blocks = 0;
	struct result ret;

	if (!ttft)
		abort();
	world_reset(policy, BACKENDS, CACHE * BLOCK, rate);
	for (int k = 0; k < BACKENDS; k++)
		engine_init(&engines[k], t);

	for (size_t i = 0; i < t->n; i++) {
		const struct request *r = &t->requests[i];
		const __u32 *ids = t->ids + r->first;
		__u32 exact;

		now = (r->at - t->requests[0].at) / speed;
		for (int k = 0; k < BACKENDS; k++)
			engine_settle(&engines[k], now);
		world.now = virtual_ns(now);

		ask(&st.query, r, ids);
		if (kv_steer_decide(&st))
			abort();
		e = &engines[st.choice.backend];
		if (e->tail - e->head == e->size)
			abort();
		kv_steer_commit(&st, &e->queue[e->tail % e->size]);

		exact = cache_match(&e->cache, ids, r->n);
		cache_serve(&e->cache, ids, r->n);
		if (e->free_at < now)
			e->free_at = now;
		if (r->tokens > exact * BLOCK)
			e->free_at += (r->tokens - exact * BLOCK) / (double)rate;
		e->done[e->tail++ % e->size] = e->free_at;
		ttft[i] = e->free_at - now;
		sum += ttft[i];
		hits += exact;
		blocks += r->n;
	}
	for (int k = 0; k < BACKENDS; k++) {
		engine_settle(&engines[k], 1e9);
		CHECK_EQ(world.backends[k].inflight_tokens, 0);
		CHECK_EQ(world.backends[k].inflight_requests, 0);
		engine_free(&engines[k]);
	}
	qsort(ttft, t->n, sizeof(*ttft), by_value);
	ret.hit_rate = (double)hits / blocks;
	ret.mean = sum / t->n;
	ret.p90 = ttft[(size_t)(0.9 * t->n)];
	free(ttft);
	return ret;
}

/* ---- the reference's figures --------------------------------------------------------- */

static const char *const policies[] = {
	[KV_POLICY_PRICE] = "price",
	[KV_POLICY_STICKY] = "sticky",
	[KV_POLICY_TTFT] = "ttft",
};

/*
 * One request placed otherwise sends the rest of a run down another path: with the rate off by a
 * thousandth the reference's own cells move by up to 1.4 points of hit rate and 13 % of the
 * mean. So each figure here is the mean of five of its runs, and is compared with the mean of ours.
 */
static const __u32 rates[] = {RATE - 20, RATE - 10, RATE, RATE + 10, RATE + 20};

#define N_RATES (sizeof(rates) / sizeof(rates[0]))

static const struct cell {
	const char *trace;
	enum kv_policy policy;
	int speed;
	struct result want;
} cells[] = {
	{"conversation", KV_POLICY_PRICE, 1, {.2369, .6294, 1.500}},
	{"conversation", KV_POLICY_STICKY, 1, {.2491, .6530, 1.560}},
	{"conversation", KV_POLICY_TTFT, 1, {.2331, .6290, 1.498}},
	{"conversation", KV_POLICY_PRICE, 3, {.2438, .8428, 1.868}},
	{"conversation", KV_POLICY_STICKY, 3, {.2412, .8790, 1.960}},
	{"conversation", KV_POLICY_TTFT, 3, {.2107, .8912, 1.966}},
	{"synthetic", KV_POLICY_PRICE, 1, {.5164, .4812, 1.574}},
	{"synthetic", KV_POLICY_STICKY, 1, {.5239, .5040, 1.664}},
	{"synthetic", KV_POLICY_TTFT, 1, {.5052, .4848, 1.584}},
	{"synthetic", KV_POLICY_PRICE, 3, {.5181, .7444, 2.142}},
	{"synthetic", KV_POLICY_STICKY, 3, {.5252, .7732, 2.204}},
	{"synthetic", KV_POLICY_TTFT, 3, {.4815, .8410, 2.308}},
};

#define N_CELLS (sizeof(cells) / sizeof(cells[0]))

static void check_cell(const struct cell *c, const struct trace *t)
{
	struct result mean = {0};

	for (size_t i = 0; i < N_RATES; i++) {
		struct result one = replay(t, c->policy, c->speed, rates[i]);

		mean.hit_rate += one.hit_rate / N_RATES;
		mean.mean += one.mean / N_RATES;
		mean.p90 += one.p90 / N_RATES;
	}
	printf("# hits %.4f (%.4f), mean %.3f s (%.3f), P90 %.2f s (%.2f)\n", mean.hit_rate,
	       c->want.hit_rate, mean.mean, c->want.mean, mean.p90, c->want.p90);
	CHECK(fabs(mean.hit_rate - c->want.hit_rate) <= 0.005);
	CHECK(fabs(mean.mean - c->want.mean) <= 0.05 * c->want.mean);
	CHECK(fabs(mean.p90 - c->want.p90) <= 0.05 * c->want.p90);
}

int main(void)
{
	const char *dir = getenv("KVSTEER_TRACES");
	struct trace t = {0};
	char name[64];
	int err = -1;

	if (!dir)
		dir = "../shared/traces/mooncake-fast25";
	for (size_t i = 0; i < N_CELLS; i++) {
		const struct cell *c = &cells[i];

		snprintf(name, sizeof(name), "%s x%d %s", c->trace, c->speed, policies[c->policy]);
		if (!i || strcmp(c->trace, cells[i - 1].trace)) {
			free(t.requests);
			free(t.ids);
			memset(&t, 0, sizeof(t));
			err = trace_load(&t, dir, c->trace);
		}
		if (err == -ENOENT) {
			printf("ok %zu - %s # SKIP no %s_trace.jsonl in %s\n", i + 1, name,
			       c->trace, dir);
			check_state.n++;
			continue;
		}
		TEST(name)
		{
			CHECK_EQ(err, 0);
			if (!err)
				check_cell(c, &t);
		}
	}
	free(t.requests);
	free(t.ids);
	world_free();
	return check_done();
}
