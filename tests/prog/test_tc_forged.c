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

static void test_off_window(void)
{
	static const __u32 off[] = {FAR, -FAR, 2 * FAR};
	struct kv_client before;
	struct packet p;

	flow_begin();
	BEGIN(0);
	BACKEND_SAYS(0, HEAD "body", LEN(HEAD) + 4);
	before = client_entry();
	gw_rise((__u64[KV_CNT_MAX]){});
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
		{"acknowledges what was never sent", test_unsent_acks},
		{"a hole in a body that ends with its connection", test_hole_until_close},
	};

	return TALK_MAIN(tests);
}
