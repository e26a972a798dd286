// SPDX-License-Identifier: BSD-2-Clause
/* One GET, over loopback, to servers of every kind of goodness and badness. */
#include <signal.h>
#include <stdio.h>

#include "check.h"
#include "engines/fetch.h"
#include "loop_server.h"

static struct event_base *base;

static struct {
	unsigned int done;
	enum fetch_result result;
	int status;
	size_t bytes;
	char body[64];
	size_t refuse_at; /* data says no from here on */
} got;

static bool data(void *arg, const char *p, size_t n)
{
	(void)arg;
	for (size_t i = 0; i < n && got.bytes + i < sizeof(got.body) - 1; i++)
		got.body[got.bytes + i] = p[i];
	got.bytes += n;
	return !got.refuse_at || got.bytes < got.refuse_at;
}

static void done(void *arg, enum fetch_result result, int status)
{
	(void)arg;
	got.done++;
	got.result = result;
	got.status = status;
}

static void get(const struct kv_addr *to, unsigned int timeout_ms, size_t limit)
{
	struct fetch_request r = {"/x?y", timeout_ms, limit, NULL, 0, data, done, NULL};

	memset(got.body, 0, sizeof(got.body));
	got.done = 0;
	got.bytes = 0;
	CHECK(fetch_start(base, to, &r));
	CHECK_EQ(got.done, 0);
	CHECK(loop_until(base, &got.done, 1, 3000));
	loop_for(base, 5);
	CHECK_EQ(got.done, 1);
}

#define OK "HTTP/1.1 200 OK\r\n"

static const struct {
	const char *what;
	const char *answer;
	bool keep_open;
	enum fetch_result result;
	int status;
	const char *body;
} cases[] = {
	{"length", OK "Content-Length: 5\r\n\r\nhello", true, FETCH_ANSWERED, 200, "hello"},
	{"chunked", OK "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n",
	 true, FETCH_ANSWERED, 200, "hello"},
	{"until the end", "HTTP/1.0 200 OK\r\n\r\nhello", false, FETCH_ANSWERED, 200, "hello"},
	{"no body", "HTTP/1.1 204 No Content\r\n\r\n", true, FETCH_ANSWERED, 204, ""},
	{"an error", "HTTP/1.1 503 Busy\r\nContent-Length: 2\r\n\r\nno", true, FETCH_ANSWERED, 503,
	 "no"},
	{"not found", "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", true, FETCH_ANSWERED, 404,
	 ""},
	{"a short body", OK "Content-Length: 9\r\n\r\nhello", false, FETCH_BROKEN, 0, NULL},
	{"a short chunk", OK "Transfer-Encoding: chunked\r\n\r\n9\r\nhello", false, FETCH_BROKEN, 0,
	 NULL},
	{"a bad chunk", OK "Transfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n", false,
	 FETCH_GARBAGE, 0, NULL},
	{"half a head", OK "Content-Len", false, FETCH_BROKEN, 0, NULL},
	{"nothing", "", false, FETCH_BROKEN, 0, NULL},
	{"ssh", "SSH-2.0-OpenSSH_9.2\r\n", false, FETCH_GARBAGE, 0, NULL},
	{"ssh that waits", "SSH-2.0-OpenSSH_9.2\r\n", true, FETCH_GARBAGE, 0, NULL},
	{"no line", "\xff\xfe\xfd\xfc", false, FETCH_GARBAGE, 0, NULL},
	{"a TLS alert", "\x15\x03\x01\x01\x02\x02\x46", false, FETCH_TLS, 0, NULL},
	{"a TLS alert with a line feed", "\x15\x03\x03\x01\x02\x02\n\r\n", false, FETCH_TLS, 0,
	 NULL},
	{"a bad length", OK "Content-Length: -3\r\n\r\nhello", false, FETCH_GARBAGE, 0, NULL},
	{"a bad status", "HTTP/1.1 abc OK\r\n\r\n", false, FETCH_GARBAGE, 0, NULL},
};

static void answers(void)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct loop_server s = {.keep_open = cases[i].keep_open};

		loop_text(&s, cases[i].answer);
		loop_open(&s, base);
		get(&s.addr, 20000, 1000);
		if (got.result != cases[i].result)
			printf("# %s: %s\n", cases[i].what, fetch_result_text(got.result));
		CHECK_EQ(got.result, cases[i].result);
		CHECK_EQ(got.status, cases[i].status);
		if (cases[i].body)
			CHECK_STR(got.body, cases[i].body);
		CHECK_STR(s.path, "/x?y");
		loop_close(&s);
		loop_for(base, 5);
		CHECK_EQ(s.open, 0);
	}
}

static void nobody_there(void)
{
	struct loop_server s = {};
	struct kv_addr far;

	loop_open(&s, base);
	loop_close(&s);
	get(&s.addr, 1000, 1000);
	CHECK_EQ(got.result, FETCH_REFUSED);
	/* TCP to a broadcast address */
	CHECK(!kv_addr_parse("255.255.255.255:80", &far));
	get(&far, 100, 1000);
	CHECK_EQ(got.result, FETCH_UNREACHABLE);
	CHECK(!kv_addr_parse("[::1]:1", &far));
	get(&far, 1000, 1000);
	CHECK(got.result == FETCH_REFUSED || got.result == FETCH_UNREACHABLE);
}

static void slow(void)
{
	struct loop_server s = {.silent = true}, drip = {.drip = 5}, reset = {.reset = true};

	loop_open(&s, base);
	get(&s.addr, 60, 1000);
	CHECK_EQ(got.result, FETCH_TIMEOUT);
	loop_close(&s);

	/* the time is for all of it: a byte now and then does not stretch it */
	loop_text(&drip, OK "Content-Length: 500\r\n\r\nhello");
	loop_open(&drip, base);
	get(&drip.addr, 100, 1000);
	CHECK_EQ(got.result, FETCH_TIMEOUT);
	loop_close(&drip);

	loop_open(&reset, base);
	get(&reset.addr, 1000, 1000);
	CHECK_EQ(got.result, FETCH_BROKEN);
	loop_close(&reset);
}

static void large(void)
{
	static char head[80000];
	struct loop_server s = {.keep_open = true}, h = {.keep_open = true};

	/* 4 MB of body, of which 100 kB are wanted */
	snprintf(head, sizeof(head), "HTTP/1.0 200 OK\r\n\r\n%01000d", 0);
	loop_text(&s, head);
	s.repeat = 4000;
	loop_open(&s, base);
	get(&s.addr, 20000, 100000);
	CHECK_EQ(got.result, FETCH_TOO_LARGE);
	CHECK(got.bytes < 400000);
	got.refuse_at = 5000;
	get(&s.addr, 20000, 1000000);
	got.refuse_at = 0;
	CHECK_EQ(got.result, FETCH_TOO_LARGE);
	loop_close(&s);

	/* a length beyond the limit: what comes in time is looked at, no more */
	loop_text(&h, OK "Content-Length: 99999999\r\n\r\n");
	loop_open(&h, base);
	get(&h.addr, 50, 1000);
	CHECK_EQ(got.result, FETCH_TIMEOUT);

	/* a head without end */
	snprintf(head, sizeof(head), OK "X: %070000d\r\n\r\n", 0);
	loop_text(&h, head);
	get(&h.addr, 20000, 1000);
	CHECK_EQ(got.result, FETCH_GARBAGE);
	loop_close(&h);
}

static void noise(void)
{
	static char bytes[400];
	unsigned int seed = 1;

	for (int i = 0; i < 24; i++) {
		struct loop_server s = {.at_once = i & 1};
		size_t head = i % 3 ? (size_t)sprintf(bytes, OK) : 0;

		for (size_t k = head; k < sizeof(bytes); k++) {
			seed = seed * 1103515245 + 12345;
			bytes[k] = "\0\n\r :;0a,\xff{"[(seed >> 16) % 11];
		}
		s.answer = bytes;
		s.answer_len = sizeof(bytes);
		loop_open(&s, base);
		get(&s.addr, 20, 1000);
		loop_close(&s);
	}
}

static void cancelled(void)
{
	struct fetch_request r = {"/", 1000, 1000, NULL, 0, data, done, NULL};
	struct loop_server s = {};
	struct fetch *f[4];

	loop_text(&s, cases[0].answer);
	loop_open(&s, base);
	got.done = 0;
	for (int i = 0; i < 4; i++)
		f[i] = fetch_start(base, &s.addr, &r);
	fetch_cancel(f[0]);
	loop_until(base, &s.requests, 1, 1000);
	fetch_cancel(f[1]);
	loop_until(base, &got.done, 2, 1000);
	loop_for(base, 20);
	CHECK_EQ(got.done, 2);
	fetch_cancel(NULL);
	loop_close(&s);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	base = event_base_new();
	TEST("answers, whole and broken")
	answers();
	TEST("nobody there")
	nobody_there();
	TEST("too slow, or reset")
	slow();
	TEST("too large")
	large();
	TEST("noise")
	noise();
	TEST("cancelled")
	cancelled();
	TEST("each result has its line")
	for (int i = 0; i < FETCH_RESULTS; i++)
		CHECK(strlen(fetch_result_text(i)) > 5);
	loop_for(base, 20);
	event_base_free(base);
	return check_done();
}
