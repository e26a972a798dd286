// SPDX-License-Identifier: BSD-2-Clause
/* Segments of who knows the addresses of a lent pair, but cannot see it: they change nothing. */
#include "talk.h"

#define HEAD "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"
#define HEAD_CLOSE "HTTP/1.1 200 OK\r\n\r\n"
#define FAR (1u << 30)

/* Whatever it says, the pair is as before. */
static void check_ignored(const char *file, int line, const struct packet *p,
			  const struct kv_pair *before)
{
	struct kv_client c;

	gw_ingress(p);
	c = client_entry();
	if (gw.verdict != VERDICT_DROP && check_fail(file, line))
		printf("verdict %d\n", gw.verdict);
	if (memcmp(&c.pair, before, sizeof(*before)) && check_fail(file, line))
		printf("the pair has changed\n");
}

#define IGNORED(p) check_ignored(__FILE__, __LINE__, p, &before.pair)

/* A lent client in the middle of its response. */
static struct kv_client answering(void)
{
	flow_begin();
	BEGIN(0);
	BACKEND_SAYS(0, HEAD "body", LEN(HEAD) + 4);
	gw_rise((__u64[KV_CNT_MAX]){});
	return client_entry();
}

static void test_off_window(void)
{
	static const __u32 off[] = {FAR, -FAR, 2 * FAR};
	struct kv_client before;
	struct packet p;

	before = answering();
	for (int i = 0; i < 3; i++) {
		/* acknowledges what the client has not got, and would end its retransmission */
		p = segment(&flow.c, 0, NULL, 0);
		p.seq += off[i];
		IGNORED(&p);
		p = segment(&flow.c, PSH, "x", 1);
		p.seq += off[i];
		IGNORED(&p);
		p = segment(&flow.c, FIN, NULL, 0);
		p.seq += off[i];
		IGNORED(&p);
		p = segment(&flow.u[0], 0, NULL, 0);
		p.seq += off[i];
		IGNORED(&p);
		p = segment(&flow.u[0], PSH, "x", 1);
		p.seq += off[i];
		IGNORED(&p);
		p = segment(&flow.u[0], FIN | PSH, "x", 1);
		p.seq += off[i];
		IGNORED(&p);
	}
	COUNTED(N(drop_window, 18));
	NO_EVENT();
}

/* Within the window, but of bytes that were never sent. */
static void test_unsent_acks(void)
{
	struct kv_client before;
	struct packet p;

	flow_begin();
	BEGIN(0);
	BACKEND_SAYS(0, HEAD, LEN(HEAD));
	before = client_entry();
	gw_rise((__u64[KV_CNT_MAX]){});
	p = segment(&flow.c, 0, NULL, 0);
	p.ack++;
	IGNORED(&p);
	p.ack += FAR;
	IGNORED(&p);
	COUNTED(N(drop_unsent_ack, 2));
	p = segment(&flow.u[0], 0, NULL, 0);
	p.ack++;
	gw_ingress(&p);
	DROPPED();
	CHECK_EQ(client_entry().pair.req_acked, before.pair.req_acked);
	COUNTED(N(drop_unsent_ack, 1));
}

/* Within the window, by acknowledgements of before the lend: of half of all numbers. */
static void test_old_acks(void)
{
	struct kv_client before, c;
	struct packet p[4];

	before = answering();
	for (int far = 0; far < 2; far++) {
		p[0] = segment(&flow.u[0], PSH, "x", 1);
		p[1] = segment(&flow.u[0], FIN, NULL, 0);
		p[2] = segment(&flow.c, PSH, "x", 1);
		p[3] = segment(&flow.c, 0, NULL, 0);
		for (int i = 0; i < 4; i++) {
			p[i].ack = (i < 2 ? p[i].ack - LEN(GET) : before.pair.resp_start) - 1 -
				   far * FAR;
			gw_ingress(&p[i]);
			DROPPED();
			c = client_entry();
			c.pair.backend_ns = before.pair.backend_ns; /* a sign of life */
			CHECK_MEM(&c.pair, &before.pair, sizeof(c.pair));
		}
	}
	COUNTED(N(drop_window, 8));
	NO_EVENT();
	CLIENT_ACKS(0);
}

/* Within the window, and of a place that has been acknowledged: were it the client's end, all that
 * it acknowledges later would stand behind that, and the backend hear nothing of it. */
static void test_old_fin(void)
{
	struct kv_client before;
	struct packet p;

	before = answering();
	for (__u32 back = 1; back <= 4096; back *= 16) {
		p = segment(&flow.c, FIN, NULL, 0);
		p.seq -= back;
		p.ack = before.pair.resp_start;
		p.tsval = 0;
		IGNORED(&p);
	}
	COUNTED(N(drop_stale, 4));
	CLIENT_ACKS(0);
	NO_EVENT();
}

/* The end of a body without a length is where the backend's FIN is: a forged hole must not move
 * the place where it is looked for. */
static void test_hole_until_close(void)
{
	struct packet p;

	flow_begin();
	BEGIN(0);
	BACKEND_SAYS(0, HEAD_CLOSE "body", LEN(HEAD_CLOSE) + 4);
	CLIENT_ACKS(0);
	gw_rise((__u64[KV_CNT_MAX]){});
	p = segment(&flow.u[0], PSH, "x", 1);
	p.seq += FAR;
	gw_ingress(&p);
	DROPPED();
	COUNTED(N(drop_window, 1));
	p = segment(&flow.u[0], FIN, NULL, 0);
	send_from(&flow.u[0], &p);
	DONE(0, KV_EVENT_CLOSE_CLIENT, KV_CLIENT_AGENT);
}

int main(void)
{
	static const struct prog_test tests[] = {
		{"far outside of the window", test_off_window},
		{"acknowledgements of before the lend", test_old_acks},
		{"an end that is past", test_old_fin},
		{"acknowledges what was never sent", test_unsent_acks},
		{"a hole in a body that ends with its connection", test_hole_until_close},
	};

	return TALK_MAIN(tests);
}
