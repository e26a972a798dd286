// SPDX-License-Identifier: BSD-2-Clause
/* Segments ahead of a hole where the framing must see every byte: passed on, kept, and framed when
 * the hole is filled. */
#include "cases.h"
#include "talk.h"

#define HEAD "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
#define LAST "0\r\n\r\n"
#define PARTS 24
#define ROUNDS 60

static char answer[6000];
static __u32 answer_len;

/* A stream of small chunks, none of which ends where a segment does. */
static void answer_make(void)
{
	char *at = answer + sprintf(answer, HEAD);

	for (int i = 0; i < 300; i++)
		at += sprintf(at, "%x\r\n%.*s\r\n", i % 13 + 1, i % 13 + 1, "abcdefghijklmnop");
	at += sprintf(at, LAST);
	answer_len = at - answer;
}

static int send_part(__u32 from, __u32 to)
{
	struct packet p = segment(&flow.u[0], PSH, answer + from, to - from);

	p.seq += from;
	send_from(&flow.u[0], &p);
	if (gw.verdict != VERDICT_DROP)
		TO_CLIENT(0, &p);
	return gw.verdict;
}

/* All parts of the answer, in an order by chance; who is dropped comes again. */
static void test_any_order(void)
{
	__u32 cut[PARTS + 1], order[PARTS], left, stashed = 0;
	__u64 rise[KV_CNT_MAX];

	answer_make();
	for (int round = 0; round < ROUNDS; round++) {
		flow_begin();
		BEGIN(0);
		for (__u32 i = 0; i <= PARTS; i++)
			cut[i] = i == PARTS ? answer_len
					    : answer_len * i / PARTS +
						      (i ? chance(answer_len / PARTS) : 0);
		for (__u32 i = 0; i < PARTS; i++) {
			__u32 k = chance(i + 1);

			order[i] = order[k];
			order[k] = i;
		}
		left = PARTS;
		for (int turn = 0; left; turn++) {
			__u32 i = order[turn % PARTS];

			NEED(turn < 100 * PARTS);
			if (i != KV_NONE && send_part(cut[i], cut[i + 1]) != VERDICT_DROP) {
				order[turn % PARTS] = KV_NONE;
				left--;
			}
		}
		CHECK((client_entry().pair.response.state == KV_FRAMING_DONE));
		flow.u[0].seq += answer_len;
		flow.c.ack += answer_len;
		CLIENT_ACKS(0);
		POOLED(0);
		gw_rise(rise);
		CHECK_EQ(rise[KV_CNT_returns], 1);
		CHECK_EQ(rise[KV_CNT_broken_response], 0);
		stashed += rise[KV_CNT_stashed];
	}
	CHECK(stashed > ROUNDS);
}

/* What was passed on lies behind the response's end: no client may ever read it. */
static void test_behind_the_end(void)
{
	struct packet p;

	flow_begin();
	BEGIN(0);
	BACKEND_SAYS(0, HEAD, LEN(HEAD));
	p = segment(&flow.u[0], PSH, "HTTP/1.1 200 OK\r\n", 17);
	p.seq += LEN(LAST);
	send_from(&flow.u[0], &p);
	TO_CLIENT(0, &p);
	COUNTED(TO_CLIENT_N(2, LEN(HEAD) + 17), N(stashed, 1));
	p = segment(&flow.u[0], PSH, LAST, LEN(LAST));
	send_from(&flow.u[0], &p);
	DROPPED();
	COUNTED(N(broken_response, 1));
	DONE(0, KV_EVENT_RESET_CLIENT, KV_CLIENT_AGENT);
}

/* The same with a gap between the end and what was passed on: the client keeps that, and what the
 * next response fills the gap with would have it read. The end may also be cut out of a segment. */
static void test_behind_a_gap(void)
{
	static const char end_and_more[] = LAST "HTTP/1.1 200 OK\r\n";
	const __u32 ends[] = {LEN(LAST), sizeof(end_and_more) - 1};
	struct packet p;

	for (int i = 0; i < 2; i++) {
		flow_begin();
		BEGIN(0);
		BACKEND_SAYS(0, HEAD, LEN(HEAD));
		p = segment(&flow.u[0], PSH, "another's bytes", 15);
		p.seq += 100;
		send_from(&flow.u[0], &p);
		TO_CLIENT(0, &p);
		COUNTED(TO_CLIENT_N(2, LEN(HEAD) + 15), N(stashed, 1));
		p = segment(&flow.u[0], PSH, end_and_more, ends[i]);
		send_from(&flow.u[0], &p);
		DROPPED();
		COUNTED(N(broken_response, 1));
		DONE(0, KV_EVENT_RESET_CLIENT, KV_CLIENT_AGENT);
	}
}

/* Too many holes, or too far ahead: dropped, and sent again. */
static void test_bounds(void)
{
	struct packet p;

	flow_begin();
	BEGIN(0);
	BACKEND_SAYS(0, HEAD, LEN(HEAD));
	COUNTED(TO_CLIENT_N(1, LEN(HEAD)));
	p = segment(&flow.u[0], PSH, "1\r\nx\r\n", 6);
	for (int i = 0; i < KV_STASH_RUNS; i++) {
		p.seq += 12;
		gw_ingress(&p);
		CHECK(reached(&flow.c));
	}
	COUNTED(TO_CLIENT_N(4, 24), N(stashed, 4));
	p.seq += 12;
	gw_ingress(&p);
	DROPPED();
	/* but what touches one of them is welcome */
	p.seq -= 6;
	gw_ingress(&p);
	CHECK(reached(&flow.c));
	COUNTED(TO_CLIENT_N(1, 6), N(stashed, 1), N(drop_out_of_order, 1));
	p.seq = flow.u[0].seq + KV_STASH_BYTES - 5;
	gw_ingress(&p);
	DROPPED();
	COUNTED(N(drop_out_of_order, 1));
}

/* Two pairs that share a stash: the second one does without, until the first has ended. */
static void test_shared(void)
{
	struct bpf_map *map = gw.skel->maps.kv_stashes;
	__u32 size = bpf_map__value_size(map), i = SLOT(0) * 2654435761u >> 24;
	__u64 *stash = calloc(1, size);
	struct packet p;

	NEED(stash);
	flow_begin();
	BEGIN(0);
	BACKEND_SAYS(0, HEAD, LEN(HEAD));
	slot(1)->state = KV_UP_LENT;
	*stash = (__u64)(SLOT(1) + 1) << 32 | slot(1)->gen;
	NEED(!bpf_map_update_elem(bpf_map__fd(map), &i, stash, BPF_ANY));
	p = segment(&flow.u[0], PSH, LAST, LEN(LAST));
	p.seq += 6;
	gw_ingress(&p);
	DROPPED();
	COUNTED(TO_CLIENT_N(1, LEN(HEAD)), N(drop_out_of_order, 1));
	slot(1)->gen++;
	gw_ingress(&p);
	CHECK(reached(&flow.c));
	COUNTED(TO_CLIENT_N(1, 5), N(stashed, 1));
	/* taken away: what was passed on cannot be framed any more */
	NEED(!bpf_map_update_elem(bpf_map__fd(map), &i, stash, BPF_ANY));
	p = segment(&flow.u[0], PSH, "1\r\nx\r\n", 6);
	gw_ingress(&p);
	DROPPED();
	COUNTED(N(broken_response, 1));
	DONE(0, KV_EVENT_RESET_CLIENT, KV_CLIENT_AGENT);
	free(stash);
}

int main(int argc, char **argv)
{
	static const struct prog_test tests[] = {
		{"parts of an answer in any order", test_any_order},
		{"passed on, and behind the end", test_behind_the_end},
		{"passed on, and behind a gap behind the end", test_behind_a_gap},
		{"too many holes, too far", test_bounds},
		{"a stash that two pairs share", test_shared},
	};

	case_seed(argc, argv);
	return TALK_MAIN(tests);
}
