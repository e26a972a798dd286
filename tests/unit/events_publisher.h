/* SPDX-License-Identifier: BSD-2-Clause */
/* A publisher of KV events, as engines are: PUB, and ROUTER for replays. */
#ifndef KVSTEER_TESTS_EVENTS_PUBLISHER_H
#define KVSTEER_TESTS_EVENTS_PUBLISHER_H

#include <endian.h>
#include <msgpack.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#define KEPT 256

struct publisher {
	void *pub, *router;
	char endpoint[64], replay[64];
	const char *topic;
	uint64_t seq;	    /* of the next message */
	uint64_t kept_from; /* of the replay buffer */
	msgpack_sbuffer kept[KEPT];
	bool with_topic; /* layout of replays */
	unsigned int asked;
};

static inline void publisher_open(struct publisher *p, void *zmq, const char *connect_to)
{
	size_t n = sizeof(p->endpoint);
	int zero = 0;

	memset(p, 0, sizeof(*p));
	p->topic = "";
	p->pub = zmq_socket(zmq, ZMQ_PUB);
	p->router = zmq_socket(zmq, ZMQ_ROUTER);
	zmq_setsockopt(p->pub, ZMQ_LINGER, &zero, sizeof(zero));
	zmq_setsockopt(p->router, ZMQ_LINGER, &zero, sizeof(zero));
	if (connect_to ? zmq_connect(p->pub, connect_to) : zmq_bind(p->pub, "tcp://127.0.0.1:*"))
		abort();
	zmq_getsockopt(p->pub, ZMQ_LAST_ENDPOINT, p->endpoint, &n);
	if (zmq_bind(p->router, "tcp://127.0.0.1:*"))
		abort();
	n = sizeof(p->replay);
	zmq_getsockopt(p->router, ZMQ_LAST_ENDPOINT, p->replay, &n);
}

static inline void publisher_close(struct publisher *p)
{
	zmq_close(p->pub);
	zmq_close(p->router);
	for (int i = 0; i < KEPT; i++)
		msgpack_sbuffer_destroy(&p->kept[i]);
}

/* Another life: all numbers anew, the same sockets. */
static inline void publisher_restart(struct publisher *p)
{
	for (int i = 0; i < KEPT; i++)
		msgpack_sbuffer_clear(&p->kept[i]);
	p->seq = p->kept_from = 0;
}

static inline void publisher_send(struct publisher *p, uint64_t seq, const void *payload, size_t n)
{
	uint64_t be = htobe64(seq);

	zmq_send(p->pub, p->topic, strlen(p->topic), ZMQ_SNDMORE);
	zmq_send(p->pub, &be, sizeof(be), ZMQ_SNDMORE);
	zmq_send(p->pub, payload, n, 0);
}

static inline void pack_text(msgpack_packer *pk, const char *text)
{
	msgpack_pack_str(pk, strlen(text));
	msgpack_pack_str_body(pk, text, strlen(text));
}

/* n blocks of 16 tokens that count up from 1 with the prompt's first block; hash = place + 1. */
static inline void pack_stored(msgpack_sbuffer *out, double ts, uint32_t place, uint32_t n,
			       uint32_t salt)
{
	msgpack_packer pk;

	msgpack_packer_init(&pk, out, msgpack_sbuffer_write);
	msgpack_pack_array(&pk, 3);
	msgpack_pack_double(&pk, ts);
	msgpack_pack_array(&pk, 1);
	msgpack_pack_array(&pk, 7);
	pack_text(&pk, "BlockStored");
	msgpack_pack_array(&pk, n);
	for (uint32_t i = 0; i < n; i++)
		msgpack_pack_uint64(&pk, (uint64_t)salt << 32 | (place + i + 1));
	if (place)
		msgpack_pack_uint64(&pk, (uint64_t)salt << 32 | place);
	else
		msgpack_pack_nil(&pk);
	msgpack_pack_array(&pk, n * 16);
	for (uint32_t i = 0; i < n * 16; i++)
		msgpack_pack_uint32(&pk, place * 16 + i + 1 + (salt << 16));
	msgpack_pack_int(&pk, 16);
	msgpack_pack_nil(&pk);
	pack_text(&pk, "GPU");
	msgpack_pack_int(&pk, 0);
}

static inline void publisher_keep(struct publisher *p, uint32_t place, uint32_t n)
{
	msgpack_sbuffer *b = &p->kept[p->seq % KEPT];

	msgpack_sbuffer_clear(b);
	pack_stored(b, 1e9 + (double)rand(), place, n, 0);
	p->seq++;
}

/* Published and kept; lost: only kept. */
static inline void publisher_stored(struct publisher *p, uint32_t place, uint32_t n, bool lost)
{
	msgpack_sbuffer *b = &p->kept[p->seq % KEPT];

	publisher_keep(p, place, n);
	if (!lost)
		publisher_send(p, p->seq - 1, b->data, b->size);
}

/* Answers replay requests, for some time. */
static inline void publisher_pump(struct publisher *p, int ms)
{
	zmq_pollitem_t item = {.socket = p->router, .events = ZMQ_POLLIN};
	unsigned char id[64];
	uint64_t from, be;
	int n;

	if (zmq_poll(&item, 1, ms) <= 0)
		return;
	n = zmq_recv(p->router, id, sizeof(id), 0);
	zmq_recv(p->router, &be, sizeof(be), 0);
	zmq_recv(p->router, &be, sizeof(be), 0);
	from = be64toh(be);
	p->asked++;
	for (uint64_t s = from > p->kept_from ? from : p->kept_from; s <= p->seq; s++) {
		const msgpack_sbuffer *b = &p->kept[s % KEPT];
		bool end = s == p->seq;

		be = end ? UINT64_MAX : htobe64(s);
		zmq_send(p->router, id, n, ZMQ_SNDMORE);
		zmq_send(p->router, "", 0, ZMQ_SNDMORE);
		if (p->with_topic)
			zmq_send(p->router, p->topic, end ? 0 : strlen(p->topic), ZMQ_SNDMORE);
		zmq_send(p->router, &be, sizeof(be), ZMQ_SNDMORE);
		zmq_send(p->router, end ? "" : b->data, end ? 0 : b->size, 0);
	}
}

#endif
