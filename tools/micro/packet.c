// SPDX-License-Identifier: BSD-2-Clause
/*
 * Packets of a lent pair: kv_ingress on made ones, over maps as a lend leaves them.
 *
 * Every packet is the next one of its connection, so that all of it runs: lock, framing, rewriting.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>
#include <stdio.h>
#include <string.h>

#include <kvsteer/framing.h>
#include <kvsteer/shared.h>

#include "../common/inet_sum.h"
#include "kvsteer.skel.h"
#include "dataplane.h"
#include "micro.h"

#define CLIENT_ADDR 0x0a470102u /* 10.71.1.2 */
#define CLIENT_SIDE 0x0a470101u
#define BACKEND_ADDR 0x0a480102u
#define BACKEND_SIDE 0x0a480101u
#define CLIENT_PORT 40000
#define UPSTREAM_PORT 50000
#define SLOT 5
#define BATCH 256

/* Positions are apart, so that a mistake in a delta shows. */
#define REQUEST_START 1000000u
#define RESPONSE_START 2000000u
#define REQUEST_BYTES (0x7fff0000u) /* as much as sequence numbers can tell apart */
#define WINDOW (2u * BATCH * 1448)
#define TO_BACKEND_SEQ 500u
#define TO_BACKEND_ACK 700u

struct segment {
	struct ethhdr eth;
	struct iphdr ip;
	struct tcphdr tcp;
	__u8 options[12];
	char payload[1448];
} __attribute__((packed));

static struct kv_tuple tuple(__u32 local, __u16 local_port, __u32 peer, __u16 peer_port)
{
	return (struct kv_tuple){
		.local = {0, 0, htonl(0xffff), htonl(local)},
		.peer = {0, 0, htonl(0xffff), htonl(peer)},
		.local_port = htons(local_port),
		.peer_port = htons(peer_port),
	};
}

/* From peer to local of this connection. */
static void make_segment(struct segment *s, const struct kv_tuple *t, size_t payload)
{
	memset(s, 0, sizeof(*s));
	s->eth.h_proto = htons(ETH_P_IP);
	s->ip.version = 4;
	s->ip.ihl = 5;
	s->ip.ttl = 64;
	s->ip.protocol = IPPROTO_TCP;
	s->ip.tot_len = htons(sizeof(*s) - sizeof(s->eth) - sizeof(s->payload) + payload);
	s->ip.saddr = t->peer[3];
	s->ip.daddr = t->local[3];
	s->tcp.source = t->peer_port;
	s->tcp.dest = t->local_port;
	s->tcp.doff = 8;
	s->tcp.ack = 1;
	s->tcp.window = htons(500);
	memcpy(s->options, "\x01\x01\x08\x0a\0\0\0\1\0\0\0\1", sizeof(s->options));
}

static void set_checksum(struct segment *s, size_t payload)
{
	size_t len = sizeof(s->tcp) + sizeof(s->options) + payload;

	s->tcp.check = 0;
	s->tcp.check = htons(~inet_sum(&s->tcp, len, inet_sum(&s->ip.saddr, 8, IPPROTO_TCP + len)));
}

/* The framing behind a head like this one. */
static int response_at(struct kv_framing *f, const char *head)
{
	struct kv_source source = {.data = (const __u8 *)head, .len = strlen(head)};

	kv_framing_init(f, false);
	return kv_framing_run(f, &source, 0, source.len) == source.len ? 0 : -EPROTO;
}

static int lend(struct kvsteer_bpf *skel, const struct kv_tuple *client, const struct kv_tuple *up,
		const char *head)
{
	static struct kv_client c;
	struct kv_upstream *slots = micro_map(skel->maps.kv_upstreams);
	__u32 slot = SLOT;
	int err;

	if (!slots)
		return -errno;
	memset(&c, 0, sizeof(c));
	c.state = KV_CLIENT_LENT;
	c.key = *client;
	c.ifindex = 1;
	c.pair = (struct kv_pair){
		.slot = SLOT,
		.gen = 1,
		.to_backend_seq = TO_BACKEND_SEQ,
		.to_backend_ack = TO_BACKEND_ACK,
		.req_start = REQUEST_START,
		.req_end = REQUEST_START + REQUEST_BYTES,
		.req_sent = REQUEST_START + 1000,
		.req_acked = REQUEST_START + 1000,
		.resp_start = RESPONSE_START,
		.resp_next = RESPONSE_START,
		.resp_sent = RESPONSE_START,
		.resp_acked = RESPONSE_START,
		.head_len = 1000,
		.client_window = WINDOW,
		.options = KV_OPT_TIMESTAMPS | KV_OPT_SACK,
		.seen = KV_SEEN_RESPONSE | KV_SEEN_ANSWERED,
	};
	err = response_at(&c.pair.response, head);
	if (err)
		return err;
	slots[SLOT] =
		(struct kv_upstream){.state = KV_UP_LENT, .gen = 1, .key = *up, .client = *client};
	if (bpf_map_update_elem(bpf_map__fd(skel->maps.kv_upstream_ids), up, &slot, BPF_ANY) ||
	    bpf_map_update_elem(bpf_map__fd(skel->maps.kv_clients), client, &c, BPF_ANY))
		return -errno;
	return 0;
}

struct stream {
	const char *name;
	const char *head;
	const char *payload; /* NULL: any */
	size_t len;
	bool from_client;
};

static int send_batch(int fd, struct segment *segment, const struct stream *s)
{
	__u32 seq = s->from_client ? REQUEST_START + 1000 : RESPONSE_START + TO_BACKEND_ACK;
	__u32 ack = s->from_client ? RESPONSE_START : REQUEST_START + 1000 + TO_BACKEND_SEQ;

	segment->tcp.ack_seq = htonl(ack);
	for (int i = 0; i < BATCH; i++) {
		LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = segment,
			    .data_size_in = sizeof(*segment) - sizeof(segment->payload) + s->len);

		segment->tcp.seq = htonl(seq);
		set_checksum(segment, s->len);
		if (bpf_prog_test_run_opts(fd, &opts))
			return -errno;
		if (opts.retval != TC_ACT_REDIRECT) {
			fprintf(stderr, "kv-micro: %s: not redirected: action %d\n", s->name,
				(int)opts.retval);
			return -EPROTO;
		}
		seq += s->len;
	}
	return 0;
}

static int measure(struct micro *m, const struct stream *s)
{
	struct kv_tuple client = tuple(CLIENT_SIDE, MICRO_PORT, CLIENT_ADDR, CLIENT_PORT);
	struct kv_tuple up = tuple(BACKEND_SIDE, UPSTREAM_PORT, BACKEND_ADDR, MICRO_PORT);
	int fd = bpf_program__fd(m->skel->progs.kv_ingress);
	struct micro_clock before, after;
	double from = micro_now();
	struct segment segment;
	int err;

	make_segment(&segment, s->from_client ? &client : &up, s->len);
	if (s->payload)
		memcpy(segment.payload, s->payload, s->len);
	err = micro_clock_read(fd, &before);
	while (!err && micro_now() - from < m->seconds) {
		/* anew, or it would get further ahead of what the client has acknowledged */
		err = lend(m->skel, &client, &up, s->head);
		if (!err)
			err = send_batch(fd, &segment, s);
	}
	if (!err)
		err = micro_clock_read(fd, &after);
	if (!err)
		micro_add(m, s->name, (double)(after.ns - before.ns) / (after.runs - before.runs));
	return err;
}

int micro_packet(struct micro *m)
{
	static const char sized[] = "HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n";
	static const char chunked[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
	char event[4 + 200 + 2];
	const struct stream streams[] = {
		{"packet_to_client_body_ns", sized, NULL, 1448, false},
		{"packet_to_client_event_ns", chunked, event, sizeof(event), false},
		{"packet_to_backend_body_ns", sized, NULL, 1448, true},
		{"packet_to_backend_ack_ns", sized, NULL, 0, true},
	};
	int err = 0;

	memcpy(event, "c8\r\n", 4);
	memset(event + 4, 'x', 200);
	memcpy(event + 204, "\r\n", 2);
	for (size_t i = 0; !err && i < sizeof(streams) / sizeof(*streams); i++)
		err = measure(m, &streams[i]);
	return err;
}
