// SPDX-License-Identifier: BSD-2-Clause
/* The express lane: which requests are lent, and how they look at the backend. */
#include <kvsteer/request.h>

#include "talk.h"

static void test_get(void)
{
	struct kv_client c;

	flow_begin();
	ASK(0, GET, LEN(GET));
	COUNTED(LENT(LEN(GET)));
	LOAD(1, 0);
	c = client_entry();
	CHECK_EQ(c.ifindex, LOCAL_IFINDEX);
	CHECK_EQ(c.path, flow.local ? KV_PATH_LOCAL : 0);
	CHECK_EQ(c.pair.slot, SLOT(0));
	CHECK_EQ(c.pair.gen, 71);
	CHECK_EQ(slot(0)->gen, 71);
	CHECK_EQ(c.pair.req_end - c.pair.req_start, LEN(GET));
	CHECK_MEM(&slot(0)->client, &flow.c.key, sizeof(flow.c.key));
	NO_EVENT();
}

/* The hint's rungs are learned, the prompt is charged; the body's rest follows. */
static void test_post(void)
{
	static const char head[] = POST_HEAD HINT "Content-Length: 600\r\n\r\n";
	char body[600];
	__u64 hash = 0xdef;
	struct kv_prefix prefix;

	flow_begin();
	memset(body, 'b', sizeof(body));
	flow.uploading = true;
	ASK(0, head, LEN(head));
	COUNTED(LENT(LEN(head)), N(hint_prefix, 1), N(prefix_inserted, 2));
	LOAD(1, 300);
	CHECK(gw_prefix(hash, &prefix));
	CHECK_EQ(kv_holder_backend(prefix.holder[0]), BACKEND);
	CHECK(prefix.holder[0] & KV_HOLDER_TENTATIVE);
	CLIENT_SAYS(0, body, 400);
	BACKEND_ACKS(0);
	flow.uploading = false;
	CLIENT_SAYS(0, body, 200);
	BACKEND_ACKS(0);
	COUNTED(TO_BACKEND_N(2, 600), TO_CLIENT_N(2, 0));
	BACKEND_SAYS(0, ANSWER, LEN(ANSWER));
	COUNTED(TO_CLIENT_N(1, LEN(ANSWER)));
	LOAD(1, 0);
	CHECK(gw_prefix(hash, &prefix));
	CHECK(!(prefix.holder[0] & KV_HOLDER_TENTATIVE));
	CLIENT_ACKS(0);
	COUNTED(TO_BACKEND_N(1, 0), N(returns, 1));
	POOLED(0);
}

/* An error: it has not computed the prompt, so it holds nothing of it. */
static void post_refused(const char *busy)
{
	static const char head[] = POST_HEAD HINT "Content-Length: 4\r\n\r\nbody";
	__u64 hash = 0xdef;
	struct kv_prefix prefix;

	flow_begin();
	ASK(0, head, LEN(head));
	COUNTED(LENT(LEN(head)), N(hint_prefix, 1), N(prefix_inserted, 2));
	LOAD(1, 300);
	BACKEND_SAYS(0, busy, strlen(busy) - 5);
	LOAD(1, 0);
	CHECK(!gw_prefix(hash, &prefix));
	BACKEND_SAYS(0, busy + strlen(busy) - 5, 5);
	COUNTED(TO_CLIENT_N(2, strlen(busy)), N(unlearned, 2));
	CLIENT_ACKS(0);
	COUNTED(TO_BACKEND_N(1, 0), N(returns, 1));
	POOLED(0);
	LOAD(0, 0);
}

static void test_post_refused(void)
{
	post_refused("HTTP/1.1 503 X\r\nContent-Length: 5\r\n\r\n12345");
	post_refused("HTTP/1.1 500 X\r\nContent-Length: 5\r\n\r\n12345");
	post_refused("HTTP/1.1 404 X\r\nContent-Length: 5\r\n\r\n12345");
}

static void test_head_and_body_in_one(void)
{
	static const char text[] = POST_HEAD HINT "Content-Length: 4\r\n\r\nbody";

	flow_begin();
	ASK(0, text, LEN(text));
	COUNTED(LENT(LEN(text)), N(hint_prefix, 1), N(prefix_inserted, 2));
}

static void test_session(void)
{
	static const char text[] = POST_HEAD "X-Session-Id: s1\r\nContent-Length: 4\r\n\r\nbody";
	__u64 key = kv_session_hash("s1", 2);
	struct kv_session s;

	flow_begin();
	ASK(0, text, LEN(text));
	COUNTED(LENT(LEN(text)), N(hint_session, 1), N(session_inserted, 1));
	LOAD(1, 1);
	CHECK(!bpf_map_lookup_elem(bpf_map__fd(gw.skel->maps.kv_sessions), &key, &s));
	CHECK_EQ(kv_holder_backend(s.holder), BACKEND);
}

/* Not a completion, so it needs no hint; a malformed one is counted. */
static void test_malformed_hint(void)
{
	static const char text[] = "GET / HTTP/1.1\r\nHost: a\r\nKV-Prefix: 2;1\r\n\r\n";

	flow_begin();
	ASK(0, text, LEN(text));
	COUNTED(LENT(LEN(text)), N(hint_malformed, 1));
}

/* SACK blocks, ECN marks and a FIN of the client's segment. */
static void test_odd_segment(void)
{
	struct packet p;

	flow_begin();
	flow_pair(0);
	p = segment(&flow.c, PSH | FIN | ECE | CWR, GET, LEN(GET));
	p.tos = 0xbb;
	p.n_sack = 2;
	memcpy(p.sack, (__u32[]){flow.c.ack + 10, flow.c.ack + 20, flow.c.ack - 9, flow.c.ack - 5},
	       16);
	send_from(&flow.c, &p);
	SPLICED(&flow.c, &flow.u[0], &p, p.len, ACK | PSH | FIN, false);
	COUNTED(LENT(LEN(GET)));
	CHECK_EQ(client_entry().pair.fin_seq, p.seq + p.len);
}

/* An upstream that has been closed, or has bytes nobody asked for, is passed over. */
static void test_stale_upstream(void)
{
	flow_begin();
	NEED(write(flow.u[0].far, "x", 1) == 1);
	ASK(1, GET, LEN(GET));
	COUNTED(LENT(LEN(GET)), N(upstream_stale, 1));
	CHECK_EQ(slot(0)->state, KV_UP_DONE);
	EVENT(KV_EVENT_CLOSE_UPSTREAM, SLOT(0), &flow.c.key);

	/* its last bytes are not acknowledged */
	flow_begin();
	peer_deafen(&flow.u[0]);
	NEED(write(flow.u[0].home, "x", 1) == 1);
	ASK(1, GET, LEN(GET));
	COUNTED(LENT(LEN(GET)), N(upstream_stale, 1));
	EVENT(KV_EVENT_CLOSE_UPSTREAM, SLOT(0), &flow.c.key);

	flow_begin();
	shutdown(flow.u[0].far, SHUT_WR);
	ASK(1, GET, LEN(GET));
	COUNTED(LENT(LEN(GET)), N(upstream_stale, 1));
	CHECK_EQ(slot(0)->state, KV_UP_DONE);
	EVENT(KV_EVENT_CLOSE_UPSTREAM, SLOT(0), &flow.c.key);
}

/* Neither side has timestamps or SACK: nothing is added. */
static void test_no_options(void)
{
	home_sysctl("tcp_timestamps", "0");
	home_sysctl("tcp_sack", "0");
	flow_begin();
	home_sysctl("tcp_timestamps", "1");
	home_sysctl("tcp_sack", "1");
	CHECK(!flow.c.timestamps && !flow.c.sack);
	BEGIN(0);
	BACKEND_SAYS(0, ANSWER, LEN(ANSWER));
	CLIENT_ACKS(0);
	POOLED(0);
}

int main(void)
{
	static const struct prog_test tests[] = {
		{"GET is lent", test_get},
		{"hinted POST whose body follows", test_post},
		{"a POST that is refused teaches nothing", test_post_refused},
		{"head and body in one segment", test_head_and_body_in_one},
		{"session", test_session},
		{"malformed hint", test_malformed_hint},
		{"SACK, ECN and FIN", test_odd_segment},
		{"stale upstream", test_stale_upstream},
		{"neither side has options", test_no_options},
	};

	return TALK_MAIN(tests);
}
