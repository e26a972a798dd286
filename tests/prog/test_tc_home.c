// SPDX-License-Identifier: BSD-2-Clause
/* Connections that are not lent: sequence numbers between wire and home socket, and whose packets
 * are none of ours. */
#include "talk.h"

#define RX 1000003u /* bypasses of an earlier life */
#define TX 2000005u

/* A connection with bytes that passed it by; beside those of a wrapped world. */
static struct kv_client bypassed(__u32 state)
{
	struct kv_client c;

	if (!flow.wrapped)
		flow_client(RX, TX);
	c = client_entry();
	c.state = state;
	gw_client_set(&c.key, &c);
	return c;
}

/* A segment that was taken off its bypasses: rx bytes of the sender, tx bytes to it. */
static void check_shifted(const char *file, int line, const struct packet *in, __u32 seq, __u32 ack)
{
	struct packet due = *in;

	due.seq += seq;
	due.ack += ack;
	for (__u32 i = 0; i < 2 * due.n_sack; i++)
		due.sack[i] += ack;
	if (gw.verdict != VERDICT_OK && check_fail(file, line))
		printf("verdict %d\n", gw.verdict);
	if ((gw.out.seq != due.seq || gw.out.ack != due.ack ||
	     memcmp(gw.out.sack, due.sack, sizeof(due.sack))) &&
	    check_fail(file, line))
		printf("seq %u, ack %u; expected %u, %u\n", gw.out.seq, gw.out.ack, due.seq,
		       due.ack);
	if ((gw.out.window != in->window || gw.out.flags != in->flags ||
	     gw.out.tsval != in->tsval || gw.out.tsecr != in->tsecr || gw.out.len != in->len ||
	     memcmp(gw.out.data, in->data ?: "", in->len) ||
	     memcmp(&gw.out.path, &in->path, sizeof(in->path))) &&
	    check_fail(file, line))
		printf("more has changed than sequence numbers\n");
}

#define SHIFTED(in, seq, ack) check_shifted(__FILE__, __LINE__, in, seq, ack)

static void test_client(void)
{
	struct kv_client c;
	struct packet p;

	flow_begin();
	c = bypassed(KV_CLIENT_AGENT);
	p = segment(&flow.c, PSH, "body", 4);
	p.n_sack = 1;
	p.sack[0] = p.ack + 20;
	p.sack[1] = p.ack + 30;
	send_from(&flow.c, &p);
	SHIFTED(&p, -c.rx_bypass, -c.tx_bypass);
	CHECK_EQ(gw.out.seq, home_rcv_nxt(flow.c.home));
	CHECK_EQ(gw.out.ack, home_write_seq(flow.c.home));
	p = segment(&flow.c, FIN, NULL, 0);
	send_from(&flow.c, &p);
	SHIFTED(&p, -c.rx_bypass, -c.tx_bypass);
	p = home_segment(&flow.c, PSH, home_write_seq(flow.c.home), home_rcv_nxt(flow.c.home));
	p.n_sack = 2;
	for (int i = 0; i < 4; i++)
		p.sack[i] = p.ack + 10 * i;
	gw_egress(&p);
	SHIFTED(&p, c.tx_bypass, c.rx_bypass);
	CHECK_EQ(gw.out.seq, flow.c.ack);
	CHECK_EQ(gw.out.ack, flow.c.seq);
	p.flags = SYN | ACK;
	gw_egress(&p);
	UNTOUCHED();
	COUNTED();
}

static void test_upstream(void)
{
	struct kv_upstream *u = slot(0);
	struct packet p;

	flow_begin();
	u->rx_bypass = RX;
	u->tx_bypass = TX;
	u->state = KV_UP_RELAY;
	p = segment(&flow.u[0], FIN, NULL, 0);
	send_from(&flow.u[0], &p);
	SHIFTED(&p, -RX, -TX);
	p = home_segment(&flow.u[0], PSH, 5, 6);
	p.data = GET;
	p.len = LEN(GET);
	gw_egress(&p);
	SHIFTED(&p, TX, RX);
	u->state = KV_UP_IDLE;
	p = segment(&flow.u[0], RST, NULL, 0);
	send_from(&flow.u[0], &p);
	SHIFTED(&p, -RX, -TX);
	COUNTED();
}

/* After a return: both home sockets are where their peers think. */
static void test_after_return(void)
{
	struct kv_client c;
	struct packet p;

	flow_begin();
	BEGIN(0);
	p = home_segment(&flow.c, 0, home_write_seq(flow.c.home), home_rcv_nxt(flow.c.home));
	gw_egress(&p);
	CHECK_EQ(gw.verdict, VERDICT_MUTE);
	p = home_segment(&flow.u[0], 0, home_write_seq(flow.u[0].home),
			 home_rcv_nxt(flow.u[0].home));
	gw_egress(&p);
	CHECK_EQ(gw.verdict, VERDICT_MUTE);
	COUNTED(N(home_muted, 2));
	BACKEND_SAYS(0, ANSWER, LEN(ANSWER));
	CLIENT_ACKS(0);
	COUNTED(TO_CLIENT_N(1, LEN(ANSWER)), TO_BACKEND_N(1, 0), N(returns, 1));
	POOLED(0);
	c = client_entry();
	/* An echo of before the lend would look like a round trip of that length. */
	p.tsecr = flow.u[0].tsval_sent - 1000;
	gw_egress(&p);
	p.tsecr = flow.u[0].tsval_sent;
	SHIFTED(&p, slot(0)->tx_bypass, slot(0)->rx_bypass);
	CHECK_EQ(gw.out.seq, flow.u[0].ack);
	CHECK_EQ(gw.out.ack, flow.u[0].seq);
	p = home_segment(&flow.c, 0, home_write_seq(flow.c.home), home_rcv_nxt(flow.c.home));
	p.tsecr = flow.c.tsval_sent - 1000;
	gw_egress(&p);
	p.tsecr = flow.c.tsval_sent;
	SHIFTED(&p, c.tx_bypass, c.rx_bypass);
	CHECK_EQ(gw.out.seq, flow.c.ack);
	CHECK_EQ(gw.out.ack, flow.c.seq);
	/* a request that is no express one goes home */
	p = segment(&flow.c, PSH, "GET / HTTP/1.0\r\n\r\n", 18);
	send_from(&flow.c, &p);
	SHIFTED(&p, -c.rx_bypass, -c.tx_bypass);
	COUNTED(N(agent_head_odd, 1));
}

/* A SYN of the same tuple: while the home socket lives it answers, when it is gone so is its
 * entry. */
static void test_syn(void)
{
	struct packet p;

	flow_begin();
	bypassed(KV_CLIENT_HOME);
	p = segment(&flow.c, 0, NULL, 0);
	p.flags = SYN;
	send_from(&flow.c, &p);
	UNTOUCHED();
	CHECK_EQ(client_entry().state, KV_CLIENT_HOME);
	peer_close(&flow.c);
	gw_ingress(&p);
	UNTOUCHED();
	memcpy(flow.c.key.local, p.path.peer, 16);
	memcpy(flow.c.key.peer, p.path.local, 16);
	flow.c.key.local_port = p.path.peer_port;
	flow.c.key.peer_port = p.path.local_port;
	CHECK_EQ(client_entry().state, KV_NONE);
	COUNTED();
}

/* The SYN came while the old home socket lived, and that ended before the SYN was looked up: the
 * connection that answers it begins without the old one's shifts. */
static void test_syn_ack(void)
{
	struct kv_tuple key;
	struct packet p;

	flow_begin();
	bypassed(KV_CLIENT_AGENT);
	key = flow.c.key;
	p = home_segment(&flow.c, SYN, home_write_seq(flow.c.home), home_rcv_nxt(flow.c.home));
	gw_egress(&p);
	UNTOUCHED();
	CHECK_EQ(client_entry().state, KV_CLIENT_AGENT);
	peer_close(&flow.c);
	gw_egress(&p);
	UNTOUCHED();
	flow.c.key = key;
	CHECK_EQ(client_entry().state, KV_NONE);
	COUNTED();
}

static void test_not_ours(void)
{
	__u8 frame[PACKET_MAX];
	struct packet p;
	__u32 len;

	flow_begin();
	/* another port; nothing of it is known */
	p = segment(&flow.c, PSH, GET, LEN(GET));
	p.path.peer_port++;
	gw_ingress(&p);
	UNTOUCHED();
	gw_egress(&p);
	UNTOUCHED();
	/* another address of the service's port, unless it listens on all */
	p = segment(&flow.c, PSH, GET, LEN(GET));
	memcpy(p.path.peer, flow.u[0].key.peer, 16);
	gw_ingress(&p);
	UNTOUCHED();
	/* a client without an entry: pure acks, fragments */
	if (!flow.wrapped) {
		p = segment(&flow.c, 0, NULL, 0);
		gw_ingress(&p);
		UNTOUCHED();
		p = segment(&flow.c, PSH, GET, LEN(GET));
		p.fragment = flow.family == AF_INET;
		if (p.fragment)
			gw_ingress(&p);
		UNTOUCHED();
	}
	/* no TCP; a data offset beyond the segment */
	p = segment(&flow.c, PSH, GET, LEN(GET));
	len = packet_write(&p, frame);
	frame[flow.family == AF_INET ? 14 + 9 : 14 + 6] = IPPROTO_UDP;
	gw_skip_check = true;
	gw_run_frame(gw.skel->progs.kv_ingress, frame, len, 0);
	UNTOUCHED();
	len = packet_write(&p, frame);
	frame[flow.family == AF_INET ? 14 + 20 + 12 : 14 + 40 + 12] = 0x40;
	gw_run_frame(gw.skel->progs.kv_ingress, frame, len, 0);
	UNTOUCHED();
	p.len = 0;
	len = packet_write(&p, frame);
	frame[flow.family == AF_INET ? 14 + 20 + 12 : 14 + 40 + 12] = 0xf0;
	gw_run_frame(gw.skel->progs.kv_ingress, frame, len, 0);
	UNTOUCHED();
	/* an IP length beyond the frame */
	len = packet_write(&p, frame);
	frame[flow.family == AF_INET ? 14 + 2 : 14 + 4] = 0x10;
	gw_run_frame(gw.skel->progs.kv_ingress, frame, len, 0);
	UNTOUCHED();
	gw_skip_check = false;
	COUNTED();
}

static void test_any_address(void)
{
	struct kv_listen at = {.port = flow.c.key.local_port};
	__u32 id = SERVICE;

	flow_begin();
	gw_clear(gw.skel->maps.kv_service_ids);
	at.port = flow.c.key.local_port;
	NEED(!bpf_map_update_elem(bpf_map__fd(gw.skel->maps.kv_service_ids), &at, &id, BPF_ANY));
	BEGIN(0);
}

/* The ack that comes with a request covers bytes of the home socket: that gets a copy, in which the
 * request's bytes are old ones. */
static void test_ack_copy(void)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = LOCAL_IFINDEX, .attach_point = BPF_TC_INGRESS);
	LIBBPF_OPTS(bpf_tc_opts, opts, .prog_fd = bpf_program__fd(gw.skel->progs.kv_ingress));
	struct packet p;
	__u32 rcv_nxt;
	char byte;

	flow_begin();
	peer_deafen(&flow.c);
	NEED(write(flow.c.home, "hello", 5) == 5);
	flow.c.ack += 5;
	rcv_nxt = home_rcv_nxt(flow.c.home);
	CHECK_EQ(home_info(flow.c.home).tcpi_unacked, 1);
	NEED(!bpf_tc_hook_create(&hook) && !bpf_tc_attach(&hook, &opts));
	flow_pair(0);
	p = segment(&flow.c, PSH, GET, LEN(GET));
	p.loopback = true;
	gw_ingress(&p);
	TO_BACKEND(0, &p);
	COUNTED(LENT(LEN(GET)), N(home_ack_copies, 1));
	CHECK_EQ(home_info(flow.c.home).tcpi_unacked, 0);
	CHECK_EQ(home_rcv_nxt(flow.c.home), rcv_nxt);
	CHECK(recv(flow.c.home, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
	hook.attach_point = BPF_TC_INGRESS | BPF_TC_EGRESS;
	bpf_tc_hook_destroy(&hook);
}

static void test_home_exists(void)
{
	int listener = home_socket(flow.family, GATEWAY_HOST, 9999, 4096);
	struct kv_tuple keys[3];

	flow_begin();
	NEED(!listen(listener, 1));
	keys[0] = keys[1] = keys[2] = flow.c.key;
	keys[1].local_port = htons(9999);
	keys[2].peer_port = htons(1);
	keys[2].local_port = htons(9998);
	for (int i = 0; i < 3; i++) {
		char packet[64] = {};
		LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = packet,
			    .data_size_in = sizeof(packet));

		memcpy(packet, &keys[i], sizeof(keys[i]));
		NEED(!bpf_prog_test_run_opts(bpf_program__fd(gw.skel->progs.kv_home_exists),
					     &opts));
		CHECK_EQ(opts.retval, !i);
	}
	close(listener);
}

int main(void)
{
	static const struct prog_test tests[] = {
		{"client's segments are shifted", test_client},
		{"upstream's segments are shifted", test_upstream},
		{"after a return", test_after_return},
		{"SYN", test_syn},
		{"SYN-ACK", test_syn_ack},
		{"none of ours", test_not_ours},
		{"service on any address", test_any_address},
		{"copy of an ack", test_ack_copy},
		{"sockets are found", test_home_exists},
	};

	return TALK_MAIN(tests);
}
