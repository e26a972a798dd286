// SPDX-License-Identifier: BSD-2-Clause
/* The tools' reader of answers: what kv-load and kv-traffic call an error rests on it. */
#include "check.h"
#include "../../tools/common/answer.h"

#define OK "HTTP/1.1 200 OK\r\n"
#define CHUNKED OK "Transfer-Encoding: chunked\r\n\r\n"

static struct answer a;
static bool head_only;

static struct {
	enum answer_event end;
	unsigned int heads;
	size_t taken, len;
	char body[64];
} got;

/* A first piece of one size, the others of another, then a close. */
static void feed(const char *text, size_t len, size_t first, size_t piece)
{
	const char *data, *body;
	size_t left, n;

	answer_init(&a);
	a.head_only = head_only;
	memset(&got, 0, sizeof(got));
	for (size_t at = 0, size = first; at < len; at += size, size = piece) {
		data = text + at;
		left = len - at < size ? len - at : size;
		while ((got.end = answer_next(&a, &data, &left, &body, &n)) == ANSWER_HEAD ||
		       got.end == ANSWER_BODY) {
			if (got.end == ANSWER_HEAD) {
				got.heads++;
			} else if (got.len + n <= sizeof(got.body)) {
				memcpy(got.body + got.len, body, n);
				got.len += n;
			}
		}
		got.taken = data - text;
		if (got.end != ANSWER_MORE)
			return;
		CHECK_EQ(left, 0);
		CHECK(!answer_is_whole(&a) && !answer_untouched(&a));
	}
	got.end = answer_eof(&a);
}

#define EVERY_SEGMENTATION(text, len)                                                              \
	for (size_t first = 1; first <= (len); first++)                                            \
		for (size_t piece = 1; piece <= (len); piece++)                                    \
			if (feed(text, len, first, piece), true)

/* The same result in any segmentation; what is behind the answer is left where it is. */
static void expect(const char *text, int status, const char *body, bool close, const char *behind)
{
	size_t len = strlen(text);

	EVERY_SEGMENTATION(text, len)
	{
		CHECK_EQ(got.end, ANSWER_END);
		CHECK(answer_is_whole(&a) || close);
		CHECK_EQ(got.heads, 1);
		CHECK_EQ(a.status, status);
		CHECK_EQ(a.close, close);
		CHECK_STR(text + got.taken, behind);
		CHECK_EQ(got.len, strlen(body));
		CHECK_EQ(a.bytes, strlen(body));
		CHECK_MEM(got.body, body, strlen(body));
	}
}

static void expect_bad(const char *text, const char *error)
{
	size_t len = strlen(text);

	EVERY_SEGMENTATION(text, len)
	{
		CHECK_EQ(got.end, ANSWER_BAD);
		CHECK_STR(a.error, error);
	}
}

/* A head that is len bytes long. */
static const char *long_head(size_t len)
{
	static char head[ANSWER_HEAD_MAX + 16];

	memset(head, 'a', len);
	memcpy(head, OK "x: ", strlen(OK "x: "));
	memcpy(head + len - 4, "\r\n\r\n", 5);
	return head;
}

int main(void)
{
	TEST("Content-Length")
	{
		expect(OK "content-length: 5\r\n\r\nhello", 200, "hello", false, "");
		expect(OK "Content-Length:\t5 \r\n\r\nhello", 200, "hello", false, "");
		expect(OK "Content-Length: 0\r\n\r\n", 200, "", false, "");
		expect(OK "Content-Length: 2\r\n\r\nok" OK, 200, "ok", false, OK);
		expect_bad(OK "Content-Length: 6\r\n\r\nhello", "closed inside the answer");
		expect_bad(OK "Content-Length: 2\r\nContent-Length: 2\r\n\r\nhe",
			   "two Content-Length fields");
		expect_bad(OK "Content-Length: 2, 2\r\n\r\nhe", "Content-Length is not a number");
		expect_bad(OK "Content-Length: +2\r\n\r\nhe", "Content-Length is not a number");
		expect_bad(OK "Content-Length: \r\n\r\nhe", "Content-Length is not a number");
		expect_bad(OK "Content-Length: 18446744073709551618\r\n\r\nhe",
			   "Content-Length is not a number");
	}
	TEST("chunked")
	{
		expect(CHUNKED
		       "5\r\nhello\r\n0a;x=\"y\"\r\n0123456789\r\n0\r\nt: 1\r\nu: 2\r\n\r\n",
		       200, "hello0123456789", false, "");
		expect(CHUNKED "0\r\n\r\n", 200, "", false, "");
		expect(CHUNKED "1\r\na\r\n0\r\n\r\n" OK, 200, "a", false, OK);
		expect_bad(CHUNKED "5\r\nhello\r\n", "closed inside the answer");
		expect_bad(CHUNKED "5\r\nhello\r\n0\r\n", "closed inside the answer");
		expect_bad(CHUNKED "4\r\nhello\r\n", "chunk longer than its size");
		expect_bad(CHUNKED "5\r\nhello\rx", "chunk without LF");
		expect_bad(CHUNKED "\r\n\r\n", "chunk without a size");
		expect_bad(CHUNKED "5g\r\nhello\r\n", "chunk size is not hexadecimal");
		expect_bad(CHUNKED "5\rx", "chunk size line without LF");
		expect_bad(CHUNKED "10000000000000000\r\n", "chunk size overflows");
		expect_bad(CHUNKED "0\r\nt: 1\rx", "trailer without LF");
		expect_bad(CHUNKED "0\r\n\rx", "last chunk without LF");
		expect_bad(OK "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
			   "Transfer-Encoding other than chunked");
		expect_bad(OK "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
			   "Transfer-Encoding other than chunked");
		expect_bad(OK "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
			   "Content-Length beside Transfer-Encoding");
	}
	TEST("answers without a body")
	{
		expect("HTTP/1.1 204 No Content\r\n\r\n" OK, 204, "", false, OK);
		expect("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", 304, "", false,
		       "");
		head_only = true;
		expect(OK "Content-Length: 2\r\n\r\n" OK, 200, "", false, OK);
		expect(CHUNKED, 200, "", false, "");
		head_only = false;
	}
	TEST("the end of the connection")
	{
		expect(OK "\r\nto the end", 200, "to the end", true, "");
		expect(OK "\r\n", 200, "", true, "");
		expect(OK "Content-Length: 2\r\nConnection: close\r\n\r\nok", 200, "ok", true, "");
		expect("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, "ok", true, "");
		expect("HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok",
		       200, "ok", false, "");
		feed("", 0, 1, 1);
		CHECK_EQ(got.end, ANSWER_BAD);
		CHECK(answer_untouched(&a));
		CHECK_STR(a.error, "closed without an answer");
		expect_bad(OK, "closed inside the answer");
	}
	TEST("interim answers")
	{
		expect("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n" OK
		       "Content-Length: 2\r\n\r\nok",
		       200, "ok", false, "");
		CHECK_EQ(a.interims, 2);
		/* What an interim head says is not said of the final one. */
		expect("HTTP/1.1 103 Early Hints\r\nContent-Length: 1\r\nConnection: "
		       "close\r\n\r\n" OK "Content-Length: 2\r\n\r\nok",
		       200, "ok", false, "");
		expect("HTTP/1.1 103 Early Hints\r\nContent-Length: 1\r\n\r\n" CHUNKED
		       "2\r\nok\r\n0\r\n\r\n",
		       200, "ok", false, "");
		expect_bad("HTTP/1.1 100 Continue\r\n\r\n", "closed inside the answer");
	}
	TEST("heads that are none")
	{
		expect_bad("HTTQ/1.1 200 OK\r\n\r\n", "status line is not HTTP/1.x");
		expect_bad("HTTP/1.2 200 OK\r\n\r\n", "status line is not HTTP/1.x");
		expect_bad("\r\n\r\n", "status line is not HTTP/1.x");
		expect_bad("HTTP/1.1 20 OK\r\n\r\n", "status line without a status");
		expect_bad("HTTP/1.1 099 OK\r\n\r\n", "status line without a status");
		expect_bad("HTTP/1.1 2000 OK\r\n\r\n", "status line without a status");
		expect_bad(OK "a: b\nc: d\r\n\r\n", "bare CR, LF or NUL in the head");
		expect_bad(OK "a: b\rc: d\r\n\r\n", "bare CR, LF or NUL in the head");
		feed(OK "a: \0\r\n\r\n", sizeof(OK "a: \0\r\n\r\n") - 1, 99, 99);
		CHECK_EQ(got.end, ANSWER_BAD);
		CHECK_STR(a.error, "bare CR, LF or NUL in the head");
	}
	TEST("the longest head")
	{
		for (size_t piece = 1000; piece <= ANSWER_HEAD_MAX + 1000; piece += 1000) {
			feed(long_head(ANSWER_HEAD_MAX - 1), ANSWER_HEAD_MAX - 1, piece, piece);
			CHECK_EQ(got.end, ANSWER_END);
			CHECK_EQ(got.heads, 1);
			feed(long_head(ANSWER_HEAD_MAX), ANSWER_HEAD_MAX, piece, piece);
			CHECK_EQ(got.end, ANSWER_BAD);
			CHECK_STR(a.error, "head does not end");
		}
	}
	TEST("fields")
	{
		static const char text[] = OK "X-A: 1\r\nx-ab: 2\r\nx-a:  3 4\t\r\nx-e:\r\n"
					      "Content-Length: 0\r\n\r\n";
		const char *value = NULL;
		size_t len = 9;

		EVERY_SEGMENTATION(text, sizeof(text) - 1)
		{
			CHECK_EQ(answer_field(&a, "x-a", &value, &len), 2);
			CHECK_EQ(len, 3);
			CHECK_MEM(value, "3 4", 3);
			CHECK_EQ(answer_field(&a, "X-AB", &value, &len), 1);
			CHECK_EQ(len, 1);
			CHECK_EQ(answer_field(&a, "x", &value, &len), 0);
		}
	}
	return check_done();
}
