// SPDX-License-Identifier: BSD-2-Clause
/* The load generator's reader of answers: what the bench and its "errors" column rest on. */
#include "check.h"
#include "../../tools/load/response.c"

static struct load_options opt = {.method = "GET"};
static struct load_response r;

/* Feeds in pieces of the given size; LOAD_MORE turns into what a close would make of it. */
static enum load_status feed(const char *text, size_t len, size_t piece)
{
	enum load_status s = LOAD_MORE;

	load_response_init(&r);
	for (size_t i = 0; i < len && s == LOAD_MORE; i += piece)
		s = load_response_feed(&r, &opt, text + i, len - i < piece ? len - i : piece);
	return s == LOAD_MORE ? load_response_eof(&r, &opt) : s;
}

/* The same result in any segmentation. */
static void expect(const char *text, enum load_status status, uint64_t bytes, const char *error)
{
	size_t len = strlen(text);

	for (size_t piece = 1; piece <= len; piece++) {
		CHECK_EQ(feed(text, len, piece), status);
		if (error)
			CHECK_STR(r.error, error);
		else
			CHECK_EQ(r.bytes, bytes);
	}
}

int main(void)
{
	TEST("Content-Length")
	{
		expect("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", LOAD_DONE, 5, NULL);
		expect("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", LOAD_DONE, 0, NULL);
		expect("HTTP/1.1 204 No Content\r\n\r\n", LOAD_DONE, 0, NULL);
		expect("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello", LOAD_BAD, 0,
		       "closed inside the answer");
		/* Behind the end in one piece; in a later one it is the caller's to see. */
		CHECK_EQ(feed("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhel", 41, 41), LOAD_BAD);
		expect("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhe",
		       LOAD_BAD, 0, "two Content-Length fields");
	}
	TEST("chunked")
	{
		expect("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
		       "5\r\nhello\r\n0a;x=\"y\"\r\n0123456789\r\n0\r\nt: 1\r\nu: 2\r\n\r\n",
		       LOAD_DONE, 15, NULL);
		expect("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
		       LOAD_BAD, 0, "closed inside the answer");
		expect("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhello\r\n",
		       LOAD_BAD, 0, "chunk longer than its size");
		expect("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n", LOAD_BAD, 0,
		       "chunk without a size");
	}
	TEST("interim answers, close, HEAD")
	{
		expect("HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n"
		       "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		       LOAD_DONE, 2, NULL);
		expect("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
		       LOAD_DONE_LAST, 2, NULL);
		expect("HTTP/1.1 200 OK\r\n\r\nto the end", LOAD_DONE_LAST, 10, NULL);
		opt.method = "HEAD";
		expect("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", LOAD_DONE, 0, NULL);
		opt.method = "GET";
		expect("HTTQ/1.1 200 OK\r\n\r\n", LOAD_BAD, 0, "status line is not HTTP/1.x");
		expect("", LOAD_BAD, 0, NULL);
	}
	TEST("event streams")
	{
		static const char whole[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
					    "15\r\ndata: a\n\ndata: data:b\r\n2\r\n\n\n\r\n"
					    "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n";
		static const char cut[] = "HTTP/1.1 200 OK\r\nContent-Length: 22\r\n\r\n"
					  "data: a\n\ndata: [DONE\n\n";

		opt.stream = true;
		expect(whole, LOAD_DONE, 37, NULL);
		CHECK_EQ(r.events, 3);
		expect(cut, LOAD_BAD, 0, "stream without [DONE]");
		opt.expect_events = 4;
		expect(whole, LOAD_BAD, 0, "stream has another number of events than expected");
		opt.stream = false;
	}
	TEST("expected length")
	{
		opt.expect_bytes = 5;
		expect("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", LOAD_DONE, 5, NULL);
		expect("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nhell", LOAD_BAD, 0,
		       "body has another length than expected");
	}
	return check_done();
}
