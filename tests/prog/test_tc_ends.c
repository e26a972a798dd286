// SPDX-License-Identifier: BSD-2-Clause
/* How pairs end otherwise than well: docs/design.md, section 3, "Ends". */
#include "talk.h"

#define HEAD100 "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"
#define HEAD_CLOSE "HTTP/1.1 200 OK\r\n\r\n"
#define HINTED                                                                                     \
	"POST /v1/completions HTTP/1.1\r\nHost: a\r\n"                                             \
	"KV-Prefix: 1;300,100:0000000000000abc\r\nContent-Length: 4\r\n\r\nbody"

/* The client's entry says that so many bytes of request and response passed by its home socket. */
static void passed(const char *file, int line, __u32 request, __u32 response)
{
	struct kv_client c = client_entry();
	__u32 seq = home_rcv_nxt(flow.c.home) + c.rx_bypass,
	      ack = home_write_seq(flow.c.home) + c.tx_bypass;

	if ((seq != flow.c.base_seq + request || ack != flow.c.base_ack + response) &&
	    check_fail(file, line))
		printf("%u and %u bytes passed, expected %u and %u\n", seq - flow.c.base_seq,
		       ack - flow.c.base_ack, request, response);
}

#define PASSED(request, response) passed(__FILE__, __LINE__, request, response)

static void backend_ends(__u8 flags)
{
	struct packet p = segment(&flow.u[0], flags, NULL, 0);

	send_from(&flow.u[0], &p);
	DROPPED();
}

/* ---- the backend --------------------------------------------------------------------- */

/* It has acknowledged nothing: the client's retransmission goes to another upstream. */
static void forgotten(__u8 flags)
{
	__u64 hash = 0xabc;
	struct kv_prefix prefix;
	struct packet p;

	flow_begin();
	ASK(0, HINTED, LEN(HINTED));
	COUNTED(LENT(LEN(HINTED)), N(hint_prefix, 1), N(prefix_inserted, 1));
	LOAD(1, 300);
	p = segment(&flow.u[0], flags, NULL, 0);
	p.ack -= LEN(HINTED);
	send_from(&flow.u[0], &p);
	DROPPED();
	COUNTED(N(retry_forgotten, 1), N(unlearned, 1));
	DONE(0, KV_EVENT_CLOSE_UPSTREAM, KV_CLIENT_HOME);
	PASSED(0, 0);
	CHECK(!gw_prefix(hash, &prefix));
	flow.c.seq -= LEN(HINTED);
	ASK(1, HINTED, LEN(HINTED));
	COUNTED(LENT(LEN(HINTED)), N(hint_prefix, 1), N(prefix_inserted, 1));
	/* late words of the first one are nobody's */
	p = segment(&flow.u[0], PSH, ANSWER, LEN(ANSWER));
	send_from(&flow.u[0], &p);
	CHECK(!reached(&flow.c));
	BACKEND_SAYS(1, ANSWER, LEN(ANSWER));
	COUNTED(TO_CLIENT_N(1, LEN(ANSWER)));
	CLIENT_ACKS(1);
	COUNTED(TO_BACKEND_N(1, 0), N(returns, 1));
	POOLED(1);
}

static void test_forgotten(void)
{
	forgotten(RST);
	forgotten(FIN);
}

/* It has the request, or a part of it: that cannot be asked again. */
static void test_bad_gateway(void)
{
	for (int k = 0; k < 4; k++) {
		__u32 part = k & 1 ? 5 : 0;
		struct packet p;

		flow_begin();
		BEGIN(0);
		p = segment(&flow.u[0], 0, NULL, 0);
		p.ack -= part;
		send_from(&flow.u[0], &p);
		TO_CLIENT(0, &p);
		COUNTED(TO_CLIENT_N(1, 0));
		p.flags |= k & 2 ? RST : FIN;
		send_from(&flow.u[0], &p);
		DROPPED();
		COUNTED(N(broken_before_response, 1));
		DONE(0, KV_EVENT_BAD_GATEWAY, KV_CLIENT_AGENT);
		PASSED(LEN(GET) - part, 0);
	}
}

static void test_reset_in_response(void)
{
	flow_begin();
	BEGIN(0);
	BACKEND_SAYS(0, HEAD100 "part", LEN(HEAD100) + 4);
	COUNTED(TO_CLIENT_N(1, LEN(HEAD100) + 4));
	backend_ends(RST);
	COUNTED(N(broken_response, 1));
	DONE(0, KV_EVENT_RESET_CLIENT, KV_CLIENT_AGENT);
	PASSED(LEN(GET), LEN(HEAD100) + 4);
	/* what the home socket says now stands where the client waits for it */
	struct packet p =
		home_segment(&flow.c, RST, home_write_seq(flow.c.home), home_rcv_nxt(flow.c.home));
	gw_egress(&p);
	CHECK_EQ(gw.verdict, VERDICT_OK);
	CHECK_EQ(gw.out.seq, flow.c.ack);
	CHECK_EQ(gw.out.ack, flow.c.seq);
}

/* RSTs that are not where the next byte is (RFC 5961), and of an earlier lend. */
/* Bytes that the backend sent before it had any of the request: the end of what an earlier client
 * asked for, or noise. The client asks again, and another connection serves it. */
static void test_answer_to_nothing(void)
{
	struct packet p;

	flow_begin();
	BEGIN(0);
	p = segment(&flow.u[0], PSH, ANSWER, LEN(ANSWER));
	p.ack = flow.u[0].base_ack;
	send_from(&flow.u[0], &p);
	DROPPED();
	COUNTED(N(retry_forgotten, 1));
	DONE(0, KV_EVENT_CLOSE_UPSTREAM, KV_CLIENT_HOME);
	flow.c.seq -= LEN(GET);
	BEGIN(1);
}

/* A client that has sent its next request too early, and then its end. */
static void test_fin_behind_early_request(void)
{
	struct packet p;

	flow_begin();
	BEGIN(0);
	p = segment(&flow.c, PSH, GET, LEN(GET));
	send_from(&flow.c, &p);
	DROPPED();
	p = segment(&flow.c, FIN, NULL, 0);
	p.seq += LEN(GET);
	send_from(&flow.c, &p);
	DROPPED();
	COUNTED(N(drop_early_request, 2));
	CHECK(!(client_entry().pair.seen & KV_SEEN_CLIENT_FIN));
	BACKEND_SAYS(0, ANSWER, LEN(ANSWER));
	COUNTED(TO_CLIENT_N(1, LEN(ANSWER)));
	RETURNS(0);
}

/* The end of a response that ends with its connection. */
static void test_close_delimited(void)
{
	struct packet p;

	flow_begin();
	BEGIN(0);
	BACKEND_SAYS(0, HEAD_CLOSE "text", LEN(HEAD_CLOSE) + 4);
	BACKEND_SAYS(0, " and more", 9);
	CLIENT_ACKS(0);
	COUNTED(TO_CLIENT_N(2, LEN(HEAD_CLOSE) + 13), TO_BACKEND_N(1, 0));
	/* out of its place: bytes are missing */
	p = segment(&flow.u[0], FIN, NULL, 0);
	p.seq += 3;
	send_from(&flow.u[0], &p);
	TO_CLIENT(0, &p);
	CHECK(!(client_entry().pair.seen & KV_SEEN_BACKEND_FIN));
	p = segment(&flow.u[0], FIN | PSH, "end", 3);
	send_from(&flow.u[0], &p);
	TO_CLIENT(0, &p);
	COUNTED(TO_CLIENT_N(2, 3));
	flow.u[0].seq += 3;
	flow.c.ack += 3;
	NO_EVENT();
	CLIENT_ACKS(0);
	COUNTED(TO_BACKEND_N(1, 0), N(returns_closed, 1));
	DONE(0, KV_EVENT_CLOSE_CLIENT, KV_CLIENT_AGENT);
	BYPASSES(0);
}

/* Inside a body of known length: the client sees a short body. */
static void test_fin_in_response(void)
{
	flow_begin();
	BEGIN(0);
	BACKEND_SAYS(0, HEAD100 "part", LEN(HEAD100) + 4);
	COUNTED(TO_CLIENT_N(1, LEN(HEAD100) + 4));
	backend_says(__FILE__, __LINE__, 0, FIN, NULL, 0);
	COUNTED(TO_CLIENT_N(1, 0), N(broken_response, 1));
	NO_EVENT();
	CLIENT_ACKS(0);
	COUNTED(TO_BACKEND_N(1, 0), N(returns_closed, 1));
	DONE(0, KV_EVENT_CLOSE_CLIENT, KV_CLIENT_AGENT);
	BYPASSES(0);
}

/* Behind a whole response: only the upstream is gone. */
static void test_fin_behind_response(void)
{
	flow_begin();
	BEGIN(0);
	backend_says(__FILE__, __LINE__, 0, FIN | PSH, ANSWER, LEN(ANSWER));
	COUNTED(TO_CLIENT_N(1, LEN(ANSWER)));
	CLIENT_ACKS(0);
	COUNTED(TO_BACKEND_N(1, 0), N(returns_closed, 1));
	DONE(0, KV_EVENT_RETURNED_CLOSED, KV_CLIENT_HOME);
	BYPASSES(0);
	ASK(1, GET, LEN(GET));
	COUNTED(LENT(LEN(GET)));
}

/* ---- the client ---------------------------------------------------------------------- */

/* Its FIN is the backend's to see, and after the end its home socket's too. */
static void test_client_fin(void)
{
	struct packet p;

	flow_begin();
	BEGIN(0);
	client_says(__FILE__, __LINE__, 0, FIN, NULL, 0);
	COUNTED(TO_BACKEND_N(1, 0), N(client_half_closed, 1));
	flow.c.seq++;
	flow.u[0].ack++;
	BACKEND_ACKS(0);
	BACKEND_SAYS(0, ANSWER, LEN(ANSWER));
	COUNTED(TO_CLIENT_N(2, LEN(ANSWER)));
	p = segment(&flow.c, 0, NULL, 0);
	send_from(&flow.c, &p);
	CHECK_EQ(gw.verdict, VERDICT_OK);
	CHECK_EQ(gw.out.flags, ACK | FIN);
	CHECK_EQ(gw.out.seq, home_rcv_nxt(flow.c.home));
	CHECK_EQ(gw.out.ack, home_write_seq(flow.c.home));
	COUNTED(N(returns_closed, 1));
	DONE(0, KV_EVENT_CLOSE_CLIENT, KV_CLIENT_AGENT);
	PASSED(LEN(GET), LEN(ANSWER));
	/* the agent closes: the FIN is acknowledged, and the client's next is as it is */
	p = home_segment(&flow.c, FIN, home_write_seq(flow.c.home), home_rcv_nxt(flow.c.home) + 1);
	gw_egress(&p);
	CHECK_EQ(gw.out.seq, flow.c.ack);
	CHECK_EQ(gw.out.ack, flow.c.seq);
}

/* Inside its request: the backend answers that, and closes. */
static void test_client_fin_in_request(void)
{
	static const char head[] = "PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n",
			  bad[] = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
	struct packet p;

	flow_begin();
	flow.uploading = true;
	ASK(0, head, LEN(head));
	COUNTED(LENT(LEN(head)));
	client_says(__FILE__, __LINE__, 0, FIN | PSH, "body", 4);
	COUNTED(TO_BACKEND_N(1, 4), N(client_half_closed, 1));
	flow.c.seq++;
	flow.u[0].ack++;
	backend_says(__FILE__, __LINE__, 0, FIN | PSH, bad, LEN(bad));
	COUNTED(TO_CLIENT_N(1, LEN(bad)));
	p = segment(&flow.c, 0, NULL, 0);
	send_from(&flow.c, &p);
	CHECK_EQ(gw.verdict, VERDICT_OK);
	CHECK_EQ(gw.out.flags, ACK | FIN);
	CHECK_EQ(gw.out.seq, home_rcv_nxt(flow.c.home));
	COUNTED(N(returns_closed, 1));
	DONE(0, KV_EVENT_CLOSE_CLIENT, KV_CLIENT_AGENT);
	PASSED(LEN(head) + 4, LEN(bad));
}

/* The backend answers without the request's rest, and closes: the rest is for the home socket. */
static void test_answer_and_close_in_request(void)
{
	static const char head[] = "PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n",
			  bad[] = "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n";
	struct packet p;

	flow_begin();
	flow.uploading = true;
	ASK(0, head, LEN(head));
	COUNTED(LENT(LEN(head)));
	backend_says(__FILE__, __LINE__, 0, FIN | PSH, bad, LEN(bad));
	COUNTED(TO_CLIENT_N(1, LEN(bad)));
	p = segment(&flow.c, PSH, "body", 4);
	send_from(&flow.c, &p);
	CHECK_EQ(gw.verdict, VERDICT_OK);
	CHECK_EQ(gw.out.seq, home_rcv_nxt(flow.c.home));
	COUNTED(N(returns_closed, 1));
	DONE(0, KV_EVENT_CLOSE_CLIENT, KV_CLIENT_AGENT);
	PASSED(LEN(head), LEN(bad));
}

/* The FIN comes with the last ack: the home socket sees it itself. */
static void test_client_fin_at_end(void)
{
	struct packet p;

	flow_begin();
	BEGIN(0);
	BACKEND_SAYS(0, ANSWER, LEN(ANSWER));
	COUNTED(TO_CLIENT_N(1, LEN(ANSWER)));
	p = segment(&flow.c, FIN, NULL, 0);
	send_from(&flow.c, &p);
	CHECK_EQ(gw.verdict, VERDICT_OK);
	CHECK_EQ(gw.out.flags, ACK | FIN);
	CHECK_EQ(gw.out.seq, home_rcv_nxt(flow.c.home));
	CHECK_EQ(gw.out.ack, home_write_seq(flow.c.home));
	COUNTED(N(returns, 1));
	POOLED(0);
}

static void test_client_reset(void)
{
	for (int k = 0; k < 2; k++) {
		struct packet p;

		flow_begin();
		ASK(0, HINTED, LEN(HINTED));
		COUNTED(LENT(LEN(HINTED)), N(hint_prefix, 1), N(prefix_inserted, 1));
		if (k) {
			BACKEND_SAYS(0, HEAD100 "part", LEN(HEAD100) + 4);
			COUNTED(TO_CLIENT_N(1, LEN(HEAD100) + 4));
		}
		p = segment(&flow.c, RST, NULL, 0);
		send_from(&flow.c, &p);
		CHECK_EQ(gw.verdict, VERDICT_OK);
		CHECK_EQ(gw.out.flags, RST | ACK);
		CHECK_EQ(gw.out.seq, home_rcv_nxt(flow.c.home));
		/* what was to be learned holds once the response has begun */
		COUNTED(N(client_aborted, 1), N(unlearned, !k));
		DONE(0, KV_EVENT_CLIENT_GONE, KV_CLIENT_AGENT);
		PASSED(LEN(HINTED), k ? LEN(HEAD100) + 4 : 0);
	}
}

/* The agent does not read: what does not fit into the ring is counted, and all else is done. */
static void test_events_lost(void)
{
	__u32 most = bpf_map__max_entries(gw.skel->maps.kv_events) / sizeof(struct kv_event);
	__u64 rise[KV_CNT_MAX];
	struct kv_client c;
	struct packet p;

	if (flow.wrapped || flow.engine)
		return; /* nothing new there, and it takes a while */
	flow_begin();
	gw_rise(rise);
	for (__u32 i = 0; i < most; i++) {
		BEGIN(0);
		p = segment(&flow.c, RST, NULL, 0);
		gw_ingress(&p);
		CHECK_EQ(slot(0)->state, KV_UP_DONE);
		c = client_entry();
		CHECK_EQ(c.state, KV_CLIENT_AGENT);
		gw_rise(rise);
		if (rise[KV_CNT_agent_events_lost])
			break;
		/* as the agent would, and both connections anew */
		c.rx_bypass -= LEN(GET);
		c.state = KV_CLIENT_HOME;
		gw_client_set(&c.key, &c);
		flow.c.seq -= LEN(GET);
		flow.u[0].ack -= LEN(GET);
		slot(0)->tx_bypass -= LEN(GET);
		slot(0)->state = KV_UP_IDLE;
		gw.backends[BACKEND].idle[0] |= BIT(0);
	}
	CHECK_EQ(rise[KV_CNT_agent_events_lost], 1);
	CHECK_EQ(rise[KV_CNT_client_aborted], 1);
	LOAD(0, 0);
	CHECK(gw_events() > 1000);
}

/* ---- the head again ------------------------------------------------------------------ */

static void test_head_again(void)
{
	struct packet p;

	flow_begin();
	BEGIN(0);
	p = segment(&flow.c, PSH, GET, LEN(GET));
	p.seq -= LEN(GET);
	send_from(&flow.c, &p);
	TO_BACKEND(0, &p);
	COUNTED(TO_BACKEND_N(1, LEN(GET)));
	/* what the backend has acknowledged it has: other bytes in their place do no harm */
	BACKEND_ACKS(0);
	p.data = "POST";
	p.len = 4;
	send_from(&flow.c, &p);
	TO_BACKEND(0, &p);
	COUNTED(TO_CLIENT_N(1, 0), TO_BACKEND_N(1, 4));
	CHECK_EQ(client_entry().state, KV_CLIENT_LENT);
}

/* Framed differently, and nothing has been acknowledged: as if the first had never been. */
static void test_other_head_fresh(void)
{
	static const char other[] = "PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n";

	flow_begin();
	BEGIN(0);
	flow.c.seq -= LEN(GET);
	ASK(1, other, LEN(other));
	COUNTED(LENT(LEN(other)), N(retry_forgotten, 1));
	CHECK_EQ(slot(0)->state, KV_UP_DONE);
	EVENT(KV_EVENT_CLOSE_UPSTREAM, SLOT(0), &flow.c.key);
	LOAD(1, 0);
}

/* A part of the head, whatever is in it, goes on; but nobody else's request follows on this
 * upstream. */
static void test_part_of_head(void)
{
	const struct {
		__u32 from, len;
	} parts[] = {{0, 5}, {4, 3}, {4, LEN(GET) - 4}};
	struct packet p;

	for (int i = 0; i < 3; i++) {
		flow_begin();
		BEGIN(0);
		p = segment(&flow.c, PSH, "TRACE /b HTTP/1.1\r\nHost: another\r\n", parts[i].len);
		p.seq -= LEN(GET) - parts[i].from;
		send_from(&flow.c, &p);
		TO_BACKEND(0, &p);
		BACKEND_SAYS(0, ANSWER, LEN(ANSWER));
		CLIENT_ACKS(0);
		COUNTED(TO_BACKEND_N(2, parts[i].len), TO_CLIENT_N(1, LEN(ANSWER)),
			N(returns_closed, 1));
		DONE(0, KV_EVENT_RETURNED_CLOSED, KV_CLIENT_HOME);
		PASSED(LEN(GET), LEN(ANSWER));
	}
}

/* The backend has a part of the first: two requests would be made of one. */
static void test_other_head(void)
{
	static const char head[] = "PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n",
			  other[] = "PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\n";
	struct packet p;

	flow_begin();
	flow.uploading = true;
	ASK(0, head, LEN(head));
	COUNTED(LENT(LEN(head)));
	p = segment(&flow.u[0], 0, NULL, 0);
	p.ack -= 10;
	send_from(&flow.u[0], &p);
	SPLICED(&flow.u[0], &flow.c, &p, 0, ACK, false);
	COUNTED(TO_CLIENT_N(1, 0));
	p = segment(&flow.c, PSH, other, LEN(other));
	p.seq -= LEN(other);
	send_from(&flow.c, &p);
	DROPPED();
	COUNTED(N(smuggling_refused, 1));
	DONE(0, KV_EVENT_RESET_CLIENT, KV_CLIENT_AGENT);
	PASSED(LEN(head) - 10, 0);
}

int main(void)
{
	static const struct prog_test tests[] = {
		{"backend ends before any byte", test_forgotten},
		{"backend ends, request acknowledged", test_bad_gateway},
		{"backend resets inside its response", test_reset_in_response},
		{"an answer to nothing", test_answer_to_nothing},
		{"client closes behind a request sent too early", test_fin_behind_early_request},
		{"response that ends with its connection", test_close_delimited},
		{"backend closes inside its response", test_fin_in_response},
		{"backend closes behind its response", test_fin_behind_response},
		{"client closes", test_client_fin},
		{"client closes inside its request", test_client_fin_in_request},
		{"backend answers and closes inside the request", test_answer_and_close_in_request},
		{"client closes with its last ack", test_client_fin_at_end},
		{"client resets", test_client_reset},
		{"the agent does not read its events", test_events_lost},
		{"the same head again", test_head_again},
		{"another head, nothing acknowledged", test_other_head_fresh},
		{"another head", test_other_head},
		{"a part of the head again", test_part_of_head},
	};

	return TALK_MAIN(tests);
}
