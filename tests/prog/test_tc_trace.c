// SPDX-License-Identifier: BSD-2-Clause
/* The flight recorder: what is written of a request, in both lanes, and what is left alone. */
#include "common/clock.h"
#include "talk.h"

#define POST "POST /v1/completions HTTP/1.1\r\nHost: a\r\n" HINT "Content-Length: 4\r\n\r\nbody"
#define SECOND 1000000000ull
#define FIRST 1000 /* number */

static struct {
	struct kv_tracing *ring;
	struct kv_trace *traces;
	struct kv_trace is; /* the record read last */
} rec;

static void trace_begin(void)
{
	flow_begin();
	rec.ring = prog_memory(gw.skel->maps.kv_tracing);
	rec.traces = prog_memory(gw.skel->maps.kv_traces);
	memset(rec.traces, 0, TRACES * sizeof(*rec.traces));
	*rec.ring = (struct kv_tracing){.next = FIRST, .mask = TRACES - 1, .sample = 1};
}

static void trace_end(void)
{
	memset(rec.ring, 0, sizeof(*rec.ring));
	munmap(rec.ring, sysconf(_SC_PAGESIZE));
	munmap(rec.traces, TRACES * sizeof(*rec.traces));
}

static struct kv_trace *place(__u64 number)
{
	return &rec.traces[number % TRACES];
}

/* Reads the record of this number. */
static const struct kv_trace *record(__u64 number)
{
	memset(&rec.is, 0, sizeof(rec.is));
	CHECK(kv_trace_read(place(number), &rec.is));
	CHECK_EQ(kv_trace_number(rec.is.word), number);
	return &rec.is;
}

#define MADE(n) CHECK_EQ(rec.ring->next, FIRST + (n))

static void decide(__u64 again)
{
	agent_prompt();
	gw.call->from = (struct kv_trace_from){
		.again = again,
		.model = 55,
		.client = {1, 2, 3, 4},
		.port = 5,
		.reason = KV_CNT_agent_no_hint + 1,
		.flags = KV_TRACE_AGENT,
	};
	agent_call(KV_CALL_DECIDE);
}

static void end(__u64 number, enum kv_trace_end how, __u32 status)
{
	gw.call->dispatch.trace = number;
	gw.call->end = how;
	gw.call->status = status;
	gw.call->bytes = 1234;
	agent_call(KV_CALL_TRACE_END);
}

/* ---- express ------------------------------------------------------------------------- */

static void test_express(void)
{
	const struct kv_trace *t;
	__u64 before = kv_now_ns();

	trace_begin();
	ASK(0, POST, LEN(POST));
	MADE(1);
	t = record(FIRST);
	CHECK_EQ(t->end, KV_TRACE_OPEN);
	CHECK_EQ(t->flags, KV_TRACE_BY_COST);
	CHECK_EQ(t->reason, 0);
	CHECK_MEM(t->client, flow.c.key.peer, sizeof(t->client));
	CHECK_EQ(t->port, flow.c.key.peer_port);
	CHECK_EQ(t->service, SERVICE);
	CHECK_EQ(t->backend, BACKEND);
	CHECK_EQ(t->second, KV_TRACE_NOBODY);
	CHECK_EQ(t->deepest, KV_TRACE_NOBODY);
	CHECK_EQ(t->total, 300);
	CHECK_EQ(t->own, 300);
	CHECK_EQ(t->matched, 0);
	CHECK_EQ(t->rungs, 2);
	CHECK_EQ(t->looked, 2);
	CHECK_EQ(t->decisions, 1);
	CHECK_EQ(t->candidates, 1);
	CHECK_EQ(t->listed, 1);
	CHECK_EQ(t->backends[0].backend, BACKEND);
	CHECK_EQ(t->backends[0].requests, 0); /* without this one */
	CHECK(t->at_ns >= before && t->at_ns <= kv_now_ns());
	CHECK_EQ(t->answered_ns, 0);
	BACKEND_SAYS(0, ANSWER, LEN(ANSWER));
	t = record(FIRST);
	CHECK_EQ(t->status, 200);
	CHECK(t->answered_ns >= t->at_ns);
	CHECK_EQ(t->end, KV_TRACE_OPEN);
	CLIENT_ACKS(0);
	t = record(FIRST);
	CHECK_EQ(t->end, KV_TRACE_DONE);
	CHECK_EQ(t->status, 200);
	CHECK_EQ(t->bytes, LEN(ANSWER));
	CHECK(t->ended_ns >= t->answered_ns);
	/* the next one of this connection, and what it finds */
	ASK(0, POST, LEN(POST));
	MADE(2);
	t = record(FIRST + 1);
	CHECK_EQ(t->matched, 200);
	CHECK_EQ(t->best, 200);
	CHECK_EQ(t->deepest, BACKEND);
	CHECK_EQ(t->looked, 1);
	CHECK_EQ(t->own, 100);
	CHECK_EQ(t->backends[0].matched, 200);
	CHECK_EQ(t->backends[0].discount, 0);
	BACKEND_SAYS(0, ANSWER, LEN(ANSWER));
	CLIENT_ACKS(0);
	/* what is held there does not count any more */
	gw.backends[BACKEND].discount = KV_DISCOUNT_ALL;
	ASK(0, POST, LEN(POST));
	MADE(3);
	t = record(FIRST + 2);
	CHECK_EQ(t->matched, 0);
	CHECK_EQ(t->best, 0);
	CHECK_EQ(t->deepest, KV_TRACE_NOBODY);
	CHECK_EQ(t->own, 300);
	CHECK_EQ(t->backends[0].backend, BACKEND);
	CHECK_EQ(t->backends[0].matched, 200);
	CHECK_EQ(t->backends[0].discount, KV_DISCOUNT_ALL);
	BACKEND_SAYS(0, ANSWER, LEN(ANSWER));
	CLIENT_ACKS(0);
	/* … and now a part of it does */
	gw.backends[BACKEND].discount = 55;
	ASK(0, POST, LEN(POST));
	MADE(4);
	t = record(FIRST + 3);
	CHECK_EQ(t->matched, 90);
	CHECK_EQ(t->best, 90);
	CHECK_EQ(t->deepest, BACKEND);
	CHECK_EQ(t->own, 210);
	CHECK_EQ(t->backends[0].matched, 200);
	CHECK_EQ(t->backends[0].discount, 55);
	trace_end();
}

static void backend_resets(__u32 unacknowledged)
{
	struct packet p = segment(&flow.u[0], RST, NULL, 0);

	p.ack -= unacknowledged;
	send_from(&flow.u[0], &p);
}

/* Forgotten, and sent again: one record. */
static void test_forgotten(void)
{
	const struct kv_trace *t;

	trace_begin();
	ASK(0, POST, LEN(POST));
	backend_resets(LEN(POST));
	CHECK_EQ(client_entry().state, KV_CLIENT_HOME);
	CHECK_EQ(record(FIRST)->end, KV_TRACE_AGAIN);
	CHECK_EQ(rec.is.ended_ns, 0);
	flow.c.seq -= LEN(POST);
	ASK(1, POST, LEN(POST));
	MADE(1);
	t = record(FIRST);
	CHECK_EQ(t->end, KV_TRACE_OPEN);
	CHECK_EQ(t->decisions, 2);
	BACKEND_SAYS(1, ANSWER, LEN(ANSWER));
	CLIENT_ACKS(1);
	t = record(FIRST);
	CHECK_EQ(t->end, KV_TRACE_DONE);
	CHECK_EQ(t->decisions, 2);
	CHECK_EQ(t->status, 200);
	trace_end();
}

static void test_ends(void)
{
	static const char part[] = "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello";
	struct packet p;

	trace_begin();
	ASK(0, POST, LEN(POST));
	BACKEND_ACKS(0);
	backend_resets(0);
	CHECK_EQ(record(FIRST)->end, KV_TRACE_FAILED);
	CHECK_EQ(rec.is.status, 502);
	trace_end();

	trace_begin();
	ASK(0, POST, LEN(POST));
	BACKEND_SAYS(0, part, LEN(part));
	backend_resets(0);
	CHECK_EQ(record(FIRST)->end, KV_TRACE_BROKEN);
	CHECK_EQ(rec.is.status, 200);
	CHECK_EQ(rec.is.bytes, LEN(part));
	trace_end();

	trace_begin();
	ASK(0, POST, LEN(POST));
	BACKEND_SAYS(0, part, LEN(part));
	p = segment(&flow.c, RST, NULL, 0);
	send_from(&flow.c, &p);
	CHECK_EQ(record(FIRST)->end, KV_TRACE_ABORTED);
	trace_end();

	/* a FIN inside of the body: the pair's end looks good */
	trace_begin();
	ASK(0, POST, LEN(POST));
	BACKEND_SAYS(0, part, LEN(part));
	p = segment(&flow.u[0], FIN, NULL, 0);
	send_from(&flow.u[0], &p);
	CLIENT_ACKS(0);
	CHECK_EQ(record(FIRST)->end, KV_TRACE_BROKEN);
	trace_end();
}

/* The entry says why a request was left to the agent. */
static void test_left(void)
{
	static const char plain[] = "POST /v1/completions HTTP/1.1\r\nHost: a\r\n"
				    "Content-Length: 4\r\n\r\nbody";
	struct packet p;

	trace_begin();
	p = segment(&flow.c, PSH, plain, LEN(plain));
	send_from(&flow.c, &p);
	CHECK_EQ(client_entry().left, KV_CNT_agent_no_hint + 1);
	MADE(0);
	trace_end();
}

/* ---- agent --------------------------------------------------------------------------- */

static void test_agent(void)
{
	const struct kv_trace *t;
	__u64 number;

	trace_begin();
	decide(0);
	number = gw.call->dispatch.trace;
	CHECK_EQ(number, FIRST);
	t = record(FIRST);
	CHECK_EQ(t->flags, KV_TRACE_AGENT | KV_TRACE_BY_COST);
	CHECK_EQ(t->reason, KV_CNT_agent_no_hint + 1);
	CHECK_EQ(t->model, 55);
	CHECK_EQ(t->client[3], 4);
	agent_call(KV_CALL_UNDO);
	CHECK_EQ(record(FIRST)->end, KV_TRACE_AGAIN);
	decide(number);
	MADE(1);
	CHECK_EQ(record(FIRST)->decisions, 2);
	gw.dispatches[SLOT(0)] = gw.call->dispatch;
	gw.call->status = 429;
	agent_call(KV_CALL_SETTLE_REFUSED);
	CHECK_EQ(record(FIRST)->status, 429);
	agent_call(KV_CALL_SETTLE_FAILED);
	CHECK_EQ(record(FIRST)->end, KV_TRACE_AGAIN);
	decide(number);
	CHECK_EQ(record(FIRST)->decisions, 3);
	CHECK_EQ(rec.is.status, 0);
	CHECK_EQ(rec.is.answered_ns, 0);
	gw.dispatches[SLOT(0)] = gw.call->dispatch;
	gw.call->status = 200;
	agent_call(KV_CALL_SETTLE_ANSWERED);
	agent_call(KV_CALL_SETTLE_FINISHED);
	end(number, KV_TRACE_DONE, 0);
	t = record(FIRST);
	CHECK_EQ(t->end, KV_TRACE_DONE);
	CHECK_EQ(t->status, 200);
	CHECK_EQ(t->bytes, 1234);
	/* the first end counts */
	end(number, KV_TRACE_ABORTED, 0);
	CHECK_EQ(record(FIRST)->end, KV_TRACE_DONE);
	/* and an ended record is not gone on with */
	decide(number);
	CHECK_EQ(gw.call->dispatch.trace, FIRST + 1);
	CHECK_EQ(record(FIRST)->end, KV_TRACE_DONE);
	trace_end();
}

static void test_refused(void)
{
	trace_begin();
	decide(0);
	gw.call->dispatch.query.total = 77;
	end(0, KV_TRACE_REFUSED, 413);
	MADE(2);
	CHECK_EQ(record(FIRST + 1)->end, KV_TRACE_REFUSED);
	CHECK_EQ(rec.is.status, 413);
	CHECK_EQ(rec.is.backend, KV_TRACE_NOBODY);
	CHECK_EQ(rec.is.total, 77);
	CHECK_EQ(rec.is.decisions, 0);
	CHECK_EQ(rec.is.listed, 0);
	trace_end();
}

/* ---- the ring ------------------------------------------------------------------------ */

static void test_overwritten(void)
{
	__u64 rise[KV_CNT_MAX];

	trace_begin();
	for (int i = 0; i < TRACES + 1; i++)
		decide(0);
	MADE(TRACES + 1);
	CHECK_EQ(record(FIRST + TRACES)->end, KV_TRACE_OPEN);
	gw_rise(rise);
	CHECK_EQ(rise[KV_CNT_trace_overwritten], 0);
	end(FIRST, KV_TRACE_DONE, 200);
	gw_rise(rise);
	CHECK_EQ(rise[KV_CNT_trace_overwritten], 1);
	CHECK_EQ(record(FIRST + TRACES)->end, KV_TRACE_OPEN);
	CHECK_EQ(rec.is.status, 0);
	end(FIRST + TRACES, KV_TRACE_DONE, 200);
	CHECK_EQ(record(FIRST + TRACES)->end, KV_TRACE_DONE);
	trace_end();
}

/* Another CPU is writing there: nobody waits, nothing is written, it is counted. */
static void test_busy(void)
{
	__u64 rise[KV_CNT_MAX], word;
	struct kv_trace t;

	trace_begin();
	decide(0);
	word = place(FIRST)->word;
	CHECK_EQ(word & 1, 0);
	place(FIRST)->word = word | 1;
	gw_rise(rise);
	end(FIRST, KV_TRACE_DONE, 200);
	gw_rise(rise);
	CHECK_EQ(rise[KV_CNT_trace_missed], 1);
	CHECK_EQ(place(FIRST)->end, KV_TRACE_OPEN);
	CHECK_EQ(place(FIRST)->word, word | 1);
	CHECK(!kv_trace_read(place(FIRST), &t));
	/* also its next owner */
	rec.ring->next = FIRST + TRACES;
	decide(0);
	gw_rise(rise);
	CHECK_EQ(rise[KV_CNT_trace_missed], 1);
	CHECK_EQ(gw.call->dispatch.trace, KV_TRACE_SKIPPED);
	CHECK_EQ(place(FIRST)->word, word | 1);
	end(KV_TRACE_SKIPPED, KV_TRACE_DONE, 200);
	gw_rise(rise);
	CHECK_EQ(rise[KV_CNT_trace_missed], 0);
	CHECK_EQ(rise[KV_CNT_trace_overwritten], 0);
	/* one who comes a round too late */
	place(FIRST)->word = word;
	rec.ring->next = FIRST - TRACES;
	decide(0);
	CHECK_EQ(gw.call->dispatch.trace, KV_TRACE_SKIPPED);
	CHECK_EQ(place(FIRST)->word, word);
	trace_end();
}

static void test_off(void)
{
	trace_begin();
	rec.ring->sample = 0;
	ASK(0, POST, LEN(POST));
	BACKEND_SAYS(0, ANSWER, LEN(ANSWER));
	CLIENT_ACKS(0);
	decide(0);
	CHECK_EQ(gw.call->dispatch.trace, 0);
	end(0, KV_TRACE_REFUSED, 413);
	MADE(0);
	for (int i = 0; i < TRACES; i++)
		CHECK_EQ(rec.traces[i].word, 0);
	trace_end();
}

static void test_sample(void)
{
	__u64 made;

	trace_begin();
	rec.ring->sample = 4;
	for (int i = 0; i < 400; i++)
		decide(0);
	made = rec.ring->next - FIRST;
	CHECK(made > 20 && made < 300); /* 100, and 9 times its deviation */
	trace_end();
}

int main(void)
{
	static const struct prog_test tests[] = {
		{"express lane: decided, answered, ended", test_express},
		{"express lane: forgotten and sent again is one record", test_forgotten},
		{"express lane: how it ended", test_ends},
		{"what is left to the agent has its reason in the entry", test_left},
		{"agent lane: decided again, refused, answered, ended once", test_agent},
		{"answered by the gateway itself", test_refused},
		{"a later request takes the place, and keeps it", test_overwritten},
		{"whoever finds a record being written leaves it alone", test_busy},
		{"off", test_off},
		{"one in so many", test_sample},
	};

	return TALK_MAIN(tests);
}
