// SPDX-License-Identifier: BSD-2-Clause
/* Response framing: a corpus of responses, each whole and cut at every byte; and with a line of
 * ours put into their heads (agent/answer_header.h). */
#include <stdlib.h>

#include <kvsteer/framing.h>

#include "check.h"
#include "agent/answer_header.c"

enum end { DONE, OPEN, CLOSE, BROKEN }; /* OPEN: more bytes are wanted */

struct response {
	const char *name;
	const char *text;
	unsigned int status;
	enum end end;
	bool head;
	bool close;	    /* connection must not be used again */
	unsigned int extra; /* bytes at the end that are not this response's */
};

#define OK "HTTP/1.1 200 OK\r\n"
#define CH OK "Transfer-Encoding: chunked\r\n\r\n"
#define X64 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"

#define CLOSES .close = true
#define R(title, bytes, code, ending, ...)                                                         \
	{                                                                                          \
		.name = title, .text = bytes, .status = code, .end = ending, ##__VA_ARGS__         \
	}

static const struct response responses[] = {
	/* as real servers write them */
	R("uvicorn with h11",
	  OK "date: Sat, 29 Nov 2025 21:00:00 GMT\r\nserver: uvicorn\r\ncontent-length: 5\r\n"
	     "content-type: application/json\r\n\r\nhello",
	  200, DONE),
	R("uvicorn, streamed",
	  OK "content-type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
	     "c\r\ndata: hello\n\r\ne\r\ndata: [DONE]\n\n\r\n0\r\n\r\n",
	  200, DONE),
	R("aiohttp",
	  OK "Content-Type: text/plain; charset=utf-8\r\nContent-Length: 2\r\n"
	     "Date: x\r\nServer: Python/3.11 aiohttp/3.9.5\r\n\r\nok",
	  200, DONE),
	R("Go", OK "Date: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 200, DONE),
	R("a KV-Steer of its own", OK "KV-Steer: a=1\r\nContent-Length: 1\r\n\r\nx", 200, DONE),
	R("axum", OK "content-length: 0\r\ndate: x\r\n\r\n", 200, DONE),
	/* lengths */
	R("no reason phrase", "HTTP/1.1 200 \r\nContent-Length: 1\r\n\r\nx", 200, DONE),
	R("no space behind the status", "HTTP/1.1 200\r\nContent-Length: 1\r\n\r\nx", 200, DONE),
	R("bytes behind the end", OK "Content-Length: 3\r\n\r\nabcHTTP/1.1 200 OK", 200, DONE,
	  .extra = 15),
	R("space around the length", OK "Content-Length: \t 3 \t\r\n\r\nabc", 200, DONE),
	R("no space before the length", OK "CONTENT-LENGTH:3\r\n\r\nabc", 200, DONE),
	R("body not whole", OK "Content-Length: 10\r\n\r\nabc", 200, OPEN),
	R("head not whole", OK "Content-Length: 10\r\n", 200, OPEN),
	R("long body", OK "Content-Length: 128\r\n\r\n" X64 X64 "y", 200, DONE, .extra = 1),
	R("largest length", OK "Content-Length: 9999999999999999999\r\n\r\nabc", 200, OPEN),
	R("names that only begin like ours",
	  OK "Content-Lengthy: 7\r\nContent-Lengt: 8\r\nTransfer-Encodings: chunked\r\n"
	     "Connections: close\r\nC: close\r\nX-Content-Length: 9\r\nContent-Length: 1\r\n\r\nx",
	  200, DONE),
	/* no body */
	R("204", "HTTP/1.1 204 No Content\r\n\r\nx", 204, DONE, .extra = 1),
	R("304 with a length", "HTTP/1.1 304 Not Modified\r\nContent-Length: 50\r\n\r\nx", 304,
	  DONE, .extra = 1),
	R("HEAD", OK "Content-Length: 50\r\n\r\nx", 200, DONE, .head = true, .extra = 1),
	R("HEAD, chunked", OK "Transfer-Encoding: chunked\r\n\r\nx", 200, DONE, .head = true,
	  .extra = 1),
	/* 1xx */
	R("100, then 200", "HTTP/1.1 100 Continue\r\n\r\n" OK "Content-Length: 1\r\n\r\nx", 200,
	  DONE),
	R("103 and 100, then 404",
	  "HTTP/1.1 103 Early Hints\r\nLink: x\r\nConnection: close\r\n\r\n"
	  "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: "
	  "1\r\n\r\nx",
	  404, DONE),
	R("100, then HEAD's", "HTTP/1.1 100 Continue\r\n\r\n" OK "Content-Length: 9\r\n\r\nx", 200,
	  DONE, .head = true, .extra = 1),
	R("100 alone", "HTTP/1.1 100 Continue\r\n\r\n", 0, OPEN),
	R("101", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nxyz", 101, BROKEN, CLOSES),
	/* chunked */
	R("extensions, upper case, zeros, trailers",
	  CH "5;a=b\r\nhello\r\n0A ; c=\"d\"\r\n0123456789\r\n000\r\nX-Sum: 1\r\nB: 2\r\n\r\nzz",
	  200, DONE, .extra = 2),
	R("coding in other case", OK "transfer-ENCODING:  Chunked \r\n\r\n1\r\nx\r\n0\r\n\r\n", 200,
	  DONE),
	R("chunk that looks like an end", CH "7\r\n0\r\n\r\n0\r\r\n0\r\n\r\n", 200, DONE),
	R("chunk not whole", CH "ff\r\nabc", 200, OPEN),
	R("chunk of 128", CH "80\r\n" X64 X64 "\r\n0\r\n\r\n", 200, DONE),
	R("no size", CH "\r\nabc", 200, BROKEN, CLOSES),
	R("size with 0x", CH "0x5\r\nhello\r\n0\r\n\r\n", 200, BROKEN, CLOSES),
	R("size with sign", CH "+5\r\nhello\r\n0\r\n\r\n", 200, BROKEN, CLOSES),
	R("size above 2^60", CH "1000000000000000\r\nabc", 200, BROKEN, CLOSES),
	R("size below 2^60", CH "fffffffffffffff\r\nabc", 200, OPEN),
	R("size longer than 2^64", CH "10000000000000005\r\nhello\r\n", 200, BROKEN, CLOSES),
	R("bare LF behind the size", CH "5\nhello\r\n0\r\n\r\n", 200, BROKEN, CLOSES),
	R("data longer than its size", CH "4\r\nhello\r\n0\r\n\r\n", 200, BROKEN, CLOSES),
	R("CR without LF behind data", CH "5\r\nhello\rx0\r\n\r\n", 200, BROKEN, CLOSES),
	R("control character in an extension", CH "5;\1\r\nhello\r\n", 200, BROKEN, CLOSES),
	R("malformed trailer", CH "0\r\nX y\r\n\r\n", 200, BROKEN, CLOSES),
	/* the connection's end */
	R("Connection: close", OK "Connection: close\r\nContent-Length: 1\r\n\r\nx", 200, DONE,
	  CLOSES),
	R("close in a list", OK "connection: x-close, CLOSE ,foo\r\nContent-Length: 1\r\n\r\nx",
	  200, DONE, CLOSES),
	R("words that only contain close",
	  OK "Connection: closed, xclose, clos,keep-alive\r\nContent-Length: 1\r\n\r\nx", 200,
	  DONE),
	R("HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, DONE, CLOSES),
	R("HTTP/1.0 kept alive",
	  "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 1\r\n\r\nx", 200, DONE),
	R("until close", OK "Content-Type: x\r\n\r\nhello", 200, CLOSE, CLOSES),
	R("HTTP/1.0 until close", "HTTP/1.0 500 Oops\r\n\r\nhello", 500, CLOSE, CLOSES),
	/* malformed */
	R("length and coding",
	  OK "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 200, BROKEN,
	  CLOSES),
	R("coding and length",
	  OK "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 200, BROKEN,
	  CLOSES),
	R("two lengths", OK "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 200, BROKEN,
	  CLOSES),
	R("two codings", OK "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 200,
	  BROKEN, CLOSES),
	R("another coding", OK "Transfer-Encoding: gzip, chunked\r\n\r\n", 200, BROKEN, CLOSES),
	R("coding with a tail", OK "Transfer-Encoding: chunkedx\r\n\r\n", 200, BROKEN, CLOSES),
	R("no coding", OK "Transfer-Encoding: \r\n\r\n", 200, BROKEN, CLOSES),
	R("chunked in HTTP/1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 200,
	  BROKEN, CLOSES),
	R("signed length", OK "Content-Length: +5\r\n\r\nhello", 200, BROKEN, CLOSES),
	R("empty length", OK "Content-Length:\r\n\r\nhello", 200, BROKEN, CLOSES),
	R("list of lengths", OK "Content-Length: 5, 5\r\n\r\nhello", 200, BROKEN, CLOSES),
	R("length in two words", OK "Content-Length: 5 5\r\n\r\nhello", 200, BROKEN, CLOSES),
	R("length of 20 digits", OK "Content-Length: 18446744073709551621\r\n\r\nhello", 200,
	  BROKEN, CLOSES),
	R("space before the colon", OK "Content-Length : 5\r\n\r\nhello", 200, BROKEN, CLOSES),
	R("folded line", OK "X: a\r\n b\r\nContent-Length: 1\r\n\r\nx", 200, BROKEN, CLOSES),
	R("no colon", OK "Content\r\n\r\n", 200, BROKEN, CLOSES),
	R("bare LF", "HTTP/1.1 200 OK\nContent-Length: 1\n\nx", 200, BROKEN, CLOSES),
	R("bare CR", OK "X: a\rb\r\n\r\n", 200, BROKEN, CLOSES),
	R("control character in a value", OK "X: a\1b\r\n\r\n", 200, BROKEN, CLOSES),
	R("not HTTP", "SSH-2.0-OpenSSH_9.2\r\n", 0, BROKEN, CLOSES),
	R("HTTP/2.0", "HTTP/2.0 200 OK\r\n\r\n", 0, BROKEN, CLOSES),
	R("HTTP/1.2", "HTTP/1.2 200 OK\r\n\r\n", 0, BROKEN, CLOSES),
	R("status of two digits", "HTTP/1.1 20 OK\r\n\r\n", 0, BROKEN, CLOSES),
	R("status of four digits", "HTTP/1.1 2000 OK\r\n\r\n", 200, BROKEN, CLOSES),
	R("status 600", "HTTP/1.1 600 x\r\n\r\n", 0, BROKEN, CLOSES),
};

static unsigned int run(struct kv_framing *f, const char *text, unsigned int from, unsigned int to)
{
	/* A copy of its own size: reading past it is seen by the sanitizer. */
	__u8 *copy = malloc(to - from + 1);
	struct kv_source s = {copy, to - from};
	unsigned int n;

	memcpy(copy, text + from, to - from);
	n = kv_framing_run(f, &s, 0, to - from);
	free(copy);
	return n;
}

static enum end ending(const struct kv_framing *f)
{
	if (kv_framing_done(f))
		return DONE;
	if (kv_framing_broken(f))
		return BROKEN;
	return kv_framing_until_close(f) ? CLOSE : OPEN;
}

static void check_whole(const struct response *r)
{
	unsigned int len = strlen(r->text), n;
	struct kv_framing f;

	kv_framing_init(&f, r->head);
	n = run(&f, r->text, 0, len);
	CHECK_EQ(n, len - r->extra);
	CHECK_EQ(ending(&f), r->end);
	CHECK_EQ(!!(f.flags & KV_FRAMING_CLOSE), r->close);
	/* Of a broken head the status says little. */
	if (r->end != BROKEN || r->status)
		CHECK_EQ(f.status, r->status);
}

/* Every cut into three. */
static void check_cuts(const struct response *r)
{
	unsigned int len = strlen(r->text), n;
	struct kv_framing whole, f;

	kv_framing_init(&whole, r->head);
	run(&whole, r->text, 0, len);
	for (unsigned int a = 0; a <= len; a++) {
		for (unsigned int b = a; b <= len; b += 1 + b / 40) {
			kv_framing_init(&f, r->head);
			n = run(&f, r->text, 0, a);
			n += run(&f, r->text, a, b);
			n += run(&f, r->text, b, len);
			CHECK_EQ(n, len - r->extra);
			CHECK(!memcmp(&f, &whole, sizeof(f)));
		}
	}
	kv_framing_init(&f, r->head);
	n = 0;
	for (unsigned int i = 0; i < len; i++)
		n += run(&f, r->text, i, i + 1);
	CHECK_EQ(n, len - r->extra);
	CHECK(!memcmp(&f, &whole, sizeof(f)));
}

/* ---- a line of ours ------------------------------------------------------------------- */

/* Where it belongs, by another reading of the text: behind the first status line that is no 1xx; 0:
 * there is none. */
static unsigned int place_of(const char *text)
{
	const char *at = text, *line, *end;

	for (; at; at = end ? end + 4 : NULL) {
		int status = strncmp(at, "HTTP/1.", 7) || (at[7] | 1) != '1' ? 0 : atoi(at + 9);

		line = strstr(at, "\r\n");
		end = strstr(at, "\r\n\r\n");
		if (!line || status < 100 || status > 599 || status == 101 ||
		    memchr(at, '\n', line - at))
			return 0;
		if (status >= 200)
			return line + 2 - text;
	}
	return 0;
}

struct put {
	struct kv_framing f;
	unsigned int len, at, taken; /* at: of the response's bytes, 0: not yet */
	char out[1000];
};

#define LINE "KV-Steer: x\r\n"

/* What the agent does with a piece. */
static void put_piece(struct put *p, const char *text, unsigned int from, unsigned int to)
{
	char *copy = malloc(to - from + 1);
	__u32 at = 0, used;

	memcpy(copy, text + from, to - from);
	used = answer_frame(&p->f, copy, to - from, p->at ? NULL : &at);
	CHECK(at <= used && p->len + used + strlen(LINE) <= sizeof(p->out));
	memcpy(p->out + p->len, copy, at);
	if (at) {
		p->at = p->taken + at;
		memcpy(p->out + p->len + at, LINE, strlen(LINE));
		p->len += strlen(LINE);
	}
	memcpy(p->out + p->len + at, copy + at, used - at);
	p->len += used;
	p->taken += used;
	free(copy);
}

/* a and b: where it is cut. The line is in its place, all other bytes are as they were, and so is
 * what is known of them. */
static void check_put(const struct response *r, unsigned int a, unsigned int b)
{
	unsigned int len = strlen(r->text), place = place_of(r->text), n = len - r->extra;
	struct kv_framing whole;
	struct put p = {};
	char wanted[1000];

	kv_framing_init(&whole, r->head);
	run(&whole, r->text, 0, len);
	kv_framing_init(&p.f, r->head);
	put_piece(&p, r->text, 0, a);
	put_piece(&p, r->text, a, b);
	put_piece(&p, r->text, b, len);
	snprintf(wanted, sizeof(wanted), "%.*s%s%.*s", place, r->text, place ? LINE : "", n - place,
		 r->text + place);
	CHECK_EQ(p.at, place);
	CHECK_EQ(p.len, strlen(wanted));
	CHECK(!memcmp(p.out, wanted, p.len));
	CHECK(!memcmp(&p.f, &whole, sizeof(whole)));
}

static void check_line(const char *name, __u32 matched, __u32 total, const char *wanted)
{
	char line[ANSWER_HEADER_MAX];

	CHECK_EQ(answer_header(line, &(struct answer_header){name, matched, total}),
		 strlen(wanted));
	CHECK_STR(line, wanted);
}

/* head, then n times the byte c, then tail: in pieces of 1000. */
static enum end long_one(const char *head, unsigned int n, const char *tail)
{
	unsigned int len = strlen(head) + n + strlen(tail);
	char *text = malloc(len);
	struct kv_framing f;

	memcpy(text, head, strlen(head));
	memset(text + strlen(head), 'x', n);
	memcpy(text + strlen(head) + n, tail, strlen(tail));
	kv_framing_init(&f, false);
	for (unsigned int i = 0; i < len; i += 1000)
		run(&f, text, i, i + 1000 < len ? i + 1000 : len);
	free(text);
	return ending(&f);
}

int main(void)
{
	struct kv_framing f;

	for (size_t i = 0; i < sizeof(responses) / sizeof(responses[0]); i++) {
		TEST(responses[i].name)
		{
			check_whole(&responses[i]);
			check_cuts(&responses[i]);
			for (size_t a = 0; a <= strlen(responses[i].text); a++)
				for (size_t b = a; b <= strlen(responses[i].text); b += 1 + b / 8)
					check_put(&responses[i], a, b);
		}
	}
	TEST("KV-Steer")
	{
		static const char name[] =
			"[2001:db8::1]-a.name.of.sixty-three.bytes_012345678901234567890";

		check_line("e1", 832, 889, "KV-Steer: matched=832, total=889, backend=\"e1\"\r\n");
		check_line("10.0.0.1:8000", 0, 0,
			   "KV-Steer: matched=0, total=0, backend=\"10.0.0.1:8000\"\r\n");
		CHECK_EQ(strlen(name), KV_NAME_LEN - 1);
		check_line(name, ~0u, ~0u,
			   "KV-Steer: matched=4294967295, total=4294967295, "
			   "backend=\"[2001:db8::1]-a.name.of.sixty-three.bytes_"
			   "012345678901234567890\"\r\n");
	}
	TEST("limits")
	{
		const unsigned int line = sizeof(OK "A: ") - 1, end = sizeof("\r\n\r\n") - 1;

		CHECK_EQ(long_one(OK "A: ", (64 << 10) - line - end, "\r\n\r\n"), CLOSE);
		CHECK_EQ(long_one(OK "A: ", (64 << 10) - line - end + 1, "\r\n\r\n"), BROKEN);
		CHECK_EQ(long_one(CH "1;", 4096 - 4, "\r\nx\r\n0\r\n\r\n"), DONE);
		CHECK_EQ(long_one(CH "1;", 4096 - 3, "\r\nx\r\n0\r\n\r\n"), BROKEN);
		CHECK_EQ(long_one(CH "0\r\nA: ", (16 << 10) - 7, "\r\n\r\n"), DONE);
		CHECK_EQ(long_one(CH "0\r\nA: ", (16 << 10) - 6, "\r\n\r\n"), BROKEN);
	}
	TEST("bytes that need not be seen")
	{
		kv_framing_init(&f, false);
		CHECK(kv_framing_needs_bytes(&f));
		CHECK(!(f.flags & KV_FRAMING_STARTED));
		run(&f, OK, 0, 1);
		CHECK(f.flags & KV_FRAMING_STARTED);
		run(&f, OK "Content-Length: 9\r\n\r\n", 1,
		    sizeof(OK "Content-Length: 9\r\n\r\n") - 1);
		CHECK(!kv_framing_needs_bytes(&f));
		CHECK_EQ(f.left, 9);
		kv_framing_init(&f, false);
		run(&f, CH "5\r\n", 0, sizeof(CH "5\r\n") - 1);
		CHECK(!kv_framing_needs_bytes(&f));
		run(&f, "hello", 0, 5);
		CHECK(kv_framing_needs_bytes(&f));
		kv_framing_init(&f, false);
		run(&f, OK "\r\n", 0, sizeof(OK "\r\n") - 1);
		CHECK(!kv_framing_needs_bytes(&f));
	}
	TEST("nothing is taken behind the end")
	{
		kv_framing_init(&f, false);
		run(&f, OK "Content-Length: 0\r\n\r\n", 0,
		    sizeof(OK "Content-Length: 0\r\n\r\n") - 1);
		CHECK_EQ(run(&f, "HTTP", 0, 4), 0);
		CHECK(kv_framing_done(&f));
	}
	return check_done();
}
