/* SPDX-License-Identifier: BSD-2-Clause */
/* The agent lane: the test is the agent, and relays a response. */
#ifndef KVSTEER_TESTS_RELAY_H
#define KVSTEER_TESTS_RELAY_H

#include "talk.h"

#define HEAD100 "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"
#define TEN "0123456789"

/* These bytes really pass from one end to the other. */
static inline void pass(int from, int to, const void *data, __u32 len)
{
	char buf[1000];

	NEED(write(from, data, len) == (ssize_t)len);
	NEED(recv(to, buf, len, MSG_WAITALL) == (ssize_t)len);
}

static inline void decide(void)
{
	memset(gw.call, 0, sizeof(*gw.call));
	gw.call->dispatch.query = (struct kv_query){
		.service = SERVICE,
		.exclude = KV_NONE,
		.total = 300,
		.n_rungs = 1,
		.rungs = {{.hash = 0x123, .depth = 200}},
	};
	agent_call(KV_CALL_DECIDE);
	CHECK_EQ(gw.call->choice.backend, BACKEND);
}

/* A request is decided by the agent, written to upstream 0, and its response offered, to which the
 * agent will add so many bytes. */
static inline void relay_with(__u32 offered, __u32 inserted)
{
	struct kv_upstream *u = slot(0);
	struct kv_client c;

	flow_begin();
	decide();
	COUNTED(N(decisions, 1), N(prefix_inserted, 1));
	LOAD(1, 300);
	c = client_entry();
	c.key = flow.c.key;
	c.state = KV_CLIENT_AGENT;
	c.ifindex = LOCAL_IFINDEX;
	c.path = flow.local ? KV_PATH_LOCAL : 0;
	c.pair.slot = SLOT(0);
	c.pair.gen = ++u->gen;
	c.pair.offered = offered;
	c.pair.inserted = inserted;
	c.hold = 1;
	kv_framing_init(&c.pair.response, false);
	gw.backends[BACKEND].idle[0] &= ~BIT(0);
	u->client = flow.c.key;
	gw.dispatches[SLOT(0)] = gw.call->dispatch;
	u->state = KV_UP_RELAY;
	gw_client_set(&c.key, &c);
	pass(flow.c.far, flow.c.home, GET, LEN(GET));
	flow.c.seq += LEN(GET);
	pass(flow.u[0].home, flow.u[0].far, GET, LEN(GET));
	flow.u[0].ack += LEN(GET);
}

static inline void relay(__u32 offered)
{
	relay_with(offered, 0);
}

/* A segment that the agent is to read: the kernel sees it first, and then it really comes. */
static inline void comes_home(const void *data, __u32 len)
{
	struct packet p = segment(&flow.u[0], PSH, data, len);

	send_from(&flow.u[0], &p);
	CHECK_EQ(gw.verdict, VERDICT_OK);
	CHECK_EQ(gw.out.seq, p.seq - slot(0)->rx_bypass);
	CHECK_EQ(gw.out.ack, p.ack - slot(0)->tx_bypass);
	pass(flow.u[0].far, flow.u[0].home, data, len);
	flow.u[0].seq += len;
}

static inline void agent_writes(const void *data, __u32 len)
{
	NEED(write(flow.c.home, data, len) == (ssize_t)len);
	flow.c.ack += len;
}

#endif
