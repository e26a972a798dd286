// SPDX-License-Identifier: BSD-2-Clause
/* What kv-load asks of an answer beyond its framing: the bench and its "errors" column rest on it.
 */
#include "check.h"
#include "../../tools/load/response.c"

static struct load_options opt = {.method = "GET"};
static struct load_response r;

/* Feeds in pieces of the given size; LOAD_MORE turns into what a close would make of it. */
static enum load_status feed(const char *text, size_t len, size_t piece)
{
	enum load_status s = LOAD_MORE;

	load_response_init(&r, &opt);
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
			CHECK_STR(r.http.error, error);
		else
			CHECK_EQ(r.http.bytes, bytes);
	}
}

int main(void)
{
	TEST("complete, and whether another can follow")
	{
		static const char more[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhel";

		expect("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", LOAD_DONE, 5, NULL);
		expect("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
		       LOAD_DONE_LAST, 2, NULL);
		expect("HTTP/1.1 200 OK\r\n\r\nto the end", LOAD_DONE_LAST, 10, NULL);
		expect("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello", LOAD_BAD, 0,
		       "closed inside the answer");
		/* Behind the end in one piece; in a later one it is the caller's to see. */
		CHECK_EQ(feed(more, sizeof(more) - 1, sizeof(more) - 1), LOAD_BAD);
		CHECK_STR(r.http.error, "bytes behind the end of the answer");
		opt.method = "HEAD";
		expect("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", LOAD_DONE, 0, NULL);
		opt.method = "GET";
		CHECK_EQ(feed("", 0, 1), LOAD_BAD);
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
