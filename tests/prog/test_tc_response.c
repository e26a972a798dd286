// SPDX-License-Identifier: BSD-2-Clause
/* Responses of lent pairs, in every order of their segments, and the return of the pair. */
#include "talk.h"

#define HEAD5 "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
#define HEAD100 "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"
#define HEAD_CHUNKED "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

/* A segment of the backend that stands ahead of the next by so many bytes. */
static struct packet backend_ahead(int i, __u32 by, const void *data, __u32 len)
{
	struct packet p = segment(&flow.u[i], PSH, data, len);

	p.seq += by;
	return p;
}

static void test_one_piece(void)
{
	flow_begin();
	BEGIN(0);
	BACKEND_SAYS(0, ANSWER, LEN(ANSWER));
	COUNTED(TO_CLIENT_N(1, LEN(ANSWER)));
	LOAD(1, 0);
	CHECK_EQ(client_entry().state, KV_CLIENT_LENT);
	RETURNS(0);
}

static void test_pieces(void)
{
	flow_begin();
	BEGIN(0);
	for (__u32 i = 0; i < LEN(ANSWER); i++) {
		CHECK_EQ(client_entry().state, KV_CLIENT_LENT);
		BACKEND_SAYS(0, ANSWER + i, 1);
		if (i % 5 == 4)
			CLIENT_ACKS(0);
	}
	COUNTED(TO_CLIENT_N(LEN(ANSWER), LEN(ANSWER)), TO_BACKEND_N(LEN(ANSWER) / 5, 0));
	RETURNS(0);
}

static void answers_with(const char *status, __u64 errors, __u64 busy)
{
	const struct kv_backend *b = &gw.backends[BACKEND];
	char text[100];

	flow_begin();
	BEGIN(0);
	snprintf(text, sizeof(text), "HTTP/1.1 %s X\r\nContent-Length: 5\r\n\r\n", status);
	BACKEND_SAYS(0, text, strlen(text) - 3);
	CLIENT_ACKS(0);
	BACKEND_SAYS(0, text + strlen(text) - 3, 3);
	BACKEND_SAYS(0, "12345", 5);
	COUNTED(TO_CLIENT_N(3, strlen(text) + 5), TO_BACKEND_N(1, 0));
	CHECK_EQ(b->answers, 1);
	CHECK_EQ(b->errors, errors);
	CHECK_EQ(b->busy, busy);
	RETURNS(0);
}

static void test_outcomes(void)
{
	answers_with("200", 0, 0);
	answers_with("404", 0, 0);
	answers_with("429", 0, 1);
	answers_with("500", 1, 0);
	answers_with("501", 0, 0);
	answers_with("502", 1, 0);
	answers_with("503", 0, 1);
	answers_with("505", 0, 0);
}

static void test_chunked(void)
{
	static const char *const parts[] = {
		HEAD_CHUNKED, "5\r\nhel", "lo\r", "\n4;x=y\r\nabcd\r\n0", "\r\nT: 1\r\n", "\r\n",
	};
	__u32 n = sizeof(parts) / sizeof(parts[0]), bytes = 0;

	flow_begin();
	BEGIN(0);
	for (__u32 i = 0; i < n; i++) {
		BACKEND_SAYS(0, parts[i], strlen(parts[i]));
		bytes += strlen(parts[i]);
		if (i < n - 1) {
			CLIENT_ACKS(0);
			CHECK_EQ(client_entry().state, KV_CLIENT_LENT);
		}
	}
	COUNTED(TO_CLIENT_N(n, bytes), TO_BACKEND_N(n - 1, 0));
	RETURNS(0);
}

/* Engines send a stream's head before anything is computed: its queue share stays until the first
 * byte of its body, and the rate is learned from that. */
static void test_head_first(void)
{
	static const char hinted[] = "GET /a HTTP/1.1\r\nHost: a\r\n"
				     "KV-Prefix: 1;300,200:0000000000000abc\r\n\r\n";
	const struct kv_backend *b = &gw.backends[BACKEND];

	flow_begin();
	ASK(0, hinted, LEN(hinted));
	COUNTED(LENT(LEN(hinted)), N(hint_prefix, 1), N(prefix_inserted, 1));
	BACKEND_SAYS(0, HEAD_CHUNKED, LEN(HEAD_CHUNKED));
	CLIENT_ACKS(0);
	CHECK_EQ(b->answers, 1);
	LOAD(1, 300);
	BACKEND_SAYS(0, "1\r\n", 3);
	LOAD(1, 300);
	CHECK_EQ(b->prefill_tokens, 0);
	BACKEND_SAYS(0, "a", 1);
	LOAD(1, 0);
	CHECK_EQ(b->prefill_tokens, 300);
	CHECK(b->prefill_ns > 0);
	CHECK_EQ(b->answers, 1);
	BACKEND_SAYS(0, "\r\n0\r\n\r\n", 7);
	COUNTED(TO_CLIENT_N(4, LEN(HEAD_CHUNKED) + 11), TO_BACKEND_N(1, 0));
	RETURNS(0);

	flow_begin();
	ASK(0, hinted, LEN(hinted));
	COUNTED(LENT(LEN(hinted)), N(hint_prefix, 1), N(prefix_inserted, 1));
	BACKEND_SAYS(0, ANSWER, LEN(ANSWER)); /* whole: it was generated before */
	CHECK_EQ(b->prefill_tokens, 0);
	LOAD(1, 0);
	COUNTED(TO_CLIENT_N(1, LEN(ANSWER)));
	RETURNS(0);
}

static void test_head_request(void)
{
	static const char head[] = "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n";

	flow_begin();
	ASK(0, head, LEN(head));
	COUNTED(LENT(LEN(head)));
	BACKEND_SAYS(0, HEAD100, LEN(HEAD100));
	COUNTED(TO_CLIENT_N(1, LEN(HEAD100)));
	RETURNS(0);
}

static void test_continue(void)
{
	static const char head[] = "PUT /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
				   "Content-Length: 3\r\n\r\n",
			  go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";

	flow_begin();
	flow.uploading = true;
	ASK(0, head, LEN(head));
	COUNTED(LENT(LEN(head)));
	BACKEND_SAYS(0, go_on, LEN(go_on));
	CLIENT_ACKS(0);
	CHECK(!(client_entry().pair.seen & KV_SEEN_ANSWERED));
	flow.uploading = false;
	CLIENT_SAYS(0, "abc", 3);
	BACKEND_SAYS(0, ANSWER, LEN(ANSWER));
	COUNTED(TO_CLIENT_N(2, LEN(go_on) + LEN(ANSWER)), TO_BACKEND_N(2, 3));
	RETURNS(0);
}

/* Where bytes must be seen, those ahead of a hole pass, and are framed when it is filled. */
static void test_hole_in_head(void)
{
	struct packet p;

	flow_begin();
	BEGIN(0);
	p = backend_ahead(0, 10, ANSWER + 10, LEN(ANSWER) - 10);
	send_from(&flow.u[0], &p);
	TO_CLIENT(0, &p);
	COUNTED(TO_CLIENT_N(1, LEN(ANSWER) - 10), N(stashed, 1));
	CHECK(!(client_entry().pair.response.state == KV_FRAMING_DONE));
	BACKEND_SAYS(0, ANSWER, 10);
	CHECK((client_entry().pair.response.state == KV_FRAMING_DONE));
	flow.u[0].seq += LEN(ANSWER) - 10;
	flow.c.ack += LEN(ANSWER) - 10;
	COUNTED(TO_CLIENT_N(1, 10));
	RETURNS(0);
}

/* Inside a body of known length segments pass in any order, but not further than its end. */
static void test_hole_in_body(void)
{
	struct packet p;
	struct kv_client c;
	char body[100];

	for (__u32 i = 0; i < sizeof(body); i++)
		body[i] = i;
	flow_begin();
	BEGIN(0);
	BACKEND_SAYS(0, HEAD100, LEN(HEAD100));
	COUNTED(TO_CLIENT_N(1, LEN(HEAD100)));
	p = backend_ahead(0, 101, "x", 1);
	send_from(&flow.u[0], &p);
	DROPPED();
	COUNTED(N(drop_out_of_order, 1));
	p = backend_ahead(0, 60, body + 60, 40);
	send_from(&flow.u[0], &p);
	TO_CLIENT(0, &p);
	COUNTED(TO_CLIENT_N(1, 40));
	c = client_entry();
	CHECK(kv_framing_done(&c.pair.response));
	CLIENT_ACKS(0);
	CHECK_EQ(client_entry().state, KV_CLIENT_LENT);
	COUNTED(TO_BACKEND_N(1, 0));
	/* the hole is filled, from both ends */
	p = backend_ahead(0, 30, body + 30, 30);
	send_from(&flow.u[0], &p);
	TO_CLIENT(0, &p);
	CLIENT_ACKS(0);
	CHECK_EQ(client_entry().state, KV_CLIENT_LENT);
	BACKEND_SAYS(0, body, 30);
	COUNTED(TO_CLIENT_N(2, 60), TO_BACKEND_N(1, 0));
	flow.u[0].seq += 70;
	flow.c.ack += 70;
	RETURNS(0);
}

static void test_hole_in_chunk(void)
{
	struct packet p;

	flow_begin();
	BEGIN(0);
	BACKEND_SAYS(0, HEAD_CHUNKED "a\r\n", LEN(HEAD_CHUNKED) + 3);
	COUNTED(TO_CLIENT_N(1, LEN(HEAD_CHUNKED) + 3));
	p = backend_ahead(0, 12, "0\r\n\r\n", 5);
	send_from(&flow.u[0], &p);
	TO_CLIENT(0, &p);
	COUNTED(TO_CLIENT_N(1, 5), N(stashed, 1));
	p = backend_ahead(0, 6, "6789\r\n", 6);
	send_from(&flow.u[0], &p);
	TO_CLIENT(0, &p);
	BACKEND_SAYS(0, "012345", 6);
	flow.u[0].seq += 11;
	flow.c.ack += 11;
	COUNTED(TO_CLIENT_N(2, 12));
	RETURNS(0);
}

static void test_retransmissions(void)
{
	struct packet first, p;

	flow_begin();
	BEGIN(0);
	first = segment(&flow.u[0], PSH, HEAD5, LEN(HEAD5));
	BACKEND_SAYS(0, HEAD5, LEN(HEAD5));
	send_from(&flow.u[0], &first); /* same again */
	TO_CLIENT(0, &first);
	/* the whole in one, head again and body for the first time */
	p = segment(&flow.u[0], PSH, ANSWER, LEN(ANSWER));
	p.seq = first.seq;
	send_from(&flow.u[0], &p);
	TO_CLIENT(0, &p);
	COUNTED(TO_CLIENT_N(3, 2 * LEN(HEAD5) + LEN(ANSWER)));
	flow.u[0].seq += 5;
	flow.c.ack += 5;
	RETURNS(0);
}

/* Bytes behind the response never reach the client, and the upstream is not used again. */
static void test_bytes_behind(void)
{
	static const char *const more[] = {"more", "mor", "x"};
	static const char odd[] = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello!";
	struct packet p;
	char text[200];

	for (int k = 0; k < 6; k++) {
		const char *answer = k & 1 ? odd : ANSWER;
		__u32 keep = strlen(answer);

		flow_begin();
		BEGIN(0);
		snprintf(text, sizeof(text), "%s%s", answer, more[k / 2]);
		p = segment(&flow.u[0], PSH, text, strlen(text));
		send_from(&flow.u[0], &p);
		SPLICED(&flow.u[0], &flow.c, &p, keep, ACK | PSH, true);
		COUNTED(TO_CLIENT_N(1, keep), N(trimmed, 1));
		flow.u[0].seq += keep;
		flow.c.ack += keep;
		/* wholly behind it */
		p = segment(&flow.u[0], PSH, text, 7);
		send_from(&flow.u[0], &p);
		SPLICED(&flow.u[0], &flow.c, &p, 0, ACK | PSH, true);
		COUNTED(TO_CLIENT_N(1, 0), N(trimmed, 1));
		CLIENT_ACKS(0);
		COUNTED(TO_BACKEND_N(1, 0), N(returns_closed, 1));
		DONE(0, KV_EVENT_RETURNED_CLOSED, KV_CLIENT_HOME);
		BYPASSES(0);
	}
}

/* An answer before the request has come whole: the rest follows, but this upstream is spent. */
static void test_early_answer(void)
{
	static const char head[] = "PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n";

	flow_begin();
	flow.uploading = true;
	ASK(0, head, LEN(head));
	COUNTED(LENT(LEN(head)));
	BACKEND_SAYS(0, ANSWER, LEN(ANSWER));
	CLIENT_ACKS(0);
	CHECK_EQ(client_entry().state, KV_CLIENT_LENT);
	flow.uploading = false;
	CLIENT_SAYS(0, "0123456789", 10);
	COUNTED(TO_CLIENT_N(1, LEN(ANSWER)), TO_BACKEND_N(2, 10));
	BACKEND_ACKS(0); /* the last thing that was missing */
	COUNTED(TO_CLIENT_N(1, 0), N(returns_closed, 1));
	DONE(0, KV_EVENT_RETURNED_CLOSED, KV_CLIENT_HOME);
	BYPASSES(0);
}

static void test_connection_close(void)
{
	static const char answer[] =
		"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi";

	flow_begin();
	BEGIN(0);
	BACKEND_SAYS(0, answer, LEN(answer));
	CLIENT_ACKS(0);
	COUNTED(TO_CLIENT_N(1, LEN(answer)), TO_BACKEND_N(1, 0), N(returns_closed, 1));
	DONE(0, KV_EVENT_CLOSE_CLIENT, KV_CLIENT_AGENT);
	BYPASSES(0);
}

/* The last ack rides on the next request, which goes to another upstream. */
static void test_next_request(void)
{
	flow_begin();
	gw.backends[BACKEND].idle[0] = BIT(1);
	BEGIN(1);
	BACKEND_SAYS(1, ANSWER, LEN(ANSWER));
	COUNTED(TO_CLIENT_N(1, LEN(ANSWER)));
	gw.backends[BACKEND].idle[0] = BIT(0);
	ASK(0, GET, LEN(GET));
	COUNTED(LENT(LEN(GET)), N(returns, 1));
	CHECK_EQ(slot(1)->state, KV_UP_IDLE);
	CHECK_EQ(gw.backends[BACKEND].idle[0], BIT(1));
	LOAD(1, 0);
	/* the first one's last words: it has not heard the ack */
	struct packet p = segment(&flow.u[1], PSH, "hello", 5);
	p.seq -= 5;
	send_from(&flow.u[1], &p);
	CHECK_EQ(gw.verdict, VERDICT_OK);
	CHECK_EQ(gw.out.seq + 5, home_rcv_nxt(flow.u[1].home));
	COUNTED();
	BACKEND_SAYS(0, ANSWER, LEN(ANSWER));
	COUNTED(TO_CLIENT_N(1, LEN(ANSWER)));
	RETURNS(0);
	BYPASSES(1);
	/* and again, ten of them on one */
	for (int k = 0; k < 10; k++) {
		BEGIN(0);
		BACKEND_SAYS(0, ANSWER, LEN(ANSWER));
		COUNTED(TO_CLIENT_N(1, LEN(ANSWER)));
		RETURNS(0);
	}
}

int main(void)
{
	static const struct prog_test tests[] = {
		{"in one piece", test_one_piece},
		{"byte by byte", test_pieces},
		{"outcomes are counted", test_outcomes},
		{"chunked", test_chunked},
		{"the head of a stream before its first token", test_head_first},
		{"to a HEAD request", test_head_request},
		{"after 100 Continue", test_continue},
		{"hole in the head", test_hole_in_head},
		{"hole in a body of known length", test_hole_in_body},
		{"hole in a chunk", test_hole_in_chunk},
		{"retransmissions", test_retransmissions},
		{"bytes behind the response", test_bytes_behind},
		{"answer before the request's end", test_early_answer},
		{"Connection: close", test_connection_close},
		{"next request brings the last ack", test_next_request},
	};

	return TALK_MAIN(tests);
}
