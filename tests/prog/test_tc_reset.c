// SPDX-License-Identifier: BSD-2-Clause
/* Resets on a lent pair: which are believed, and what an unexpected one is answered with. */
#include "talk.h"

#define HEAD100 "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"

/* RFC 5961: near by, the peer is asked back, with a segment from before what it has acknowledged;
 * further off, nothing. */
static void check_challenged(const char *file, int line, struct peer *from, __u32 seq, __u32 ack)
{
	int sent = flow.local ? VERDICT_OK : VERDICT_SENT;

	if ((gw.verdict != sent || gw.out.flags != ACK || gw.out.len || gw.out.seq != seq - 1 ||
	     gw.out.ack != ack || memcmp(&gw.out.path, &from->key, sizeof(from->key))) &&
	    check_fail(file, line))
		printf("verdict %d, flags %x, seq %u, ack %u; expected %u, %u\n", gw.verdict,
		       gw.out.flags, gw.out.seq, gw.out.ack, seq - 1, ack);
}

#define CHALLENGED(from) check_challenged(__FILE__, __LINE__, from, (from)->ack, (from)->seq)

static void test_stray_resets(void)
{
	struct packet p;

	flow_begin();
	BEGIN(0);
	BACKEND_ACKS(0);
	COUNTED(TO_CLIENT_N(1, 0));
	for (int i = 0; i < 2; i++) {
		struct peer *from = i ? &flow.c : &flow.u[0];

		p = segment(from, RST, NULL, 0);
		p.seq--;
		send_from(from, &p);
		CHALLENGED(from);
		p.seq += 2;
		send_from(from, &p);
		CHALLENGED(from);
		p.seq += 65534;
		send_from(from, &p);
		CHALLENGED(from);
		p.seq++;
		send_from(from, &p);
		DROPPED();
		p.seq -= 2 * 65536 + 1;
		send_from(from, &p);
		DROPPED();
		COUNTED(N(challenges, 3), N(drop_stale, 2));
	}
	slot(0)->gen--;
	p = segment(&flow.u[0], RST, NULL, 0);
	send_from(&flow.u[0], &p);
	DROPPED();
	COUNTED(N(drop_race, 1));
	slot(0)->gen++;
	CHECK_EQ(client_entry().state, KV_CLIENT_LENT);
	NO_EVENT();
}

/* The answer to a challenge: a socket that is gone knows no position but the one it is told. */
static void test_challenge_answered(void)
{
	struct packet p;

	flow_begin();
	ASK(0, GET, LEN(GET));
	BACKEND_SAYS(0, HEAD100 "part", LEN(HEAD100) + 4);
	COUNTED(LENT(LEN(GET)), TO_CLIENT_N(1, LEN(HEAD100) + 4));
	/* the client has not acknowledged the response: its position is the one before */
	p = segment(&flow.u[0], RST, NULL, 0);
	p.seq -= LEN(HEAD100) + 4;
	send_from(&flow.u[0], &p);
	DROPPED();
	COUNTED(N(broken_response, 1));
	DONE(0, KV_EVENT_RESET_CLIENT, KV_CLIENT_AGENT);
}

/* Behind a whole response: the client is not robbed of it. */
static void test_reset_behind_response(void)
{
	struct packet p;

	flow_begin();
	BEGIN(0);
	BACKEND_SAYS(0, ANSWER, LEN(ANSWER));
	COUNTED(TO_CLIENT_N(1, LEN(ANSWER)));
	p = segment(&flow.u[0], RST, NULL, 0);
	send_from(&flow.u[0], &p);
	DROPPED();
	COUNTED(N(drop_reset_late, 1));
	NO_EVENT();
	CLIENT_ACKS(0);
	COUNTED(TO_BACKEND_N(1, 0), N(returns_closed, 1));
	DONE(0, KV_EVENT_RETURNED_CLOSED, KV_CLIENT_HOME);
	BYPASSES(0);
}

int main(void)
{
	static const struct prog_test tests[] = {
		{"stray resets", test_stray_resets},
		{"a challenge that is answered", test_challenge_answered},
		{"backend resets behind its response", test_reset_behind_response},
	};

	return TALK_MAIN(tests);
}
