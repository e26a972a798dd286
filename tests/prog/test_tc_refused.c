// SPDX-License-Identifier: BSD-2-Clause
/* The express lane: which requests are left to the agent, and what is counted for each. */
#include <linux/sockios.h>

#include "talk.h"

static void refuse(const char *text, __u32 len)
{
	struct packet p = segment(&flow.c, PSH, text, len);
	__u64 idle = gw.backends[BACKEND].idle[0];
	struct kv_client c;

	send_from(&flow.c, &p);
	c = client_entry();
	CHECK_EQ(gw.verdict, VERDICT_OK);
	CHECK_EQ(gw.touched, flow.wrapped);
	if (flow.wrapped) {
		CHECK_EQ(gw.out.seq, p.seq - c.rx_bypass);
		CHECK_EQ(gw.out.ack, p.ack - c.tx_bypass);
	}
	CHECK(c.state != KV_CLIENT_LENT);
	LOAD(0, 0);
	for (int i = 0; i < 2; i++)
		if (slot(i)->state != KV_UP_DONE) {
			CHECK_EQ(slot(i)->state, KV_UP_IDLE);
			CHECK_EQ(gw.backends[BACKEND].idle[0] & BIT(i), idle & BIT(i));
		}
}

/* As if what was handed to the home socket had never been. */
static void unhand(void)
{
	struct kv_client c = client_entry();

	CHECK(c.handed);
	c.handed = 0;
	gw_client_set(&c.key, &c);
}

#define REFUSED(text, why)                                                                         \
	do {                                                                                       \
		refuse(text, LEN(text));                                                           \
		COUNTED(N(why, 1));                                                                \
	} while (0)

static void test_refused_by_head(void)
{
	static const char large[] = POST_HEAD HINT "Content-Length: 100001\r\n\r\n";
	struct packet p;

	flow_begin();
	REFUSED(POST_HEAD "Content-Length: 4\r\n\r\nbody", agent_no_hint);
	REFUSED(POST_HEAD "KV-Prefix: 9\r\nContent-Length: 4\r\n\r\nbody", agent_no_hint);
	REFUSED("GET / HTTP/1.1\r\nHo", agent_head_split);
	REFUSED("G", agent_head_split);
	REFUSED("GET / HTTP/1.0\r\n\r\n", agent_head_odd);
	REFUSED(POST_HEAD "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", agent_head_odd);
	REFUSED("\x16\x03\x01\x02\x00\x01", agent_head_odd);
	REFUSED(GET GET, agent_pipelined);
	REFUSED(GET "x", agent_pipelined);
	REFUSED(large, agent_too_large);
	gw.services[SERVICE].body_limit = 100001;
	unhand();
	ASK(0, large, LEN(large));

	/* whole in the packet, but not in one segment of the wire */
	flow_begin();
	p = segment(&flow.c, PSH, GET, LEN(GET));
	gw_ingress_gso(&p, LEN(GET) - 1);
	CHECK_EQ(gw.verdict, VERDICT_OK);
	COUNTED(N(agent_head_split, 1));
	unhand();
	gw_ingress_gso(&p, LEN(GET));
	CHECK(reached(&flow.u[0]));
	COUNTED(LENT(LEN(GET)));
}

static void test_refused_by_state(void)
{
	flow_begin();
	gw.services[SERVICE].flags |= KV_SERVICE_DRAINING;
	REFUSED(GET, agent_draining);
	gw.services[SERVICE].flags = KV_SERVICE_UP;
	gw.backends[BACKEND].state = KV_BACKEND_DRAINING;
	REFUSED(GET, agent_no_backend);
	gw.backends[BACKEND].state = KV_BACKEND_UP;
	gw.backends[BACKEND].idle[0] = 0;
	refuse(GET, LEN(GET));
	COUNTED(N(agent_no_upstream, 1));
	/* both closed: none is left */
	gw.backends[BACKEND].idle[0] = BIT(0) | BIT(1);
	shutdown(flow.u[0].far, SHUT_WR);
	shutdown(flow.u[1].far, SHUT_WR);
	refuse(GET, LEN(GET));
	COUNTED(N(agent_no_upstream, 1), N(upstream_stale, 2));
	CHECK_EQ(gw_events(), 2);
}

/* A request and its duplicate, on two CPUs at once. The first is on its way to the home socket,
 * which does not know it yet; or it has been lent, and even returned, since the second was looked
 * at. No one request is answered twice. */
static void test_duplicate(void)
{
	struct kv_client c;

	flow_begin();
	gw.backends[BACKEND].idle[0] = 0;
	REFUSED(GET, agent_no_upstream);
	gw.backends[BACKEND].idle[0] = BIT(0) | BIT(1);
	refuse(GET, LEN(GET));
	COUNTED(N(lend_raced, 1), N(decisions, 1));
	refuse(GET GET, LEN(GET GET)); /* coalesced with the next */
	COUNTED(N(agent_pipelined, 1));
	/* the agent is done with it, and no home socket would take these bytes again */
	c = client_entry();
	CHECK_EQ(c.handed, flow.c.seq + LEN(GET GET));
	/* what is lent starts the count anew */
	c.handed = flow.c.seq;
	gw_client_set(&c.key, &c);
	ASK(0, GET, LEN(GET));
	COUNTED(LENT(LEN(GET)));
	CHECK_EQ(client_entry().handed, 0);

	/* a position from far ahead keeps nothing from being lent later */
	flow_begin();
	gw.backends[BACKEND].idle[0] = 0;
	REFUSED(GET, agent_no_upstream);
	c = client_entry();
	c.state = KV_CLIENT_AGENT;
	c.handed = flow.c.seq;
	gw_client_set(&c.key, &c);
	flow.c.seq += 1u << 30;
	refuse(GET, LEN(GET));
	flow.c.seq -= 1u << 30;
	CHECK_EQ(client_entry().handed, flow.c.seq);
}

/* What belongs to no connection takes no place in the table. */
static void test_nobody(void)
{
	struct kv_tuple key;
	struct kv_client c;
	struct packet p;

	flow_begin();
	p = segment(&flow.c, PSH, GET, LEN(GET));
	p.path.local_port ^= htons(1);
	key = flow.c.key;
	key.peer_port = p.path.local_port;
	gw_ingress(&p);
	CHECK_EQ(gw.verdict, VERDICT_OK);
	CHECK(!gw.touched);
	CHECK(!gw_client(&key, &c));
	COUNTED();
}

static void test_clients_full(void)
{
	struct kv_client c = {};

	flow_begin();
	if (flow.wrapped)
		return; /* it has an entry already */
	for (__u32 i = 0; i < CLIENTS; i++) {
		c.key.peer_port = i + 1;
		gw_client_set(&c.key, &c);
	}
	REFUSED(GET, agent_clients_full);
}

/* Other upstreams in place of the two. */
static void reconnect(int family, int host)
{
	for (int i = 0; i < 2; i++) {
		peer_close(&flow.u[i]);
		peer_backend(&flow.u[i], family, host);
		memset(slot(i), 0, sizeof(*slot(i)));
		flow_upstream(i);
	}
}

static void test_options_mismatch(void)
{
	static const char *const options[] = {"tcp_timestamps", "tcp_sack"};

	for (int k = 0; k < 2; k++) {
		flow_begin();
		home_sysctl(options[k], "0");
		reconnect(flow.family, GATEWAY_HOST);
		home_sysctl(options[k], "1");
		REFUSED(GET, agent_options);
	}
}

static void test_family_mismatch(void)
{
	flow_begin();
	reconnect(flow.family == AF_INET ? AF_INET6 : AF_INET, GATEWAY_HOST);
	REFUSED(GET, agent_family);
	/* an IPv6 address is one even if it looks like an IPv4-mapped one in its third word */
	flow_begin();
	reconnect(AF_INET6, GATEWAY_HOST | HOST_LIKE_MAPPED);
	if (flow.family == AF_INET6)
		BEGIN(0);
	else
		REFUSED(GET, agent_family);
}

/* On this host, and the engine on another: IPv4 would take none of its answers, IPv6 does. */
static void test_local_client(void)
{
	struct packet p;

	if (!flow.local)
		return;
	flow_begin();
	gw.backends[BACKEND].path = 0;
	if (flow.family == AF_INET) {
		REFUSED(GET, agent_local_client);
		return;
	}
	p = segment(&flow.c, PSH, GET, LEN(GET));
	send_from(&flow.c, &p);
	CHECK_EQ(gw.verdict, VERDICT_SENT);
	COUNTED(LENT(LEN(GET)));
}

/* Its segments fit the backend, but the backend's do not fit the client. */
static void test_mss_mismatch(void)
{
	flow.mss = 536;
	flow_begin();
	flow.mss = 0;
	REFUSED(GET, agent_mss);
}

static void test_busy_home(void)
{
	char *much = calloc(1, 1 << 20);
	__u32 before;
	int unsent;

	flow_begin();
	/* bytes that nobody has read: no beginning of a request, not counted */
	NEED(write(flow.c.far, "x", 1) == 1);
	flow.c.seq++;
	refuse(GET, LEN(GET));
	COUNTED();
	NEED(read(flow.c.home, much, 1) == 1);
	unhand();
	ASK(0, GET, LEN(GET));
	COUNTED(LENT(LEN(GET)));

	/* more to send than the client takes: unsent bytes */
	flow_begin();
	peer_deafen(&flow.c);
	before = home_write_seq(flow.c.home);
	NEED(fcntl(flow.c.home, F_SETFL, O_NONBLOCK) == 0 && much);
	NEED(write(flow.c.home, much, 1 << 20) > 100000);
	NEED(!ioctl(flow.c.home, SIOCOUTQNSD, &unsent));
	CHECK(unsent > 0);
	flow.c.ack += home_write_seq(flow.c.home) - unsent - before;
	refuse(GET, LEN(GET));
	COUNTED(N(agent_home_busy, 1));

	/* an ack that leaves bytes open */
	flow_begin();
	peer_deafen(&flow.c);
	NEED(write(flow.c.home, "hello", 5) == 5);
	flow.c.ack += 4;
	REFUSED(GET, agent_home_busy);
	free(much);
}

static void test_not_next(void)
{
	struct packet p;

	flow_begin();
	p = segment(&flow.c, PSH, GET, LEN(GET));
	p.seq++;
	send_from(&flow.c, &p);
	DROPPED();
	COUNTED(N(drop_hole, 1));
	p.seq -= 2;
	send_from(&flow.c, &p);
	CHECK_EQ(gw.verdict, VERDICT_OK);
	COUNTED();
	p = segment(&flow.c, RST, GET, LEN(GET));
	send_from(&flow.c, &p);
	CHECK_EQ(gw.verdict, VERDICT_OK);
	COUNTED();
	p = segment(&flow.c, SYN, GET, LEN(GET));
	send_from(&flow.c, &p);
	CHECK_EQ(gw.verdict, VERDICT_OK);
	COUNTED();
	/* the agent has a request of it in hand */
	flow_client(0, 0);
	struct kv_client c = client_entry();
	c.state = KV_CLIENT_AGENT;
	gw_client_set(&c.key, &c);
	p = segment(&flow.c, PSH, GET, LEN(GET));
	send_from(&flow.c, &p);
	CHECK_EQ(gw.verdict, VERDICT_OK);
	COUNTED();
	CHECK_EQ(client_entry().state, KV_CLIENT_AGENT);
}

int main(void)
{
	static const struct prog_test tests[] = {
		{"refused by its head", test_refused_by_head},
		{"refused by the state of things", test_refused_by_state},
		{"a duplicate of what the home socket gets", test_duplicate},
		{"a segment of no connection", test_nobody},
		{"refused: client table full", test_clients_full},
		{"refused: options mismatch", test_options_mismatch},
		{"refused: family mismatch", test_family_mismatch},
		{"client on this host, engine on another", test_local_client},
		{"refused: MSS mismatch", test_mss_mismatch},
		{"refused: home busy", test_busy_home},
		{"not the next segment", test_not_next},
	};

	return TALK_MAIN(tests);
}
