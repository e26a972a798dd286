// SPDX-License-Identifier: BSD-2-Clause
/* Probes of lent home sockets: the only segment of theirs that leaves, with the pair's numbers. */
#include "talk.h"

#define HEAD "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"

/* What the home socket sends when the agent asks for a probe: one before what it would send. */
static struct packet probe_of(const struct peer *of)
{
	return home_segment(of, 0, home_write_seq(of->home) - 1, home_rcv_nxt(of->home));
}

static void check_probe(const char *file, int line, const struct peer *of, __u32 seq, __u32 ack)
{
	if (gw.verdict != VERDICT_OK && check_fail(file, line))
		printf("verdict %d\n", gw.verdict);
	if ((gw.out.seq != seq || gw.out.ack != ack || gw.out.len || gw.out.flags != ACK) &&
	    check_fail(file, line))
		printf("seq %u, ack %u; expected %u, %u\n", gw.out.seq, gw.out.ack, seq, ack);
	if (memcmp(&gw.out.path, &of->key, sizeof(of->key)) && check_fail(file, line))
		printf("addresses differ\n");
	if (of->timestamps && home_clock(of->home) - gw.out.tsval > 1000 && check_fail(file, line))
		printf("TSval is not our clock's\n");
}

#define PROBE(of, seq, ack) check_probe(__FILE__, __LINE__, of, seq, ack)

/* Before the response, and inside it: what each side has acknowledged. */
static void test_numbers(void)
{
	struct packet p;

	flow_begin();
	BEGIN(0);
	BACKEND_ACKS(0);
	COUNTED(TO_CLIENT_N(1, 0));
	p = probe_of(&flow.c);
	gw_egress(&p);
	PROBE(&flow.c, flow.c.ack - 1, flow.c.seq);
	p = probe_of(&flow.u[0]);
	gw_egress(&p);
	PROBE(&flow.u[0], flow.u[0].ack - 1, flow.u[0].seq);
	COUNTED(N(probes_sent, 2));
	if (flow.u[0].timestamps)
		CHECK(gw.out.tsecr);

	BACKEND_SAYS(0, HEAD, LEN(HEAD));
	p = probe_of(&flow.c); /* the client has acknowledged none of it */
	gw_egress(&p);
	PROBE(&flow.c, flow.c.ack - LEN(HEAD) - 1, flow.c.seq);
	CLIENT_ACKS(0);
	p = probe_of(&flow.c);
	gw_egress(&p);
	PROBE(&flow.c, flow.c.ack - 1, flow.c.seq);
	p = probe_of(&flow.u[0]);
	gw_egress(&p);
	PROBE(&flow.u[0], flow.u[0].ack - 1, flow.u[0].seq);
}

/* Answers are segments of the pair, and signs of life. */
static void test_answers(void)
{
	struct kv_client before;
	struct packet p;

	flow_begin();
	BEGIN(0);
	BACKEND_ACKS(0);
	before = client_entry();
	CHECK(before.pair.backend_ns && before.last_ns);
	p = segment(&flow.u[0], 0, NULL, 0);
	send_from(&flow.u[0], &p);
	TO_CLIENT(0, &p);
	CHECK(client_entry().pair.backend_ns > before.pair.backend_ns);
	CHECK_EQ(client_entry().last_ns, before.last_ns);
	p = segment(&flow.c, 0, NULL, 0);
	send_from(&flow.c, &p);
	TO_BACKEND(0, &p);
	CHECK(client_entry().last_ns > before.last_ns);
}

/* All else stays mute: acknowledgements, retransmissions, ends. */
static void test_mute(void)
{
	static const __u8 ends[] = {FIN, RST};
	struct packet p;

	flow_begin();
	BEGIN(0);
	for (int i = 0; i < 2; i++) {
		const struct peer *of = i ? &flow.u[0] : &flow.c;

		p = probe_of(of);
		p.seq++; /* an acknowledgement */
		gw_egress(&p);
		CHECK_EQ(gw.verdict, VERDICT_MUTE);
		p.seq--;
		p.data = "x"; /* a retransmission, or TCP's own keep-alive with a byte */
		p.len = 1;
		gw_egress(&p);
		CHECK_EQ(gw.verdict, VERDICT_MUTE);
		for (int k = 0; k < 2; k++) {
			p = probe_of(of);
			p.flags |= ends[k];
			gw_egress(&p);
			CHECK_EQ(gw.verdict, VERDICT_MUTE);
		}
	}
	COUNTED(N(home_muted, 8));
}

int main(void)
{
	static const struct prog_test tests[] = {
		{"probes carry the pair's numbers", test_numbers},
		{"an answered probe is a sign of life", test_answers},
		{"a lent home socket says nothing else", test_mute},
	};

	return TALK_MAIN(tests);
}
