// SPDX-License-Identifier: BSD-2-Clause
/* The agent lane: the test is the agent, relays a response, and sees it lent in mid-flight. */
#include "relay.h"

/* Who passes the status on tells what came of it. */
static void test_lent_before_status(void)
{
	static const char rest[] = "00 X\r\nContent-Length: 0\r\n\r\n";

	relay(1);
	comes_home("HTTP/1.1 5", 10);
	agent_writes("HTTP/1.1 5", 10);
	flow_pair(0);
	flow.c.tsval_sent = 0;
	BACKEND_SAYS(0, rest, LEN(rest));
	COUNTED(N(lends_midflight, 1), N(unlearned, 1), TO_CLIENT_N(1, LEN(rest)));
	CHECK_EQ(gw.backends[BACKEND].answers, 1);
	CHECK_EQ(gw.backends[BACKEND].errors, 1);
	RETURNS(0);
}

/* The agent reads it, the kernel settles it: by its status. */
static void test_refused(void)
{
	static const char *const answers[] = {
		"HTTP/1.1 429 X\r\nContent-Length: 9\r\n\r\n",
		"HTTP/1.1 502 X\r\nContent-Length: 9\r\n\r\n",
		"HTTP/1.1 400 X\r\nContent-Length: 9\r\n\r\n",
	};
	__u64 hash = 0x123;
	struct kv_prefix prefix;

	for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++) {
		relay(1);
		comes_home(answers[i], strlen(answers[i]));
		LOAD(1, 0);
		CHECK(!gw_prefix(hash, &prefix));
		CHECK_EQ(gw.backends[BACKEND].answers, 0); /* the agent counts */
		COUNTED(N(unlearned, 1));
	}
}

static void test_lent_in_flight(void)
{
	relay(1);
	comes_home(HEAD100 TEN, LEN(HEAD100) + 10);
	LOAD(1, 0);
	COUNTED();
	agent_writes(HEAD100 TEN, LEN(HEAD100) + 10);
	flow_pair(0);
	flow.c.tsval_sent = 0;
	BACKEND_SAYS(0, TEN TEN TEN, 30);
	COUNTED(N(lends_midflight, 1), TO_CLIENT_N(1, 30));
	CHECK_EQ(client_entry().state, KV_CLIENT_LENT);
	CHECK_EQ(client_entry().hold, 0); /* it is the agent's no longer */
	CHECK_EQ(slot(0)->state, KV_UP_LENT);
	CHECK_EQ(gw.backends[BACKEND].answers, 0); /* the agent has seen it */
	CLIENT_ACKS(0);
	for (int i = 0; i < 6; i++)
		BACKEND_SAYS(0, TEN, 10);
	CHECK_EQ(client_entry().state, KV_CLIENT_LENT);
	CLIENT_ACKS(0);
	COUNTED(TO_CLIENT_N(6, 60), TO_BACKEND_N(2, 0), N(returns, 1));
	POOLED(0);
	ASK(0, GET, LEN(GET));
	COUNTED(LENT(LEN(GET)));
}

/* The last segment lends, and the client's ack of it returns. */
static void test_lent_at_the_end(void)
{
	relay(1);
	comes_home(ANSWER, LEN(ANSWER) - 2);
	agent_writes(ANSWER, LEN(ANSWER) - 2);
	flow_pair(0);
	BACKEND_SAYS(0, "lo", 2);
	COUNTED(N(lends_midflight, 1), TO_CLIENT_N(1, 2));
	CLIENT_ACKS(0);
	COUNTED(TO_BACKEND_N(1, 0), N(returns, 1));
	POOLED(0);
}

/* As long as the agent or a home socket holds a byte, the response goes on by the agent. */
static void test_held_bytes(void)
{
	struct packet p;
	char byte;

	/* read and not written */
	relay(1);
	comes_home(HEAD100, LEN(HEAD100));
	comes_home(TEN, 10);
	agent_writes(HEAD100, LEN(HEAD100));
	comes_home(TEN, 10);
	agent_writes(TEN TEN, 20);
	/* come and not read */
	NEED(write(flow.u[0].far, TEN, 10) == 10);
	flow.u[0].seq += 10;
	p = segment(&flow.u[0], PSH, TEN, 10);
	send_from(&flow.u[0], &p);
	CHECK_EQ(gw.verdict, VERDICT_OK);
	/* the client has said more */
	relay(1);
	comes_home(HEAD100, LEN(HEAD100));
	agent_writes(HEAD100, LEN(HEAD100));
	NEED(write(flow.c.far, "x", 1) == 1);
	comes_home(TEN, 10);
	NEED(read(flow.c.home, &byte, 1) == 1);
	flow.c.seq++;
	/* the client has not acknowledged */
	peer_deafen(&flow.c);
	agent_writes(TEN, 10);
	comes_home(TEN, 10);
	CHECK_EQ(client_entry().state, KV_CLIENT_AGENT);
	COUNTED();
}

/* The agent adds a field to the final head: as long as the client has not got it, no head and no
 * part of one passes without it. Positions are right behind it; what is told of the response's
 * length, and what is taken for an earlier one's, goes by the backend's bytes. */
static void test_field_added(void)
{
	static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n",
			  status[] = "HTTP/1.1 200 OK\r\n", rest[] = "Content-Length: 30\r\n\r\n",
			  field[] = "KV-Steer: x\r\n";
	const __u32 relayed = LEN(interim) + LEN(status) + LEN(rest);
	struct packet p;

	relay_with(1, LEN(field));
	comes_home(interim, LEN(interim));
	agent_writes(interim, LEN(interim));
	comes_home(status, 9);
	agent_writes(status, 9);
	comes_home(status + 9, LEN(status) - 9);
	agent_writes(status + 9, LEN(status) - 9);
	comes_home(rest, LEN(rest));
	CHECK_EQ(client_entry().state, KV_CLIENT_AGENT);
	agent_writes(field, LEN(field) - 1); /* in two */
	comes_home(TEN, 10);
	agent_writes(field + LEN(field) - 1, 1);
	agent_writes(rest, LEN(rest));
	CHECK_EQ(client_entry().state, KV_CLIENT_AGENT);
	agent_writes(TEN, 10);
	flow_pair(0);
	flow.c.tsval_sent = 0;
	BACKEND_SAYS(0, TEN, 10);
	COUNTED(N(lends_midflight, 1), TO_CLIENT_N(1, 10));
	CHECK_EQ(client_entry().pair.relayed, relayed + 10);
	/* once more from its first byte; and from the one before that */
	p = segment(&flow.u[0], PSH, interim, LEN(interim));
	p.seq -= relayed + 20;
	send_from(&flow.u[0], &p);
	COUNTED(TO_CLIENT_N(1, LEN(interim)));
	p.seq--;
	send_from(&flow.u[0], &p);
	DROPPED();
	COUNTED(N(drop_stale, 1));
	BACKEND_SAYS(0, TEN, 10);
	COUNTED(TO_CLIENT_N(1, 10));
	RETURNS(0);
	ASK(0, GET, LEN(GET));
	COUNTED(LENT(LEN(GET)));
}

/* A segment is on its way to the home socket, which does not know it yet, when its duplicate comes:
 * that goes the same way, or the agent would relay bytes that the client has. */
static void test_duplicate(void)
{
	struct packet p;

	relay(1);
	comes_home(HEAD100, LEN(HEAD100));
	p = segment(&flow.u[0], PSH, TEN, 10);
	send_from(&flow.u[0], &p); /* the agent still holds the head */
	CHECK_EQ(gw.verdict, VERDICT_OK);
	agent_writes(HEAD100, LEN(HEAD100));
	flow_pair(0);
	send_from(&flow.u[0], &p);
	CHECK_EQ(gw.verdict, VERDICT_OK);
	CHECK_EQ(client_entry().state, KV_CLIENT_AGENT);
	CHECK_EQ(slot(0)->state, KV_UP_RELAY);
	COUNTED();
	/* what follows it lends again */
	pass(flow.u[0].far, flow.u[0].home, TEN, 10);
	flow.u[0].seq += 10;
	agent_writes(TEN, 10);
	flow_pair(0);
	flow.c.tsval_sent = 0;
	BACKEND_SAYS(0, TEN, 10);
	COUNTED(N(lends_midflight, 1), TO_CLIENT_N(1, 10));
}

/* The whole response by the agent; the kernel settles what was charged. */
static void test_relayed_whole(void)
{
	struct packet p;

	relay(1);
	comes_home(ANSWER, 20);
	LOAD(1, 300);
	comes_home(ANSWER + 20, LEN(ANSWER) - 21);
	LOAD(1, 0); /* a byte of the body */
	comes_home(ANSWER + LEN(ANSWER) - 1, 1);
	LOAD(0, 0);
	/* out of its place: framing must see every byte */
	relay(1);
	p = segment(&flow.u[0], PSH, ANSWER + 9, LEN(ANSWER) - 9);
	p.seq += 9;
	send_from(&flow.u[0], &p);
	DROPPED();
	comes_home(ANSWER, 9);
	p.seq++;
	send_from(&flow.u[0], &p);
	DROPPED();
	COUNTED(N(drop_out_of_order, 2));
	/* not offered: the agent settles */
	relay(0);
	comes_home(HEAD100, LEN(HEAD100));
	agent_writes(HEAD100, LEN(HEAD100));
	comes_home(TEN, 10);
	CHECK_EQ(client_entry().state, KV_CLIENT_AGENT);
	LOAD(1, 300);
	agent_call(KV_CALL_SETTLE_ANSWERED);
	LOAD(1, 0);
	agent_call(KV_CALL_SETTLE_FINISHED);
	LOAD(0, 0);
	agent_call(KV_CALL_SETTLE_FAILED);
	LOAD(0, 0);
	COUNTED();
}

/* A decision that came to nothing, and one that failed. */
static void test_taken_back(void)
{
	__u64 hash = 0x123;
	struct kv_prefix prefix;

	for (int k = 0; k < 3; k++) {
		flow_begin();
		decide();
		LOAD(1, 300);
		CHECK(gw_prefix(hash, &prefix));
		CHECK(prefix.holder[0]);
		gw.dispatches[SLOT(0)] = gw.call->dispatch;
		agent_call(k == 0   ? KV_CALL_UNDO
			   : k == 1 ? KV_CALL_SETTLE_FAILED
				    : KV_CALL_SETTLE_REFUSED);
		/* One that is refused is over when its response is. */
		LOAD(k == 2, 0);
		agent_call(KV_CALL_SETTLE_FINISHED);
		CHECK(!gw_prefix(hash, &prefix));
		COUNTED(N(decisions, 1), N(prefix_inserted, 1), N(unlearned, 1));
	}
	flow_begin();
	gw.backends[BACKEND].state = KV_BACKEND_DOWN;
	memset(gw.call, 0, sizeof(*gw.call));
	gw.call->dispatch.query.service = SERVICE;
	gw.call->dispatch.query.exclude = KV_NONE;
	agent_call(KV_CALL_DECIDE);
	CHECK_EQ(gw.call->choice.backend, KV_NONE);
	LOAD(0, 0);
	COUNTED();
}

int main(void)
{
	static const struct prog_test tests[] = {
		{"lent before its status", test_lent_before_status},
		{"a refusal teaches nothing", test_refused},
		{"lent in mid-flight", test_lent_in_flight},
		{"lent at its last segment", test_lent_at_the_end},
		{"bytes are held on the way", test_held_bytes},
		{"a field is added", test_field_added},
		{"a duplicate of what the home socket gets", test_duplicate},
		{"relayed whole", test_relayed_whole},
		{"decisions taken back", test_taken_back},
	};

	return TALK_MAIN(tests);
}
