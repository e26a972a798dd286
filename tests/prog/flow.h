/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One client, one backend with two idle upstreams, and what they say to each other. Whatever is
 * said is followed on both wires, so that each side's next position is known.
 */
#ifndef KVSTEER_TESTS_FLOW_H
#define KVSTEER_TESTS_FLOW_H

#include <kvsteer/seq.h>

#include "gateway.h"
#include "homes.h"

#define SERVICE 2
#define BACKEND 1
#define SLOT(i) (BACKEND * UPSTREAMS + 1 + 2 * (i))
#define BIT(i) (1ull << (1 + 2 * (i)))
#define WINDOW 501
#define NEAR_WRAP 0xfffffff9u /* seven bytes before 2^32 */

static struct {
	int family;
	bool wrapped;	/* all wire positions begin just below 2^32 */
	bool local;	/* client and backend are on this host */
	bool engine;	/* the backend alone is */
	int mss;	/* that the client announces, 0: its path's */
	bool uploading; /* the request has not passed whole */
	struct peer c;
	struct peer u[2];
} flow;

/* ---- the world ----------------------------------------------------------------------- */

static inline void flow_service(void)
{
	struct kv_service *s = &gw.services[SERVICE];
	__u32 id = SERVICE;
	struct kv_listen at = {.port = flow.c.key.local_port};

	memcpy(at.addr, flow.c.key.local, 16);
	s->flags = KV_SERVICE_UP;
	s->policy = KV_POLICY_PRICE;
	s->body_limit = 100000;
	s->n_backends = 1;
	s->backends[0] = BACKEND;
	NEED(!bpf_map_update_elem(bpf_map__fd(gw.skel->maps.kv_service_ids), &at, &id, BPF_ANY));
}

static inline void flow_backend(void)
{
	struct kv_backend *b = &gw.backends[BACKEND];

	b->state = KV_BACKEND_UP;
	b->service = SERVICE;
	b->epoch = 1;
	b->capacity = 100000;
	b->rate = 1000;
	b->ifindex = LOCAL_IFINDEX;
	b->path = flow.local || flow.engine ? KV_PATH_LOCAL : 0;
}

static inline void flow_upstream(int i)
{
	struct kv_upstream *u = &gw.upstreams[SLOT(i)];
	struct peer *p = &flow.u[i];
	__u32 slot = SLOT(i);

	u->backend = BACKEND;
	u->gen = 70 + i;
	u->key = p->key;
	u->state = KV_UP_IDLE;
	if (flow.wrapped) {
		u->rx_bypass = NEAR_WRAP - p->seq;
		u->tx_bypass = NEAR_WRAP - p->ack;
		p->seq = p->ack = NEAR_WRAP;
	}
	NEED(!bpf_map_update_elem(bpf_map__fd(gw.skel->maps.kv_upstream_ids), &p->key, &slot,
				  BPF_ANY));
	gw.backends[BACKEND].idle[0] |= BIT(i);
}

/* An entry of an earlier request. */
static inline void flow_client(__u32 rx_bypass, __u32 tx_bypass)
{
	struct kv_client c = {
		.key = flow.c.key,
		.rx_bypass = rx_bypass,
		.tx_bypass = tx_bypass,
		.ifindex = LOCAL_IFINDEX,
		.service = SERVICE,
	};

	flow.c.seq += rx_bypass;
	flow.c.ack += tx_bypass;
	gw_client_set(&c.key, &c);
}

static inline void flow_end(void)
{
	peer_close(&flow.c);
	peer_close(&flow.u[0]);
	peer_close(&flow.u[1]);
	flow.uploading = false;
	gw_reset();
}

static inline void flow_begin(void)
{
	flow_end();
	peer_client(&flow.c, flow.family, flow.mss);
	flow_service();
	flow_backend();
	for (int i = 0; i < 2; i++) {
		peer_backend(&flow.u[i], flow.family, GATEWAY_HOST);
		flow_upstream(i);
	}
	if (flow.wrapped)
		flow_client(NEAR_WRAP - flow.c.seq, NEAR_WRAP - flow.c.ack);
}

/* ---- segments ------------------------------------------------------------------------ */

/* What this side would send next. */
static inline struct packet segment(struct peer *from, __u8 flags, const void *data, __u32 len)
{
	struct packet p = {
		.seq = from->seq,
		.ack = from->ack,
		.flags = flags | ACK,
		.window = WINDOW,
		.timestamps = from->timestamps,
		.tsval = from->tsval,
		.tsecr = from->tsecr,
		.data = data,
		.len = len,
	};

	memcpy(p.path.local, from->key.peer, 16);
	memcpy(p.path.peer, from->key.local, 16);
	p.path.local_port = from->key.peer_port;
	p.path.peer_port = from->key.local_port;
	return p;
}

/* What its home socket would. */
static inline struct packet home_segment(const struct peer *of, __u8 flags, __u32 seq, __u32 ack)
{
	return (struct packet){
		.path = of->key,
		.seq = seq,
		.ack = ack,
		.flags = flags | ACK,
		.window = WINDOW,
		.timestamps = of->timestamps,
		.tsval = 77,
		.tsecr = 78,
	};
}

static inline void send_from(struct peer *from, const struct packet *p)
{
	gw_ingress(p);
	from->tsval = p->tsval + 3;
	if (gw.verdict != VERDICT_DROP)
		from->tsval_sent = p->tsval;
}

static inline void flow_pair(int i)
{
	flow.c.base_seq = flow.c.seq;
	flow.c.base_ack = flow.c.ack;
	flow.u[i].base_seq = flow.u[i].seq;
	flow.u[i].base_ack = flow.u[i].ack;
}

/* The last packet has been sent to this side. Between two ends on this host it just goes on: it has
 * come by lo, where it is to go. */
static inline bool reached(const struct peer *to)
{
	return gw.verdict == (flow.local ? VERDICT_OK : VERDICT_SENT) &&
	       !memcmp(&gw.out.path, &to->key, sizeof(to->key));
}

/* ---- what the other side gets -------------------------------------------------------- */

struct spliced {
	const struct peer *from, *to;
	const struct packet *in;
	__u32 keep; /* bytes of its payload */
	__u8 flags;
	bool idle; /* the client is not uploading */
};

static inline __u32 spliced_window(const struct spliced *s)
{
	__u32 w = (__u32)s->in->window << s->from->snd_wscale >> s->to->rcv_wscale;
	__u32 most = s->idle ? KV_WINDOW_IDLE >> s->to->rcv_wscale : 65535;

	if (most > 65535)
		most = 65535;
	return w < most ? w : most;
}

/* Our clock with the home socket's offset, and an echo of the latest that side has sent: or of
 * the latest that was not dropped. */
static inline void check_timestamps(const char *file, int line, const struct spliced *s)
{
	__u32 ago = home_clock(s->to->home) - gw.out.tsval, now = home_clock(s->to->far);
	__u32 from = s->to->tsval_sent ?: now - 10000, to = s->to->tsval_sent ? s->to->tsval : now;

	if (ago > 1000 && check_fail(file, line))
		printf("TSval is %u ms ago\n", ago);
	if (gw.out.tsecr - from > to - from && check_fail(file, line))
		printf("TSecr is %u, expected %u to %u\n", gw.out.tsecr, from, to);
}

static inline void check_spliced(const char *file, int line, const struct spliced *s)
{
	const struct peer *from = s->from, *to = s->to;
	const struct packet *in = s->in, *out = &gw.out;
	__u32 seq = to->base_ack - from->base_seq, ack = to->base_seq - from->base_ack;

#define SAME(what, a, b)                                                                           \
	do {                                                                                       \
		if ((a) != (b) && check_fail(file, line))                                          \
			printf("%s: %u, expected %u\n", what, (__u32)(a), (__u32)(b));             \
	} while (0)
	SAME("verdict", gw.verdict, flow.local ? VERDICT_OK : VERDICT_SENT);
	SAME("addresses differ", memcmp(&out->path, &to->key, sizeof(out->path)), 0);
	SAME("seq", out->seq, in->seq + seq);
	SAME("ack", out->ack, in->ack + ack);
	SAME("window", out->window, spliced_window(s));
	SAME("flags", out->flags, s->flags);
	SAME("ECN", out->tos, in->tos & ~3);
	SAME("SACK blocks", out->n_sack, in->n_sack);
	for (__u32 i = 0; i < 2 * in->n_sack; i++)
		SAME("SACK edge", out->sack[i], in->sack[i] + ack);
	SAME("length", out->len, s->keep);
	SAME("payload differs",
	     s->keep && out->len == s->keep && memcmp(out->data, in->data, s->keep), 0);
	SAME("timestamps", out->timestamps, in->timestamps);
	SAME("addresses of lo", out->loopback, in->loopback || (flow.engine && to != &flow.c));
#undef SAME
	if (in->timestamps)
		check_timestamps(file, line, s);
}

#define SPLICED(...) check_spliced(__FILE__, __LINE__, &(struct spliced){__VA_ARGS__})
/* The last packet came out whole at the other side. */
#define TO_BACKEND(i, p) SPLICED(&flow.c, &flow.u[i], p, (p)->len, (p)->flags, false)
#define TO_CLIENT(i, p) SPLICED(&flow.u[i], &flow.c, p, (p)->len, (p)->flags & ~FIN, true)

#define DROPPED()                                                                                  \
	do {                                                                                       \
		CHECK_EQ(gw.verdict, VERDICT_DROP);                                                \
	} while (0)
/* It goes to the home socket as it came. */
#define UNTOUCHED()                                                                                \
	do {                                                                                       \
		CHECK_EQ(gw.verdict, VERDICT_OK);                                                  \
		CHECK(!gw.touched);                                                                \
	} while (0)

/* ---- state --------------------------------------------------------------------------- */

static inline struct kv_client client_entry(void)
{
	struct kv_client c = {.state = KV_NONE};

	gw_client(&flow.c.key, &c);
	return c;
}

static inline struct kv_upstream *slot(int i)
{
	return &gw.upstreams[SLOT(i)];
}

/* What is charged to the backend. */
static inline void check_load(const char *file, int line, __u64 requests, __u64 tokens)
{
	const struct kv_backend *b = &gw.backends[BACKEND];

	if ((b->inflight_requests != requests || b->inflight_tokens != tokens) &&
	    check_fail(file, line))
		printf("%llu requests, %llu tokens in flight; expected %llu, %llu\n",
		       b->inflight_requests, b->inflight_tokens, requests, tokens);
}

#define LOAD(requests, tokens) check_load(__FILE__, __LINE__, requests, tokens)

/* Home's position and bypass make the wire's, in all four directions. */
static inline void check_bypasses(const char *file, int line, int i)
{
	struct kv_client c = client_entry();
	const struct peer *p = &flow.c, *u = &flow.u[i];

	if ((home_rcv_nxt(p->home) + c.rx_bypass != p->seq ||
	     home_write_seq(p->home) + c.tx_bypass != p->ack ||
	     home_rcv_nxt(u->home) + slot(i)->rx_bypass != u->seq ||
	     home_write_seq(u->home) + slot(i)->tx_bypass != u->ack) &&
	    check_fail(file, line))
		printf("bypasses: client rx %u tx %u, upstream rx %u tx %u\n", c.rx_bypass,
		       c.tx_bypass, slot(i)->rx_bypass, slot(i)->tx_bypass);
}

#define BYPASSES(i) check_bypasses(__FILE__, __LINE__, i)

/* The pair on upstream i is over, and that is in its pool again. */
#define POOLED(i)                                                                                  \
	do {                                                                                       \
		CHECK_EQ(client_entry().state, KV_CLIENT_HOME);                                    \
		CHECK_EQ(slot(i)->state, KV_UP_IDLE);                                              \
		CHECK(gw.backends[BACKEND].idle[0] & BIT(i));                                      \
		BYPASSES(i);                                                                       \
		LOAD(0, 0);                                                                        \
		NO_EVENT();                                                                        \
	} while (0)

/* … and that is the agent's to close. */
#define DONE(i, kind, client_state)                                                                \
	do {                                                                                       \
		CHECK_EQ(client_entry().state, client_state);                                      \
		CHECK_EQ(slot(i)->state, KV_UP_DONE);                                              \
		CHECK(!(gw.backends[BACKEND].idle[0] & BIT(i)));                                   \
		LOAD(0, 0);                                                                        \
		EVENT(kind, SLOT(i), &flow.c.key);                                                 \
	} while (0)

/* kv_agent_call, about the first upstream's dispatch. */
static inline void agent_call(__u32 op)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts);

	gw.call->op = op;
	gw.call->slot = SLOT(0);
	NEED(!bpf_prog_test_run_opts(bpf_program__fd(gw.skel->progs.kv_agent_call), &opts));
	CHECK_EQ(opts.retval, 0);
}

/* What is to be decided by it: a prompt with two rungs. */
static inline void agent_prompt(void)
{
	memset(gw.call, 0, sizeof(*gw.call));
	gw.call->dispatch.query = (struct kv_query){
		.service = SERVICE,
		.exclude = KV_NONE,
		.total = 300,
		.n_rungs = 2,
		.rungs = {{.hash = 0xabc, .depth = 100}, {.hash = 0xdef, .depth = 200}},
	};
}

#endif /* KVSTEER_TESTS_FLOW_H */
