// SPDX-License-Identifier: BSD-2-Clause
/* What is not an ordinary segment of a connection: path MTU messages, IP options, SYNs, TCP options
 * that make no sense. */
#include "quote.h"
#include "talk.h"

#define HEAD "HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n"

/* ---- path MTU ------------------------------------------------------------------------ */

/* A router says of a segment to `of`, as it left the gateway, that it is too big. */
static struct quote too_big(const struct peer *of, __u32 seq)
{
	struct quote q = {.path = of->key, .seq = seq, .mtu = 1300};

	memcpy(q.to, of->key.local, 16);
	memcpy(q.from, of->key.peer, 16);
	((__u8 *)q.from)[15] = 77; /* a router */
	return q;
}

static struct quote tell(const struct quote *q)
{
	__u8 frame[PACKET_MAX];
	const char *wrong;
	struct quote out;

	gw_skip_check = true;
	gw_run_frame(gw.skel->progs.kv_ingress, frame, quote_write(q, frame), 0);
	gw_skip_check = false;
	wrong = quote_read(&out, gw.frame, gw.frame_len);
	if (wrong && check_fail(__FILE__, __LINE__))
		printf("%s\n", wrong);
	return out;
}

/* from's segment was too big: it is told so, as of its own connection. */
static void check_told(const char *file, int line, const struct quote *out, const struct peer *from,
		       __u32 seq)
{
	struct kv_tuple mirror;

	memcpy(mirror.local, from->key.peer, 16);
	memcpy(mirror.peer, from->key.local, 16);
	mirror.local_port = from->key.peer_port;
	mirror.peer_port = from->key.local_port;
	if (gw.verdict != (flow.local ? VERDICT_OK : VERDICT_SENT) && check_fail(file, line))
		printf("verdict %d\n", gw.verdict);
	if ((memcmp(&out->path, &mirror, sizeof(mirror)) || memcmp(out->to, mirror.local, 16) ||
	     memcmp(out->from, from->key.local, 16)) &&
	    check_fail(file, line))
		printf("addresses differ\n");
	if ((out->seq != seq || out->mtu != 1300) && check_fail(file, line))
		printf("seq %u, expected %u; MTU %u\n", out->seq, seq, out->mtu);
}

#define TOLD(out, from, seq) check_told(__FILE__, __LINE__, out, from, seq)

static void test_path_mtu_lent(void)
{
	struct quote q, out;

	flow_begin();
	BEGIN(0);
	BACKEND_SAYS(0, HEAD, LEN(HEAD));
	COUNTED(TO_CLIENT_N(1, LEN(HEAD)));
	/* of the request, on the way to the backend */
	q = too_big(&flow.u[0], flow.u[0].base_ack);
	out = tell(&q);
	TOLD(&out, &flow.c, flow.c.base_seq);
	/* of the response, on the way to the client */
	q = too_big(&flow.c, flow.c.base_ack + 7);
	out = tell(&q);
	TOLD(&out, &flow.u[0], flow.u[0].base_seq + 7);
	COUNTED(N(icmp_passed_on, 2));
}

/* Not lent: the home socket is told of a position that it knows. */
static void test_path_mtu_home(void)
{
	struct quote q, out;
	struct kv_client c;

	flow_begin();
	if (!flow.wrapped)
		flow_client(1000, 2000);
	c = client_entry();
	q = too_big(&flow.c, flow.c.ack);
	out = tell(&q);
	CHECK_EQ(gw.verdict, VERDICT_OK);
	CHECK_EQ(out.seq, flow.c.ack - c.tx_bypass);
	CHECK_MEM(&out.path, &q.path, sizeof(q.path));
	CHECK_MEM(out.to, q.to, sizeof(q.to));
	slot(0)->tx_bypass = 5000;
	q = too_big(&flow.u[0], 6000);
	out = tell(&q);
	CHECK_EQ(gw.verdict, VERDICT_OK);
	CHECK_EQ(out.seq, 1000);
	COUNTED();
	/* nobody's */
	q.path.local_port ^= 1;
	tell(&q);
	UNTOUCHED();
}

/* ---- IP options, extension headers --------------------------------------------------- */

/* Behind four bytes of IPv4 options (NOP), or a header of IPv6 destination options. */
static void run_behind_options(struct bpf_program *prog, const struct packet *p)
{
	__u32 n = packet_is_ipv4(p) ? 4 : 8, at = packet_is_ipv4(p) ? 34 : 54, len;
	__u8 frame[PACKET_MAX + 8], *ip = frame + 14;
	__be16 field;

	len = packet_write(p, frame);
	memmove(frame + at + n, frame + at, len - at);
	if (packet_is_ipv4(p)) {
		memset(frame + at, 1, n);
		ip[0] = 0x46;
		field = htons(len + n - 14);
		memcpy(ip + 2, &field, 2);
		memset(ip + 10, 0, 2);
		field = htons(~inet_sum(ip, 24, 0));
		memcpy(ip + 10, &field, 2);
	} else {
		memcpy(frame + at, "\x06\x00\x01\x04\x00\x00\x00\x00", n);
		ip[6] = 60;
		field = htons(len + n - 54);
		memcpy(ip + 4, &field, 2);
	}
	gw_skip_check = true;
	gw_run_frame(prog, frame, len + n, 0);
	gw_skip_check = false;
}

static void test_ip_options(void)
{
	struct packet p;

	flow_begin();
	if (!flow.wrapped) {
		/* a connection that was never lent: the home socket's own matter */
		p = segment(&flow.c, PSH, GET, LEN(GET));
		run_behind_options(gw.skel->progs.kv_ingress, &p);
		UNTOUCHED();
		COUNTED();
	}
	BEGIN(0);
	p = segment(&flow.c, PSH, "x", 1);
	run_behind_options(gw.skel->progs.kv_ingress, &p);
	DROPPED();
	p = segment(&flow.u[0], PSH, "x", 1);
	run_behind_options(gw.skel->progs.kv_ingress, &p);
	DROPPED();
	COUNTED(N(drop_ip_options, 2));
	BACKEND_SAYS(0, ANSWER, LEN(ANSWER));
	CLIENT_ACKS(0);
	COUNTED(TO_CLIENT_N(1, LEN(ANSWER)), TO_BACKEND_N(1, 0), N(returns, 1));
	p = home_segment(&flow.c, PSH, home_write_seq(flow.c.home), home_rcv_nxt(flow.c.home));
	run_behind_options(gw.skel->progs.kv_egress, &p);
	DROPPED();
	COUNTED(N(drop_ip_options, 1));
}

/* ---- SYN, TCP options ---------------------------------------------------------------- */

/* The client's first segment of another connection. */
static struct packet syn_anew(void)
{
	struct packet p = segment(&flow.c, SYN, NULL, 0);

	p.flags = SYN;
	p.seq += 123456789;
	return p;
}

/* RFC 5961, section 4.2: a client that has forgotten the connection answers with an RST. */
static void test_syn_lent(void)
{
	struct packet p;

	flow_begin();
	BEGIN(0);
	p = syn_anew();
	send_from(&flow.c, &p);
	CHECK_EQ(gw.verdict, flow.local ? VERDICT_OK : VERDICT_SENT);
	CHECK_MEM(&gw.out.path, &flow.c.key, sizeof(flow.c.key));
	CHECK_EQ(gw.out.flags, ACK);
	CHECK_EQ(gw.out.ack, flow.c.base_seq);
	COUNTED(N(challenges, 1));
	p = segment(&flow.c, RST, NULL, 0);
	p.seq = gw.out.ack;
	send_from(&flow.c, &p);
	COUNTED(N(client_aborted, 1));
	DONE(0, KV_EVENT_CLIENT_GONE, KV_CLIENT_AGENT);
	/* a backend's */
	flow_begin();
	BEGIN(0);
	p = segment(&flow.u[0], SYN, NULL, 0);
	send_from(&flow.u[0], &p);
	DROPPED();
	COUNTED(N(drop_stale, 1));
}

/* The agent is gone, and its sockets with it: nobody else can tell that the client has come anew.
 */
static void test_syn_orphan(void)
{
	struct packet p;

	flow_begin();
	BEGIN(0);
	p = syn_anew();
	setsockopt(flow.c.home, IPPROTO_TCP, TCP_REPAIR, &(int){TCP_REPAIR_ON}, sizeof(int));
	close(flow.c.home);
	flow.c.home = -1;
	gw_ingress(&p);
	UNTOUCHED();
	COUNTED();
	CHECK_EQ(client_entry().state, KV_NONE); /* there is none */
	CHECK_EQ(slot(0)->state, KV_UP_DONE);
	LOAD(0, 0);
	EVENT(KV_EVENT_CLIENT_GONE, SLOT(0), &flow.c.key);
}

/* Lent on one CPU while on another the connection ended and its tuple became the next one's: that
 * one's segments are not the pair's, and its home socket does not sleep where the pair began. */
static void test_astray(void)
{
	for (int unsent = 0; unsent < 2; unsent++) {
		struct kv_client c;
		struct packet p;

		flow_begin();
		BEGIN(0);
		c = client_entry();
		c.rx_bypass += 1000;
		gw_client_set(&c.key, &c);
		p = segment(&flow.c, PSH, GET, LEN(GET));
		p.seq += unsent ? 0 : 1u << 30;
		p.ack += unsent ? 1u << 20 : 0;
		send_from(&flow.c, &p);
		DROPPED();
		COUNTED(N(drop_unsent_ack, unsent), N(drop_window, !unsent));
		CHECK_EQ(client_entry().state, KV_NONE);
		CHECK_EQ(slot(0)->state, KV_UP_DONE);
		LOAD(0, 0);
		EVENT(KV_EVENT_CLIENT_GONE, SLOT(0), &flow.c.key);
	}
}

/* Runs a frame whose TCP header has been changed, its checksum made right or left wrong. */
static void run_changed(const struct packet *p, __u8 *frame, __u32 len, bool right)
{
	__u32 at = packet_is_ipv4(p) ? 34 : 54;
	__be16 check;

	if (right) {
		memset(frame + at + 16, 0, 2);
		check = htons(~packet_tcp_sum(p, frame + at, len - at));
		memcpy(frame + at + 16, &check, 2);
	}
	gw_skip_check = true;
	gw_run_frame(gw.skel->progs.kv_ingress, frame, len, 0);
	gw_skip_check = false;
}

/* Two timestamp options: which of them would the receiver believe? */
static void test_tcp_options(void)
{
	__u8 frame[PACKET_MAX];
	struct packet p;
	__u32 len;

	flow_begin();
	BEGIN(0);
	p = segment(&flow.c, 0, NULL, 0);
	p.n_sack = 2;
	len = packet_write(&p, frame);
	/* in place of the SACK option, with its two NOPs */
	memcpy(frame + len - 20, "\x01\x01\x08\x0a\0\0\0\1\0\0\0\2\x01\x01\x08\x0a\0\0\0\1", 20);
	run_changed(&p, frame, len, true);
	DROPPED();
	COUNTED(N(drop_rewrite, 1));
}

/* A flipped bit is not believed, wherever it is; the segment comes again. */
static void test_checksum(void)
{
	static char text[1400] = ANSWER;
	__u8 frame[PACKET_MAX];
	struct packet p;
	__u32 len;

	flow_begin();
	BEGIN(0);
	for (int side = 0; side < 2; side++)
		for (__u32 size = 0; size < 1400; size += 97) {
			p = segment(side ? &flow.u[0] : &flow.c, PSH, text, size);
			len = packet_write(&p, frame);
			frame[len - 1 - size / 2] ^= 4;
			run_changed(&p, frame, len, false);
			DROPPED();
			COUNTED(N(drop_checksum, 1));
		}
	CHECK_EQ(client_entry().pair.resp_next, client_entry().pair.resp_start);
	BACKEND_SAYS(0, ANSWER, LEN(ANSWER));
	COUNTED(TO_CLIENT_N(1, LEN(ANSWER)));
	RETURNS(0);
}

int main(void)
{
	static const struct prog_test tests[] = {
		{"path MTU message about a lent pair", test_path_mtu_lent},
		{"path MTU message about a home socket's segment", test_path_mtu_home},
		{"behind IP options", test_ip_options},
		{"SYN on a lent connection", test_syn_lent},
		{"SYN where the home socket is gone", test_syn_orphan},
		{"a pair of the tuple's former connection", test_astray},
		{"TCP options that make no sense", test_tcp_options},
		{"wrong checksums", test_checksum},
	};

	return TALK_MAIN(tests);
}
