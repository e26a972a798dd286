// SPDX-License-Identifier: BSD-2-Clause
/* The agent lane's offers: taken with the response's first segment; and the client's entry, HOME
 * with its last byte. */
#include "relay.h"

#define HOLD 4711

/* As the agent does it: the entry is held for the request, and the offer lies with the slot. */
static void relay_offered(__u32 flags, __u32 inserted)
{
	struct kv_client c;

	relay(0);
	c = client_entry();
	c.hold = HOLD;
	c.pair.slot = KV_NONE;
	c.pair.gen = 0;
	c.pair.note = KV_NOTE_READING;
	c.pair.inserted = 99;
	gw_client_set(&c.key, &c);
	gw.offers[SLOT(0)] = (struct kv_offer){
		.what = (__u64)c.hold << 32 | inserted << 8 | flags,
		.gen = slot(0)->gen,
	};
}

/* The first segment takes the offer, and all is as if it had been in the entry before. */
static void test_offer_taken(void)
{
	struct kv_client c;

	relay_offered(0, 0);
	comes_home(HEAD100, LEN(HEAD100));
	c = client_entry();
	CHECK_EQ(c.pair.slot, SLOT(0));
	CHECK_EQ(c.pair.gen, slot(0)->gen);
	CHECK_EQ(c.pair.offered, 2);
	CHECK_EQ(c.pair.note, KV_NOTE_NONE);
	CHECK_EQ(c.pair.inserted, 0);
	CHECK_EQ(c.hold, HOLD);
	agent_writes(HEAD100, LEN(HEAD100));
	flow_pair(0);
	flow.c.tsval_sent = 0;
	BACKEND_SAYS(0, TEN, 10);
	COUNTED(N(lends_midflight, 1), TO_CLIENT_N(1, 10));
	CHECK_EQ(client_entry().hold, 0);
	/* a line of ours is part of it */
	relay_offered(0, 5);
	comes_home(HEAD100, LEN(HEAD100));
	CHECK_EQ(client_entry().pair.inserted, 5);
	agent_writes(HEAD100, LEN(HEAD100));
	comes_home(TEN, 10);
	CHECK_EQ(client_entry().state, KV_CLIENT_AGENT);
	/* no body follows the head of a HEAD's answer */
	relay_offered(KV_OFFER_HEAD, 0);
	comes_home(HEAD100, LEN(HEAD100));
	LOAD(0, 0);
	COUNTED();
}

/* The entry is another request's, or the slot, or nothing is offered: the agent has it alone. */
static void test_offer_void(void)
{
	for (int i = 0; i < 6; i++) {
		struct kv_offer *offer;
		struct kv_client c;

		relay_offered(0, 0);
		offer = &gw.offers[SLOT(0)];
		c = client_entry();
		if (i == 0)
			offer->what += 1ull << 32;
		else if (i == 1)
			offer->what = 0;
		else if (i == 2)
			offer->gen++;
		else if (i == 3)
			c.state = KV_CLIENT_HOME;
		else if (i == 4)
			c.hold = 0;
		if (i == 5) { /* withdrawn, and the entry has another attempt's by now */
			offer->what = 0;
			c.pair.slot = SLOT(1);
			c.pair.gen = 3;
			c.pair.offered = 1;
		}
		if (i == 4)
			offer->what = 0x100;
		gw_client_set(&c.key, &c);
		comes_home(ANSWER, LEN(ANSWER));
		CHECK_EQ(client_entry().pair.offered, i == 5);
		CHECK_EQ(client_entry().pair.slot, i == 5 ? (__u32)SLOT(1) : KV_NONE);
		LOAD(1, 300);
		COUNTED();
	}
}

/* The client's socket sends so many bytes, up to so many before the end of what it was written. */
static void client_is_sent(__u32 len, __u32 before)
{
	static const char text[200];
	struct packet p = home_segment(&flow.c, PSH, home_write_seq(flow.c.home) - before - len,
				       home_rcv_nxt(flow.c.home));

	p.data = text;
	p.len = len;
	gw_egress(&p);
	CHECK_EQ(gw.verdict, VERDICT_OK);
}

static void is_home(bool home)
{
	struct kv_client c = client_entry();

	CHECK_EQ(c.state, home ? KV_CLIENT_HOME : KV_CLIENT_AGENT);
	CHECK_EQ(c.hold, home ? 0 : HOLD);
	CHECK_EQ(gw.offers[SLOT(0)].home, home ? HOLD : 0);
	if (home) {
		CHECK_EQ(c.pair.offered, 0);
		CHECK_EQ(c.pair.note, KV_NOTE_NONE);
	}
}

/* With the last byte, and not before; and then the next request is the kernel's. */
static void test_home(void)
{
	relay_offered(KV_OFFER_HOME, 0);
	comes_home(ANSWER, LEN(ANSWER) - 1);
	CHECK_EQ(client_entry().pair.offered, 2);
	CHECK_EQ(gw.offers[SLOT(0)].whole, 0);
	comes_home(ANSWER + LEN(ANSWER) - 1, 1);
	CHECK_EQ(client_entry().pair.offered, 3);
	CHECK_EQ(gw.offers[SLOT(0)].whole, HOLD);
	client_is_sent(0, 0);
	is_home(false);
	agent_writes(ANSWER, LEN(ANSWER) - 2);
	client_is_sent(LEN(ANSWER) - 2, 0);
	is_home(false);
	agent_writes(ANSWER + LEN(ANSWER) - 2, 2);
	client_is_sent(LEN(ANSWER) - 1, 1); /* sent again, in other pieces */
	is_home(false);
	client_is_sent(2, 0);
	is_home(true);
	client_is_sent(2, 0);
	is_home(true);
	slot(0)->state = KV_UP_IDLE;
	gw.backends[BACKEND].idle[0] |= BIT(0);
	flow.u[0].tsval_sent = 0;
	ASK(0, GET, LEN(GET));
	COUNTED(LENT(LEN(GET)));
}

/* A line of ours belongs to it, what is too much does not. */
static void test_home_behind_line(void)
{
	relay_offered(KV_OFFER_HOME, 7);
	comes_home(ANSWER "xxx", LEN(ANSWER) + 3);
	agent_writes(ANSWER, LEN(ANSWER));
	client_is_sent(LEN(ANSWER), 0);
	is_home(false);
	agent_writes("1234567", 7);
	client_is_sent(7, 0);
	is_home(true);
	COUNTED();
}

static void test_home_of_head(void)
{
	relay_offered(KV_OFFER_HOME | KV_OFFER_HEAD, 0);
	comes_home(HEAD100, LEN(HEAD100));
	agent_writes(HEAD100, LEN(HEAD100));
	client_is_sent(LEN(HEAD100), 0);
	is_home(true);
	COUNTED();
}

/* The agent has the last word: it closes the client, or has given the slot up. */
static void test_not_home(void)
{
	static const char closing[] = "HTTP/1.1 200 OK\r\nConnection: close\r\n"
				      "Content-Length: 5\r\n\r\nhello";

	relay_offered(0, 0);
	comes_home(ANSWER, LEN(ANSWER));
	CHECK_EQ(client_entry().pair.offered, 2);
	agent_writes(ANSWER, LEN(ANSWER));
	client_is_sent(LEN(ANSWER), 0);
	is_home(false);

	relay_offered(KV_OFFER_HOME, 0);
	comes_home(closing, LEN(closing));
	CHECK_EQ(gw.offers[SLOT(0)].whole, 0);
	agent_writes(closing, LEN(closing));
	client_is_sent(LEN(closing), 0);
	is_home(false);

	relay_offered(KV_OFFER_HOME, 0);
	comes_home(ANSWER, LEN(ANSWER));
	gw.offers[SLOT(0)].what = 0;
	agent_writes(ANSWER, LEN(ANSWER));
	client_is_sent(LEN(ANSWER), 0);
	is_home(false);
	COUNTED();
}

int main(void)
{
	static const struct prog_test tests[] = {
		{"an offer is taken", test_offer_taken},
		{"an offer is void", test_offer_void},
		{"home with the last byte", test_home},
		{"home behind a line of ours", test_home_behind_line},
		{"home after the answer to a HEAD", test_home_of_head},
		{"not home: closed, given up", test_not_home},
	};

	return TALK_MAIN(tests);
}
