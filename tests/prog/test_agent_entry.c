// SPDX-License-Identifier: BSD-2-Clause
/* A client's entry in the agent's hands: the agent's own calls, against the kernel's program. */
#include "agent/entry.c"
#include "talk.h"

static struct dataplane dp;
static __u32 hold;

static void entry_begin(void)
{
	flow_begin();
	dp.clients_fd = bpf_map__fd(gw.skel->maps.kv_clients);
	dp.entry_fd = bpf_program__fd(gw.skel->progs.kv_agent_entry);
	if (dp.entry_call)
		munmap(dp.entry_call, getpagesize());
	dp.entry_call = mmap(NULL, getpagesize(), PROT_READ | PROT_WRITE, MAP_SHARED,
			     bpf_map__fd(gw.skel->maps.kv_entry_call), 0);
	NEED(dp.entry_call != MAP_FAILED);
	hold = 0;
}

static int take(__u32 *of)
{
	return entry_set_busy(&dp, &flow.c.key, SERVICE, 12345, of);
}

static int offer(__u32 slot, __u32 gen, bool offered, bool head)
{
	return entry_offer(&dp, &flow.c.key, hold,
			   &(struct entry_offer){slot, gen, offered, head, 10 * slot});
}

/* A request of its own, from an entry that is made to the one that is left. */
static void test_request(void)
{
	struct kv_client c;
	__u32 first;

	entry_begin();
	CHECK_EQ(take(&hold), 0);
	c = client_entry();
	CHECK_EQ(c.state, KV_CLIENT_AGENT);
	CHECK_EQ(c.hold, hold);
	CHECK(hold);
	CHECK_EQ(c.service, SERVICE);
	CHECK_EQ(c.last_ns, 12345);
	CHECK_EQ(c.pair.note, KV_NOTE_READING);
	CHECK_EQ(offer(7, 8, true, true), 0);
	c = client_entry();
	CHECK_EQ(c.pair.slot, 7);
	CHECK_EQ(c.pair.gen, 8);
	CHECK_EQ(c.pair.offered, 1);
	CHECK_EQ(c.pair.inserted, 70);
	CHECK_EQ(c.pair.note, KV_NOTE_NONE);
	CHECK_EQ(c.pair.response.flags, KV_FRAMING_HEAD);
	CHECK_EQ(entry_hold(&dp, &flow.c.key, 7, 8, &c), ENTRY_MINE);
	/* the next request's bytes are here already */
	first = hold;
	CHECK_EQ(take(&hold), 0);
	CHECK(hold != first);
	CHECK_EQ(client_entry().pair.offered, 0);
	CHECK_EQ(entry_set_home(&dp, &flow.c.key, first, 0, 0), -ESTALE);
	CHECK_EQ(offer(9, 9, false, false), 0);
	CHECK_EQ(client_entry().pair.note, KV_NOTE_RELAYED);
	CHECK_EQ(entry_set_home(&dp, &flow.c.key, hold, 0, 0), 0);
	c = client_entry();
	CHECK_EQ(c.state, KV_CLIENT_HOME);
	CHECK_EQ(c.hold, 0);
	CHECK_EQ(entry_set_home(&dp, &flow.c.key, hold, 0, 0), -ESTALE);
}

/* What the kernel knows of the connection stays as it is. */
static void test_kept(void)
{
	struct kv_client c;

	entry_begin();
	flow_client(1000, 2000);
	c = client_entry();
	c.handed = 4711;
	c.path = 3;
	gw_client_set(&c.key, &c);
	CHECK_EQ(take(&hold), 0);
	CHECK_EQ(offer(7, 8, true, false), 0);
	CHECK_EQ(entry_set_home(&dp, &flow.c.key, hold, 0, 0), 0);
	c = client_entry();
	CHECK_EQ(c.handed, 4711);
	CHECK_EQ(c.path, 3);
	CHECK_EQ(c.ifindex, LOCAL_IFINDEX);
	CHECK_EQ(c.rx_bypass, 1000);
	CHECK_EQ(c.tx_bypass, 2000);
}

/* The connection ends without the agent's knowing, and the tuple's next one is another's. */
static void test_next_connection(void)
{
	__u32 next = 0;

	entry_begin();
	CHECK_EQ(take(&hold), 0);
	gw_clear(gw.skel->maps.kv_clients);
	CHECK_EQ(offer(7, 8, true, false), -ESTALE);
	CHECK_EQ(entry_set_home(&dp, &flow.c.key, hold, 0, 0), -ESTALE);
	CHECK_EQ(client_entry().state, KV_NONE);
	CHECK_EQ(take(&next), 0);
	CHECK_EQ(offer(7, 8, true, false), -ESTALE);
	CHECK_EQ(entry_set_home(&dp, &flow.c.key, hold, 0, 0), -ESTALE);
	CHECK_EQ(take(&hold), -EBUSY);
	CHECK_EQ(client_entry().hold, next);
	CHECK_EQ(client_entry().pair.slot, KV_NONE);
}

/* Lent, or to be closed: nothing to be taken. */
static void test_not_ours(void)
{
	struct kv_client c;

	entry_begin();
	BEGIN(0);
	CHECK_EQ(client_entry().hold, 0);
	CHECK_EQ(take(&hold), -EBUSY);
	CHECK_EQ(hold, 0);
	CHECK_EQ(entry_set_home(&dp, &flow.c.key, 0, 0, 0), -ESTALE);
	CHECK_EQ(client_entry().state, KV_CLIENT_LENT);
	c = client_entry();
	c.state = KV_CLIENT_AGENT;
	gw_client_set(&c.key, &c);
	CHECK_EQ(take(&hold), -EBUSY);
	CHECK_EQ(entry_set_home(&dp, &flow.c.key, 0, 0, 0), -ESTALE);
	CHECK_EQ(client_entry().state, KV_CLIENT_AGENT);
}

/* A silent pair: as far as both sides know. */
static void test_end(void)
{
	struct kv_client c, was, ret = {};

	entry_begin();
	BEGIN(0);
	was = client_entry();
	CHECK_EQ(entry_end_lent(&dp, &flow.c.key, was.pair.slot, was.pair.gen + 1, true, &ret),
		 -ENOENT);
	CHECK_EQ(entry_end_lent(&dp, &flow.c.key, was.pair.slot, was.pair.gen, true, &ret), 0);
	c = client_entry();
	CHECK_EQ(c.state, KV_CLIENT_HOME); /* it will send it again */
	CHECK_EQ(ret.state, c.state);
	CHECK_EQ(c.rx_bypass, was.rx_bypass);
	CHECK_EQ(c.tx_bypass, was.tx_bypass);

	entry_begin();
	BEGIN(0);
	BACKEND_SAYS(0, ANSWER, LEN(ANSWER) - 2);
	was = client_entry();
	CHECK_EQ(entry_end_lent(&dp, &flow.c.key, was.pair.slot, was.pair.gen, false, &ret), 0);
	c = client_entry();
	CHECK_EQ(c.state, KV_CLIENT_AGENT);
	CHECK_EQ(c.hold, 0);
	CHECK_MEM(&ret.pair, &was.pair, sizeof(was.pair));
	CHECK_EQ(c.rx_bypass, was.rx_bypass + LEN(GET));
	CHECK_EQ(c.tx_bypass, was.tx_bypass + LEN(ANSWER) - 2);
}

int main(void)
{
	static const struct prog_test tests[] = {
		{"a request", test_request},
		{"what is kept", test_kept},
		{"the tuple's next connection", test_next_connection},
		{"lent, or to be closed", test_not_ours},
		{"the end of a pair", test_end},
	};

	return talk_main(tests, sizeof(tests) / sizeof(tests[0]));
}
