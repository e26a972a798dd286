// SPDX-License-Identifier: BSD-2-Clause
/* Segments of lent pairs that are not as they should be, or come at the wrong time. */
#include "talk.h"

static void test_bad_acks(void)
{
	struct packet p;

	flow_begin();
	BEGIN(0);
	p = segment(&flow.c, 0, NULL, 0);
	p.ack++;
	send_from(&flow.c, &p);
	DROPPED();
	COUNTED(N(drop_unsent_ack, 1));
	p = segment(&flow.c, 0, NULL, 0);
	p.flags = 0;
	send_from(&flow.c, &p);
	DROPPED();
	COUNTED(N(drop_unsent_ack, 1));
	p = segment(&flow.u[0], 0, NULL, 0);
	p.ack++;
	send_from(&flow.u[0], &p);
	DROPPED();
	COUNTED(N(drop_unsent_ack, 1));
	p = segment(&flow.u[0], PSH, ANSWER, LEN(ANSWER));
	p.ack++;
	send_from(&flow.u[0], &p);
	DROPPED();
	COUNTED(N(drop_unsent_ack, 1));
	CHECK(!(client_entry().pair.seen & KV_SEEN_RESPONSE));
	CHECK_EQ(client_entry().pair.resp_next, client_entry().pair.resp_start);
	BACKEND_SAYS(0, ANSWER, LEN(ANSWER));
	COUNTED(TO_CLIENT_N(1, LEN(ANSWER)));
	RETURNS(0);
}

static void test_stale(void)
{
	struct packet p;

	flow_begin();
	BEGIN(0);
	p = segment(&flow.u[0], PSH, "old", 3);
	p.seq -= 3;
	send_from(&flow.u[0], &p);
	DROPPED();
	COUNTED(N(drop_stale, 1));
	p = segment(&flow.c, PSH, "old", 3);
	/* of the client: empty, which the backend answers, as a keep-alive's sender waits for */
	p.seq -= 3 + LEN(GET);
	send_from(&flow.c, &p);
	SPLICED(&flow.c, &flow.u[0], &p, 0, p.flags, false);
	COUNTED(TO_BACKEND_N(1, 0), N(trimmed, 1));
	p.seq++; /* reaches into this request */
	p.data = "oldG";
	p.len = 4;
	send_from(&flow.c, &p);
	DROPPED();
	COUNTED(N(drop_stale, 1));
	/* its ack is good all the same: a keep-alive probe may bring the last one */
	BACKEND_SAYS(0, ANSWER, LEN(ANSWER));
	COUNTED(TO_CLIENT_N(1, LEN(ANSWER)));
	p = segment(&flow.c, 0, "x", 1);
	p.seq--;
	send_from(&flow.c, &p);
	CHECK_EQ(gw.verdict, VERDICT_OK);
	CHECK_EQ(gw.out.seq + 1, home_rcv_nxt(flow.c.home));
	COUNTED(N(returns, 1));
	POOLED(0);
}

/* Another lend of this slot, or of this client: segments of before are nobody's. */
static void test_generation(void)
{
	struct kv_client c;
	struct packet p;

	flow_begin();
	BEGIN(0);
	p = segment(&flow.u[0], PSH, ANSWER, LEN(ANSWER));
	slot(0)->gen++;
	send_from(&flow.u[0], &p);
	DROPPED();
	COUNTED(N(drop_race, 1));
	slot(0)->gen--;
	c = client_entry();
	c.pair.slot++;
	gw_client_set(&c.key, &c);
	send_from(&flow.u[0], &p);
	DROPPED();
	COUNTED(N(drop_race, 1));
	NEED(!bpf_map_delete_elem(bpf_map__fd(gw.skel->maps.kv_clients), &c.key));
	send_from(&flow.u[0], &p);
	DROPPED();
	COUNTED(N(drop_race, 1));
	c.pair.slot--;
	gw_client_set(&c.key, &c);
	BACKEND_SAYS(0, ANSWER, LEN(ANSWER));
	COUNTED(TO_CLIENT_N(1, LEN(ANSWER)));
	RETURNS(0);
}

static void test_early_request(void)
{
	static const char head[] = "PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n";
	struct packet p;

	flow_begin();
	flow.uploading = true;
	ASK(0, head, LEN(head));
	COUNTED(LENT(LEN(head)));
	flow.uploading = false;
	/* the rest of the body, and the next request with it */
	p = segment(&flow.c, PSH | FIN, "body" GET, 4 + LEN(GET));
	send_from(&flow.c, &p);
	SPLICED(&flow.c, &flow.u[0], &p, 4, ACK | PSH, false);
	COUNTED(TO_BACKEND_N(1, 4), N(trimmed, 1));
	CHECK(!(client_entry().pair.seen & KV_SEEN_CLIENT_FIN));
	flow.c.seq += 4;
	flow.u[0].ack += 4;
	p = segment(&flow.c, PSH, GET, LEN(GET));
	send_from(&flow.c, &p);
	DROPPED();
	COUNTED(N(drop_early_request, 1));
	BACKEND_SAYS(0, ANSWER, LEN(ANSWER));
	COUNTED(TO_CLIENT_N(1, LEN(ANSWER)));
	ASK(0, GET, LEN(GET));
	COUNTED(LENT(LEN(GET)), N(returns, 1));
}

/* Packets of several segments are not cut: they come again in single ones. */
static void test_gso(void)
{
	static const char head[] = "PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n";
	struct packet p;

	flow_begin();
	flow.uploading = true;
	ASK(0, head, LEN(head));
	COUNTED(LENT(LEN(head)));
	p = segment(&flow.c, PSH, "body" GET, 4 + LEN(GET));
	gw_ingress_gso(&p, 10);
	DROPPED();
	COUNTED(N(drop_early_request, 1));
	gw_ingress_gso(&p, 4 + LEN(GET)); /* one segment, after all */
	SPLICED(&flow.c, &flow.u[0], &p, 4, ACK | PSH, false);
	COUNTED(TO_BACKEND_N(1, 4), N(trimmed, 1));
	flow.c.seq += 4;
	flow.u[0].ack += 4;
	flow.uploading = false;
	p = segment(&flow.u[0], PSH, ANSWER "more", LEN(ANSWER) + 4);
	gw_ingress_gso(&p, 10);
	DROPPED();
	COUNTED(N(drop_after_response, 1));
	/* one that fits passes as it is */
	p.len -= 4;
	gw_ingress_gso(&p, 10);
	TO_CLIENT(0, &p);
	COUNTED(TO_CLIENT_N(1, LEN(ANSWER)));
}

static void test_options_on_the_way(void)
{
	struct packet p;

	flow_begin();
	BEGIN(0);
	p = segment(&flow.u[0], ECE, NULL, 0);
	p.tos = 0x02;
	p.n_sack = 3;
	for (int i = 0; i < 6; i++)
		p.sack[i] = p.ack - 30 + i * 5;
	p.window = 65535;
	send_from(&flow.u[0], &p);
	SPLICED(&flow.u[0], &flow.c, &p, 0, ACK, true);
	COUNTED(TO_CLIENT_N(1, 0));
	p = segment(&flow.c, 0, NULL, 0);
	p.window = 65535;
	send_from(&flow.c, &p);
	TO_BACKEND(0, &p);
	p.window = 0;
	send_from(&flow.c, &p);
	TO_BACKEND(0, &p);
	COUNTED(TO_BACKEND_N(2, 0));
	p = segment(&flow.u[0], PSH, ANSWER, LEN(ANSWER));
	p.fragment = true;
	if (flow.family == AF_INET) {
		send_from(&flow.u[0], &p);
		DROPPED();
		COUNTED(N(drop_fragment, 1));
		p = segment(&flow.c, 0, NULL, 0);
		p.fragment = true;
		send_from(&flow.c, &p);
		DROPPED();
		COUNTED(N(drop_fragment, 1));
	}
}

int main(void)
{
	static const struct prog_test tests[] = {
		{"acks of bytes never sent", test_bad_acks},
		{"stale segments", test_stale},
		{"another generation", test_generation},
		{"next request too early", test_early_request},
		{"packets of several segments", test_gso},
		{"windows, SACK, ECN, fragments", test_options_on_the_way},
	};

	return TALK_MAIN(tests);
}
