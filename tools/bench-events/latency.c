// SPDX-License-Identifier: BSD-2-Clause
/*
 * With sockets, 20 publishers at once: to the sink's call, from a message's arrival at the
 * follower's socket, and from zmq_send in the publisher, whose own thread is then part of it.
 */
#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include "bench.h"

#define PUBLISHERS 20
#define EVERY_MS 20    /* all send at the same moment: a scheduler's step */
#define STEP_BLOCKS 32 /* 512 tokens each */
#define FLOOD_BYTES 65536

struct sample {
	uint64_t key;
	double sent, told; /* 0: not */
};

static struct sample *samples; /* by key */
static size_t n_samples;

static int by_key(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void told(void *ctx, uint64_t key, uint32_t depth, uint32_t backend, uint32_t weight)
{
	struct sample *s = bsearch(&key, samples, n_samples, sizeof(*samples), by_key);

	(void)ctx;
	(void)depth;
	(void)backend;
	(void)weight;
	if (s && s->told == 0)
		s->told = seconds_wall();
}

static const struct kv_index_sink sink = {told, ignore_gone, ignore_cache, ignore_cache,
					  ignore_cache};

static uint64_t block_number(int publisher, int message)
{
	return ((uint64_t)publisher << 32) + (uint64_t)message * STEP_BLOCKS;
}

/* The key of the last block of a message, which is a prompt of its own. */
static uint64_t last_key(int publisher, int message)
{
	uint64_t first = block_number(publisher, message), chain = 0;
	struct kv_key key = {.domain = KVSTEER_TOKENS};
	uint32_t tokens[BLOCK];

	for (uint32_t b = 0; b < STEP_BLOCKS; b++) {
		uint64_t local;

		for (uint32_t i = 0; i < BLOCK; i++)
			tokens[i] = token_of(first + b, i);
		local = kv_hash_local(tokens, BLOCK, NULL, 0, kv_seed(&key));
		chain = b ? kv_hash_chain(chain, local) : local;
	}
	return chain;
}

static void send_batch(void *pub, uint64_t seq, const void *payload, size_t n)
{
	uint64_t be = htobe64(seq);

	zmq_send(pub, "", 0, ZMQ_SNDMORE);
	zmq_send(pub, &be, sizeof(be), ZMQ_SNDMORE);
	zmq_send(pub, payload, n, ZMQ_DONTWAIT);
}

struct mad {
	void *pub;
	bool stop;
};

/* As much as goes, of arrays that are no events. */
static void *flood(void *arg)
{
	struct mad *m = arg;
	unsigned char *junk = malloc(FLOOD_BYTES);

	memset(junk, 0x01, FLOOD_BYTES);
	memcpy(junk, "\x92\x00\xdd\x00\x00\xff\xff", 7);
	for (uint64_t seq = 0; !__atomic_load_n(&m->stop, __ATOMIC_RELAXED); seq++) {
		send_batch(m->pub, seq, junk, FLOOD_BYTES);
		if (seq % 4 == 0)
			usleep(1000); /* 250 MB/s: it shares the CPUs with what is measured */
	}
	free(junk);
	return NULL;
}

static void wait_ms(long ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000};

	nanosleep(&t, NULL);
}

static void report(struct results *r, const char *what, double limit)
{
	static char names[16][80];
	static int used;
	double *ms = calloc(n_samples, sizeof(*ms));
	size_t n = 0, missed = 0;

	for (size_t i = 0; i < n_samples; i++) {
		if (samples[i].told > 0)
			ms[n++] = (samples[i].told - samples[i].sent) * 1e3;
		else
			missed++;
	}
	qsort(ms, n, sizeof(*ms), by_value);
	for (int k = 0; n && k < 3; k++) {
		size_t at = k == 0 ? n / 2 : k == 1 ? n * 99 / 100 : n - 1;
		const char *which[] = {"median", "99 %", "most"};

		snprintf(names[used], sizeof(names[used]), "latency, %s, %s", what, which[k]);
		result_add(r, names[used++], ms[at], "ms", k == 1 ? -1 : 0, limit);
	}
	snprintf(names[used], sizeof(names[used]), "  not told, of %zu messages", n_samples);
	result_add(r, names[used++], missed, "messages", -1, 0);
	free(ms);
}

static int publisher_open(void *zmq, void **ret_pub, struct kv_follow *f, int i, const char *name)
{
	struct kv_follow_source s = {.name = name, .engine = {.backend = i, .block = BLOCK}};
	char endpoint[64];
	size_t n = sizeof(endpoint);
	int zero = 0, many = 10000;

	*ret_pub = zmq_socket(zmq, ZMQ_PUB);
	zmq_setsockopt(*ret_pub, ZMQ_LINGER, &zero, sizeof(zero));
	zmq_setsockopt(*ret_pub, ZMQ_SNDHWM, &many, sizeof(many));
	if (zmq_bind(*ret_pub, "tcp://127.0.0.1:*") ||
	    zmq_getsockopt(*ret_pub, ZMQ_LAST_ENDPOINT, endpoint, &n))
		return -errno;
	s.endpoint = endpoint;
	return kv_follow_add(f, &s);
}

/* Its descriptor. */
static int raw_open(struct kv_follow *f, int i, const char *name)
{
	char endpoint[64];
	struct kv_follow_source s = {
		.name = name, .endpoint = endpoint, .engine = {.backend = i, .block = BLOCK}};
	int listener = raw_listen(endpoint, sizeof(endpoint));
	int err = listener < 0 ? listener : kv_follow_add(f, &s);

	return err < 0 ? err : raw_accept(listener);
}

static int run(struct results *r, double seconds, bool with_mad, bool raw)
{
	struct kv_follow_limits limits = KV_FOLLOW_LIMITS;
	struct kv_follow *f = kv_follow_new(&limits, &sink, NULL, NULL);
	void *zmq = zmq_ctx_new(), *pubs[PUBLISHERS] = {0};
	int fds[PUBLISHERS];
	int messages = seconds * 1000 / EVERY_MS, err = f ? 0 : -ENOMEM;
	msgpack_sbuffer *packed;
	struct mad mad = {0};
	pthread_t thread;
	char name[32];

	n_samples = (size_t)messages * PUBLISHERS;
	samples = calloc(n_samples, sizeof(*samples));
	packed = calloc(n_samples, sizeof(*packed));
	for (int i = 0; !err && i < PUBLISHERS; i++) {
		snprintf(name, sizeof(name), "e%d", i);
		err = raw ? fds[i] = raw_open(f, i, name)
			  : publisher_open(zmq, &pubs[i], f, i, name);
		err = err < 0 ? err : 0;
	}
	if (!err && with_mad) {
		err = publisher_open(zmq, &mad.pub, f, PUBLISHERS, "mad");
		if (!err)
			pthread_create(&thread, NULL, flood, &mad);
	}
	if (err)
		return err;
	for (size_t k = 0; k < n_samples; k++) {
		samples[k].key = last_key(k % PUBLISHERS, k / PUBLISHERS);
		pack_stored(&packed[k], true, block_number(k % PUBLISHERS, k / PUBLISHERS),
			    STEP_BLOCKS, 0);
	}
	/* the order of sending, by key */
	struct sample *order = calloc(n_samples, sizeof(*order));
	memcpy(order, samples, n_samples * sizeof(*order));
	qsort(samples, n_samples, sizeof(*samples), by_key);
	wait_ms(500); /* subscriptions */
	for (int m = 0; m < messages; m++) {
		for (int i = 0; i < PUBLISHERS; i++) {
			size_t k = (size_t)m * PUBLISHERS + i;
			struct sample *s = bsearch(&order[k].key, samples, n_samples,
						   sizeof(*samples), by_key);

			s->sent = seconds_wall();
			if (raw)
				raw_send(fds[i], m, packed[k].data, packed[k].size);
			else
				send_batch(pubs[i], m, packed[k].data, packed[k].size);
		}
		wait_ms(EVERY_MS);
	}
	wait_ms(300);
	if (with_mad) {
		__atomic_store_n(&mad.stop, true, __ATOMIC_RELAXED);
		pthread_join(thread, NULL);
		zmq_close(mad.pub);
	}
	report(r,
	       raw	  ? "from arrival, 20 at once"
	       : with_mad ? "20 publishers and a mad one"
			  : "20 publishers at once",
	       5);
	kv_follow_free(f);
	for (int i = 0; i < PUBLISHERS; i++)
		raw ? close(fds[i]) : zmq_close(pubs[i]);
	zmq_ctx_term(zmq);
	for (size_t k = 0; k < n_samples; k++)
		msgpack_sbuffer_destroy(&packed[k]);
	free(packed);
	free(order);
	free(samples);
	return 0;
}

int bench_latency(struct results *r, double seconds)
{
	return run(r, seconds, false, true)
		       ?: run(r, seconds, false, false)
		       ?: run(r, seconds, true, false);
}
