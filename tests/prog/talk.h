/* SPDX-License-Identifier: BSD-2-Clause */
/* Whole steps of a conversation, each checked; and the main program of the tests that hold them. */
#ifndef KVSTEER_TESTS_TALK_H
#define KVSTEER_TESTS_TALK_H

#include "flow.h"

#define POST_HEAD "POST /v1/completions HTTP/1.1\r\nHost: a\r\n"
#define HINT "KV-Prefix: 1;300,100:0000000000000abc,200:0000000000000def\r\n"
#define GET "GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n"
#define ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
#define LEN(text) ((__u32)sizeof(text) - 1)

/* Counters of a lend of a request without a hint, whose first segment has len bytes. */
#define LENT(len)                                                                                  \
	N(decisions, 1), N(lends, 1), N(requests_express, 1), N(packets_to_backend, 1),            \
		N(bytes_to_backend, len)
#define TO_BACKEND_N(packets, bytes) N(packets_to_backend, packets), N(bytes_to_backend, bytes)
#define TO_CLIENT_N(packets, bytes) N(packets_to_client, packets), N(bytes_to_client, bytes)

/* A client's segment that reaches backend i. */
static inline void client_says(const char *file, int line, int i, __u8 flags, const void *data,
			       __u32 len)
{
	struct packet p = segment(&flow.c, flags, data, len);
	struct spliced s = {&flow.c, &flow.u[i], &p, len, flags | ACK, false};

	send_from(&flow.c, &p);
	check_spliced(file, line, &s);
	flow.c.seq += len;
	flow.u[i].ack += len;
}

/* A backend's segment that reaches the client. */
static inline void backend_says(const char *file, int line, int i, __u8 flags, const void *data,
				__u32 len)
{
	struct packet p = segment(&flow.u[i], flags, data, len);
	struct spliced s = {&flow.u[i], &flow.c, &p, len, (flags & ~FIN) | ACK, !flow.uploading};

	send_from(&flow.u[i], &p);
	check_spliced(file, line, &s);
	flow.u[i].seq += len;
	flow.c.ack += len;
}

/* A new request, that is lent to upstream i. */
#define ASK(i, text, len)                                                                          \
	do {                                                                                       \
		flow_pair(i);                                                                      \
		client_says(__FILE__, __LINE__, i, PSH, text, len);                                \
		CHECK_EQ(client_entry().state, KV_CLIENT_LENT);                                    \
		CHECK_EQ(slot(i)->state, KV_UP_LENT);                                              \
		CHECK(!(gw.backends[BACKEND].idle[0] & BIT(i)));                                   \
	} while (0)
#define CLIENT_SAYS(i, text, len) client_says(__FILE__, __LINE__, i, PSH, text, len)
#define CLIENT_ACKS(i) client_says(__FILE__, __LINE__, i, 0, NULL, 0)
#define BACKEND_SAYS(i, text, len) backend_says(__FILE__, __LINE__, i, PSH, text, len)
#define BACKEND_ACKS(i) backend_says(__FILE__, __LINE__, i, 0, NULL, 0)

/* A GET lent to upstream i, not counted again. */
#define BEGIN(i)                                                                                   \
	do {                                                                                       \
		ASK(i, GET, LEN(GET));                                                             \
		COUNTED(LENT(LEN(GET)));                                                           \
	} while (0)

/* The client acknowledges all, and that ends the pair. */
static inline void check_return(const char *file, int line, int i)
{
	client_says(file, line, i, 0, NULL, 0);
	COUNTED(TO_BACKEND_N(1, 0), N(returns, 1));
	POOLED(i);
}

#define RETURNS(i) check_return(__FILE__, __LINE__, i)

static const struct flow_kind {
	const char *suffix;
	int family;
	bool wrapped, engine, local;
} flow_kinds[] = {
	{", IPv4", AF_INET, false, false, false},
	{", IPv4, numbers wrap", AF_INET, true, false, false},
	{", IPv6", AF_INET6, false, false, false},
	{", IPv6, numbers wrap", AF_INET6, true, false, false},
	{", IPv4, engine on this host", AF_INET, false, true, false},
	{", IPv6, engine on this host", AF_INET6, false, true, false},
	{", IPv4, all on this host", AF_INET, false, false, true},
	{", IPv6, all on this host", AF_INET6, false, false, true},
};

/* All tests in every kind of world. */
static inline int talk_main(const struct prog_test *tests, unsigned int n)
{
	const unsigned int kinds = sizeof(flow_kinds) / sizeof(flow_kinds[0]);
	bool loaded[2] = {};

	for (unsigned int i = 0; i < kinds; i++) {
		const struct flow_kind *k = &flow_kinds[i];

		if (!prog_begin(tests, n, k->suffix))
			continue;
		if (!i)
			prog_enter_namespace();
		if (!loaded[k->local]) {
			gw_unload();
			gw_load(k->local ? LOCAL_IFINDEX : OTHER_IFINDEX);
			loaded[k->local] = true;
		}
		flow.family = k->family;
		flow.wrapped = k->wrapped;
		flow.engine = k->engine;
		flow.local = k->local;
		prog_run(tests, n, k->suffix);
		flow_end();
	}
	gw_unload();
	return check_done();
}

#define TALK_MAIN(tests) talk_main(tests, sizeof(tests) / sizeof((tests)[0]))

#endif /* KVSTEER_TESTS_TALK_H */
