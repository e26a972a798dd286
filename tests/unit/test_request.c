// SPDX-License-Identifier: BSD-2-Clause
/* Request heads: the lane and the reason of each, however the bytes arrive. */
#include <stdlib.h>

#include <kvsteer/request.h>

#include "check.h"

struct head {
	const char *name;
	const char *text;
	unsigned int len;
	int lane;
	int reason;
};

#define EXPRESS(name, text)                                                                        \
	{                                                                                          \
		name, text, sizeof(text) - 1, KV_LANE_EXPRESS, KV_REASON_none                      \
	}
#define AGENT(name, text, why)                                                                     \
	{                                                                                          \
		name, text, sizeof(text) - 1, KV_LANE_AGENT, KV_REASON_##why                       \
	}
#define REFUSE(name, text, why)                                                                    \
	{                                                                                          \
		name, text, sizeof(text) - 1, KV_LANE_REFUSE, KV_REASON_##why                      \
	}

#define GET "GET / HTTP/1.1\r\nHost: a\r\n"
#define POST "POST /v1/completions HTTP/1.1\r\nHost: a\r\n"
#define NAME32 "abcdefghijklmnopqrstuvwxyz012345"

static const struct head heads[] = {
	EXPRESS("GET", GET "\r\n"),
	EXPRESS("body", POST "Content-Length: 5\r\n\r\nhello"),
	EXPRESS("body not here yet", POST "Content-Length: 5\r\n\r\n"),
	EXPRESS("two requests", GET "\r\n" GET "\r\n"),
	EXPRESS("PUT", "PUT /x HTTP/1.1\r\nHost: a\r\n\r\n"),
	EXPRESS("PATCH", "PATCH /x HTTP/1.1\r\nHost: a\r\n\r\n"),
	EXPRESS("DELETE", "DELETE /x HTTP/1.1\r\nHost: a\r\n\r\n"),
	EXPRESS("OPTIONS", "OPTIONS /x HTTP/1.1\r\nHost: a\r\n\r\n"),
	EXPRESS("HEAD", "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n"),
	EXPRESS("empty value", GET "X:\r\nY: \t \r\n\r\n"),
	EXPRESS("tab in a value", GET "X: a\tb\t\tc\r\n\r\n"),
	EXPRESS("bytes above 0x7f in a value", GET "X: \xc3\xa9\xff\r\n\r\n"),
	EXPRESS("every token character in a name", GET "!#$%&'*+-.^_`|~09azAZ: x\r\n\r\n"),
	EXPRESS("name of 32 bytes", GET NAME32 ": x\r\n\r\n"),
	EXPRESS("name of 70 bytes", GET NAME32 NAME32 "abcdef: x\r\n\r\n"),
	EXPRESS("name that ends like one of ours", GET NAME32 "content-length: x\r\n\r\n"),
	EXPRESS("names that begin like ours", GET "Content-Lengt: x\r\nContent-Length2: x\r\n\r\n"),
	EXPRESS("Content-Length: 0", POST "Content-Length: 0\r\n\r\n"),
	EXPRESS("leading zeros", POST "Content-Length: 0005\r\n\r\n"),
	EXPRESS("19 digits", POST "Content-Length: 9999999999999999999\r\n\r\n"),
	EXPRESS("white space around the length", POST "Content-Length: \t 5 \t \r\n\r\n"),
	EXPRESS("Expect", POST "Expect: 100-Continue\r\nContent-Length: 1\r\n\r\n"),
	EXPRESS("Connection list", GET "Connection: ,, keep-alive ,\tTE,\r\n\r\n"),
	EXPRESS("empty Connection", GET "Connection:\r\n\r\n"),
	EXPRESS("Connection with an odd element", GET "Connection: a=\"b\"; c, close\r\n\r\n"),
	EXPRESS("TE and Trailer", GET "TE: trailers\r\nTrailer: x\r\n\r\n"),
	EXPRESS("empty Host", "GET / HTTP/1.1\r\nHost:\r\n\r\n"),
	EXPRESS("malformed hint", POST "KV-Prefix: 7\r\nContent-Length: 1\r\n\r\n"),

	AGENT("nothing", "", head_incomplete),
	AGENT("half a method", "PO", head_incomplete),
	AGENT("no target yet", "GET ", head_incomplete),
	AGENT("half a version", "GET / HTT", head_incomplete),
	AGENT("half a version of another kind", "GET / HTTP/3", head_incomplete),
	AGENT("no LF yet", "GET / HTTP/1.1\r", head_incomplete),
	AGENT("no empty line yet", GET, head_incomplete),
	AGENT("half an empty line", GET "\r", head_incomplete),
	AGENT("half a name", GET "Content-Le", head_incomplete),
	AGENT("no value yet", POST "Content-Length:", head_incomplete),
	AGENT("half a length", POST "Content-Length: 12", head_incomplete),
	AGENT("half a coding", POST "Transfer-Encoding: chunk", head_incomplete),
	AGENT("half an absolute target", "GET http", head_incomplete),
	AGENT("HTTP/1.0", "GET / HTTP/1.0\r\n\r\n", http_1_0),
	AGENT("chunked", POST "Transfer-Encoding: Chunked \r\n\r\n0\r\n\r\n", chunked_body),
	AGENT("Upgrade", GET "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", upgrade),
	AGENT("h2c", GET "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n", upgrade),
	AGENT("absolute-form", "GET http://a/b HTTP/1.1\r\nHost: a\r\n\r\n", absolute_target),
	AGENT("absolute-form, https", "GET HTTPS://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
	      absolute_target),
	AGENT("asterisk-form", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", asterisk_target),

	/* request lines */
	REFUSE("leading CR LF", "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", bad_request_line),
	REFUSE("leading space", " GET / HTTP/1.1\r\nHost: a\r\n\r\n", bad_request_line),
	REFUSE("TLS hello", "\x16\x03\x01\x02\x00\x01", bad_request_line),
	REFUSE("lower-case method", "get / HTTP/1.1\r\nHost: a\r\n\r\n", method_unknown),
	REFUSE("unknown method", "BREW / HTTP/1.1\r\nHost: a\r\n\r\n", method_unknown),
	REFUSE("method that begins like one", "POSTS / HTTP/1.1\r\nHost: a\r\n\r\n",
	       method_unknown),
	REFUSE("long method", NAME32 "x / HTTP/1.1\r\n\r\n", bad_request_line),
	REFUSE("CONNECT", "CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n", method_unknown),
	REFUSE("TRACE", "TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", method_unknown),
	REFUSE("method with a colon", "GE:T / HTTP/1.1\r\nHost: a\r\n\r\n", bad_request_line),
	REFUSE("HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", bad_version),
	REFUSE("HTTP/1.2", "GET / HTTP/1.2\r\nHost: a\r\n\r\n", bad_version),
	REFUSE("HTTP/0.9", "GET / HTTP/0.9\r\nHost: a\r\n\r\n", bad_version),
	REFUSE("HTTP/3.0", "GET / HTTP/3.0\r\nHost: a\r\n\r\n", bad_version),
	REFUSE("lower-case http", "GET / http/1.1\r\nHost: a\r\n\r\n", bad_request_line),
	REFUSE("HTTP/1.x", "GET / HTTP/1.x\r\nHost: a\r\n\r\n", bad_request_line),
	REFUSE("HTTP/1.10", "GET / HTTP/1.10\r\nHost: a\r\n\r\n", bad_request_line),
	REFUSE("no version", "GET /\r\n\r\n", bad_target),
	REFUSE("two spaces before the version", "GET /  HTTP/1.1\r\nHost: a\r\n\r\n",
	       bad_request_line),
	REFUSE("space behind the version", "GET / HTTP/1.1 \r\nHost: a\r\n\r\n", bad_request_line),
	REFUSE("two spaces before the target", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", bad_target),
	REFUSE("space in the target", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", bad_request_line),
	REFUSE("tab for a space", "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", bad_request_line),
	REFUSE("tab in the target", "GET /a\tb HTTP/1.1\r\nHost: a\r\n\r\n", bad_target),
	REFUSE("NUL in the target", "GET /a\0b HTTP/1.1\r\nHost: a\r\n\r\n", bad_target),
	REFUSE("byte above 0x7f in the target", "GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n",
	       bad_target),
	REFUSE("relative target", "GET a HTTP/1.1\r\nHost: a\r\n\r\n", bad_target),
	REFUSE("another scheme", "GET httpx://a HTTP/1.1\r\nHost: a\r\n\r\n", bad_target),
	REFUSE("asterisk with GET", "GET * HTTP/1.1\r\nHost: a\r\n\r\n", bad_target),
	REFUSE("asterisk and more", "OPTIONS *a HTTP/1.1\r\nHost: a\r\n\r\n", bad_target),
	REFUSE("bare LF behind the request line", "GET / HTTP/1.1\nHost: a\r\n\r\n", bare_lf),
	REFUSE("bare CR behind the request line", "GET / HTTP/1.1\rHost: a\r\n\r\n", bare_cr),
	/* lines */
	REFUSE("folded line", GET "X: a\r\n b\r\n\r\n", line_folded),
	REFUSE("folded by a tab", GET "X: a\r\n\tb\r\n\r\n", line_folded),
	REFUSE("folded length", POST "Content-Length:\r\n 5\r\n\r\n", length_malformed),
	REFUSE("white space before the first field", "GET / HTTP/1.1\r\n Host: a\r\n\r\n",
	       line_folded),
	REFUSE("bare LF behind a value", GET "X: a\n\r\n", bare_lf),
	REFUSE("bare LF behind a length", POST "Content-Length: 5\n\r\n", bare_lf),
	REFUSE("bare LF for the empty line", GET "\n", bare_lf),
	REFUSE("bare CR in a value", GET "X: a\rb\r\n\r\n", bare_cr),
	REFUSE("bare CR behind a length", POST "Content-Length: 5\r\r\n\r\n", bare_cr),
	REFUSE("bare CR before the empty line", GET "\r\r\n", bare_cr),
	REFUSE("NUL in a value", GET "X: a\0b\r\n\r\n", bad_field_value),
	REFUSE("NUL in a length", POST "Content-Length: 5\0\r\n\r\n", bad_field_value),
	REFUSE("DEL in a value", GET "X: a\x7f\r\n\r\n", bad_field_value),
	REFUSE("escape in a value", GET "X: \x1b[0m\r\n\r\n", bad_field_value),
	REFUSE("form feed before a length", POST "Content-Length: \f5\r\n\r\n", bad_field_value),
	REFUSE("vertical tab before a coding", POST "Transfer-Encoding: \vchunked\r\n\r\n",
	       bad_field_value),
	REFUSE("space before the colon", GET "X : a\r\n\r\n", bad_field_name),
	REFUSE("space before the colon of a length", POST "Content-Length : 5\r\n\r\n",
	       bad_field_name),
	REFUSE("no name", GET ": a\r\n\r\n", bad_field_name),
	REFUSE("no colon", GET "X\r\n\r\n", bad_field_name),
	REFUSE("NUL in a name", GET "X\0: a\r\n\r\n", bad_field_name),
	REFUSE("byte above 0x7f in a name", GET "X\xe9: a\r\n\r\n", bad_field_name),
	REFUSE("brackets in a name", GET "X[0]: a\r\n\r\n", bad_field_name),
	/* Host */
	REFUSE("no Host", "GET / HTTP/1.1\r\n\r\n", host_missing),
	REFUSE("two Hosts", GET "host: a\r\n\r\n", host_repeated),
	/* framing */
	REFUSE("length and coding", POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
	       length_and_coding),
	REFUSE("coding and length", POST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
	       length_and_coding),
	REFUSE("two lengths", POST "Content-Length: 5\r\nContent-Length: 5\r\n\r\n",
	       length_repeated),
	REFUSE("two lengths that differ", POST "Content-Length: 5\r\ncontent-length: 6\r\n\r\n",
	       length_repeated),
	REFUSE("two codings",
	       POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
	       coding_repeated),
	REFUSE("+5", POST "Content-Length: +5\r\n\r\n", length_malformed),
	REFUSE("-5", POST "Content-Length: -5\r\n\r\n", length_malformed),
	REFUSE("0x5", POST "Content-Length: 0x5\r\n\r\n", length_malformed),
	REFUSE("5.0", POST "Content-Length: 5.0\r\n\r\n", length_malformed),
	REFUSE("empty length", POST "Content-Length:\r\n\r\n", length_malformed),
	REFUSE("blank length", POST "Content-Length:   \r\n\r\n", length_malformed),
	REFUSE("5, 5", POST "Content-Length: 5, 5\r\n\r\n", length_malformed),
	REFUSE("5,5", POST "Content-Length: 5,5\r\n\r\n", length_malformed),
	REFUSE("comma before a length", POST "Content-Length: ,5\r\n\r\n", length_malformed),
	REFUSE("5 5", POST "Content-Length: 5 5\r\n\r\n", length_malformed),
	REFUSE("20 digits", POST "Content-Length: 18446744073709551621\r\n\r\n", length_too_large),
	REFUSE("64 digits",
	       POST
	       "Content-Length: 0000000000000000000000000000000000000000000000000000000000000005"
	       "\r\n\r\n",
	       length_too_large),
	REFUSE("gzip, chunked", POST "Transfer-Encoding: gzip, chunked\r\n\r\n", coding_unknown),
	REFUSE("chunked, chunked", POST "Transfer-Encoding: chunked, chunked\r\n\r\n",
	       coding_unknown),
	REFUSE("identity", POST "Transfer-Encoding: identity\r\n\r\n", coding_unknown),
	REFUSE("xchunked", POST "Transfer-Encoding: xchunked\r\n\r\n", coding_unknown),
	REFUSE("chunked with a parameter", POST "Transfer-Encoding: chunked;q=1\r\n\r\n",
	       coding_unknown),
	REFUSE("quoted chunked", POST "Transfer-Encoding: \"chunked\"\r\n\r\n", coding_unknown),
	REFUSE("empty coding", POST "Transfer-Encoding:\r\n\r\n", coding_unknown),
	REFUSE("coding longer than is compared",
	       POST "Transfer-Encoding: chunkedxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n\r\n",
	       coding_unknown),
	REFUSE("chunked in HTTP/1.0",
	       "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", coding_in_1_0),
	REFUSE("another expectation", POST "Expect: 200-ok\r\n\r\n", expect_unknown),
	REFUSE("two expectations", POST "Expect: 100-continue, x\r\n\r\n", expect_unknown),
	/* found later, but worse */
	REFUSE("chunked, then a malformed field",
	       POST "Transfer-Encoding: chunked\r\nX : a\r\n\r\n", bad_field_name),
	REFUSE("Upgrade without a Host", "GET / HTTP/1.1\r\nUpgrade: x\r\n\r\n", host_missing),
	REFUSE("HTTP/1.0 with two lengths",
	       "POST / HTTP/1.0\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
	       length_repeated),
};

static struct kv_names names;

/* Parses a copy of its own size, so that the sanitizer sees a read behind it. */
static int parse(struct kv_request *r, const void *text, unsigned int len)
{
	__u8 *copy = malloc(len + !len);
	struct kv_source s = {copy, len};
	int lane;

	memcpy(copy, text, len);
	memset(r, 0xa5, sizeof(*r)); /* what is in it before does not matter */
	lane = kv_request_parse(r, &s, &names);
	free(copy);
	return lane;
}

static void check_head(const struct head *h)
{
	struct kv_request r;
	int lane = parse(&r, h->text, h->len);

	CHECK_EQ(lane, h->lane);
	CHECK_EQ(r.lane, lane);
	CHECK_STR(kv_reason_info(r.reason)->name, kv_reason_info(h->reason)->name);
	CHECK_EQ(kv_reason_info(r.reason)->status >= 400, lane == KV_LANE_REFUSE);
	CHECK(r.head_len <= h->len);
	/* Cut short it is the same refusal, or not whole: never something else. */
	for (unsigned int n = 0; n < h->len; n++) {
		struct kv_request cut;
		int cut_lane = parse(&cut, h->text, n);

		if (r.head_len && n >= r.head_len) {
			CHECK_EQ(cut_lane, lane);
			CHECK_EQ(cut.reason, r.reason);
		} else if (cut_lane == KV_LANE_REFUSE) {
			CHECK_EQ(lane, KV_LANE_REFUSE);
			CHECK_EQ(cut.reason, r.reason);
		} else {
			CHECK_EQ(cut_lane, KV_LANE_AGENT);
			CHECK_EQ(cut.reason, KV_REASON_head_incomplete);
			CHECK_EQ(cut.head_len, 0);
		}
	}
}

/* A request head with a field of n bytes, behind the fields given. */
static unsigned int padded(char *text, const char *fields, unsigned int n)
{
	unsigned int len = sprintf(text, "%s%sX: ", POST, fields);

	memset(text + len, 'x', n);
	return len + n + sprintf(text + len + n, "\r\n\r\n");
}

static void check_result(void)
{
	static struct kv_request r;
#define PARSE(text) parse(&r, text, sizeof(text) - 1)

	TEST("what the head says")
	{
		CHECK_EQ(PARSE(POST "content-LENGTH: 1234567890123\r\nConnection: x, CLOSE\r\n"
				    "Expect: 100-continue\r\n\r\nrest"),
			 KV_LANE_EXPRESS);
		CHECK_EQ(r.head_len, sizeof(POST) - 1 + 77);
		CHECK_EQ(r.n_fields, 4);
		CHECK_EQ(r.minor, 1);
		CHECK(r.is_post && !r.is_head && r.completion);
		CHECK(r.has_body_len && !r.chunked && r.expect_continue);
		CHECK_EQ(r.body_len, 1234567890123);
		CHECK(r.close && !r.keep_alive && !kv_request_persistent(&r));
		CHECK_EQ(r.target_off, 5);
		CHECK_EQ(r.target_len, 15);
		CHECK_EQ(r.session, 0);
		CHECK_EQ(r.hint_state, KV_HINT_NONE);
	}
	TEST("a request for the agent is read whole")
	{
		CHECK_EQ(PARSE(POST
			       "Transfer-Encoding: chunked\r\nUpgrade: x\r\nx-session-id: 7\r\n"
			       "KV-Prefix: 1;20,16:0123456789abcdef\r\n\r\n"),
			 KV_LANE_AGENT);
		CHECK_EQ(r.reason, KV_REASON_chunked_body);
		CHECK(r.chunked && !r.has_body_len && r.upgrade && r.session && r.head_len);
		CHECK_EQ(r.hint_state, KV_HINT_OK);
	}
	TEST("HTTP/1.0")
	{
		CHECK_EQ(PARSE("HEAD / HTTP/1.0\r\n\r\n"), KV_LANE_AGENT);
		CHECK(r.is_head && !r.is_post && !r.minor && !kv_request_persistent(&r));
		PARSE("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
		CHECK(kv_request_persistent(&r));
		PARSE("GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n");
		CHECK(!kv_request_persistent(&r));
	}
	TEST("words that only contain close")
	{
		PARSE(GET "Connection: closed, xclose, clos, close;x, \"close\", "
			  "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxclose\r\n\r\n");
		CHECK(!r.close && kv_request_persistent(&r));
		PARSE(GET "Connection: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx ,\t close\r\n\r\n");
		CHECK(r.close);
	}
	TEST("paths whose body holds a prompt")
	{
		static const char *const yes[] = {
			"/v1/chat/completions", "/v1/completions", "/v1/messages",
			"/v1/responses",	"/generate",	   "/generate?a=b",
			"/v1/messages?"};
		static const char *const no[] = {"/",
						 "/v1/models",
						 "/v1/completions/",
						 "/v1/Completions",
						 "/generate2",
						 "/generat",
						 "/v1/chat/completions/and/something/else",
						 "/x?/generate",
						 "http://a/generate"};
		char text[256];

		for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
			parse(&r, text,
			      sprintf(text, "POST %s HTTP/1.1\r\nHost: a\r\n\r\n", yes[i]));
			CHECK(r.completion);
			CHECK_EQ(r.target_len, strlen(yes[i]));
			parse(&r, text,
			      sprintf(text, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", yes[i]));
			CHECK(!r.completion);
		}
		for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++) {
			parse(&r, text,
			      sprintf(text, "POST %s HTTP/1.1\r\nHost: a\r\n\r\n", no[i]));
			CHECK(!r.completion && r.head_len);
		}
	}
}

static void check_sizes(void)
{
	static struct kv_request r;
	static char text[3 * KV_HEAD_MAX];
	unsigned int len;

	TEST("64 fields")
	{
		len = sprintf(text, GET);
		for (int i = 1; i < 64; i++)
			len += sprintf(text + len, "X%d: a\r\n", i);
		memcpy(text + len, "\r\nY: a\r\n\r\n", 10);
		CHECK_EQ(parse(&r, text, len + 2), KV_LANE_EXPRESS);
		CHECK_EQ(r.n_fields, 64);
		memcpy(text + len, "Y: a\r\n\r\n", 8);
		CHECK_EQ(parse(&r, text, len + 8), KV_LANE_REFUSE);
		CHECK_EQ(r.reason, KV_REASON_too_many_fields);
	}
	TEST("8192 bytes")
	{
		len = padded(text, "", 0);
		len = padded(text, "", KV_HEAD_MAX - len);
		CHECK_EQ(len, KV_HEAD_MAX);
		CHECK_EQ(parse(&r, text, len), KV_LANE_EXPRESS);
		CHECK_EQ(r.head_len, KV_HEAD_MAX);
		CHECK_EQ(parse(&r, text, len - 1), KV_LANE_AGENT);
		len = padded(text, "", 0);
		len = padded(text, "", KV_HEAD_MAX - len + 1);
		CHECK_EQ(parse(&r, text, len), KV_LANE_REFUSE);
		CHECK_EQ(r.reason, KV_REASON_head_too_large);
		CHECK_EQ(parse(&r, text, KV_HEAD_MAX), KV_LANE_REFUSE);
		CHECK_EQ(parse(&r, text, KV_HEAD_MAX - 1), KV_LANE_AGENT);
	}
	TEST("targets and white space of any length")
	{
		for (unsigned int n = 0; n < 700; n += 1 + n / 100) {
			len = sprintf(text, "GET /");
			memset(text + len, 'y', n);
			len += n +
			       sprintf(text + len + n, " HTTP/1.1\r\nHost: a\r\nContent-Length:");
			memset(text + len, n & 1 ? ' ' : '\t', n);
			len += n + sprintf(text + len + n, "17");
			memset(text + len, n & 1 ? '\t' : ' ', n);
			len += n + sprintf(text + len + n, "\r\nConnection:");
			memset(text + len, n & 1 ? ',' : ' ', n);
			len += n + sprintf(text + len + n, "close\r\n\r\n");
			CHECK_EQ(parse(&r, text, len), KV_LANE_EXPRESS);
			CHECK_EQ(r.head_len, len);
			CHECK_EQ(r.target_len, n + 1);
			CHECK_EQ(r.body_len, 17);
			CHECK_EQ(r.close, 1);
		}
	}
	TEST("fields at any place of the window")
	{
		for (unsigned int n = 0; n < 600; n++) {
			len = sprintf(text, POST "X: ");
			memset(text + len, 'x', n);
			len += n;
			len += sprintf(text + len,
				       "\r\nContent-Length: 77\r\nx-session-id: s-%s\r\n"
				       "KV-Prefix:  1;99,50:0123456789abcdef,99:"
				       "fedcba9876543210 \r\nConnection: close\r\n\r\n",
				       NAME32 NAME32);
			CHECK_EQ(parse(&r, text, len), KV_LANE_EXPRESS);
			CHECK_EQ(r.head_len, len);
			CHECK_EQ(r.body_len, 77);
			CHECK_EQ(r.session, kv_session_hash("s-" NAME32 NAME32, 66));
			CHECK_EQ(r.hint_state, KV_HINT_OK);
			CHECK_EQ(r.hint.n, 2);
			CHECK_EQ(r.hint.rungs[1].hash, 0xfedcba9876543210);
			CHECK_EQ(r.close, 1);
		}
	}
}

static void check_hints(void)
{
	static struct kv_request r;

	TEST("session headers")
	{
		CHECK(kv_session_hash("abc", 3) != kv_session_hash("abd", 3));
		CHECK_EQ(kv_session_hash("", 0), 0);
		PARSE(GET "X-Session-ID: \t abc \t \r\n\r\n");
		CHECK_EQ(r.session, kv_session_hash("abc", 3));
		PARSE(GET "session_id: a b\tc\r\n\r\n");
		CHECK_EQ(r.session, kv_session_hash("a b\tc", 5));
		/* the first with a value */
		PARSE(GET "session-id:  \r\nx-smg-routing-key: one\r\nx-session-id: two\r\n\r\n");
		CHECK_EQ(r.session, kv_session_hash("one", 3));
		PARSE(GET "x-request-id: abc\r\nx-session-i: d\r\nx-session-idx: e\r\n\r\n");
		CHECK_EQ(r.session, 0);
	}
	TEST("KV-Prefix")
	{
		PARSE(POST "kv-prefix:1;20,16:0123456789abcdef\r\n\r\n");
		CHECK_EQ(r.hint_state, KV_HINT_OK);
		CHECK_EQ(r.hint.total, 20);
		CHECK_EQ(r.hint.rungs[0].hash, 0x0123456789abcdef);
		PARSE(POST "KV-Prefix:\r\n\r\n");
		CHECK_EQ(r.hint_state, KV_HINT_MALFORMED);
		CHECK_EQ(PARSE(POST "KV-Prefix: 2;20,16:0123456789abcdef\r\n\r\n"),
			 KV_LANE_EXPRESS);
		CHECK_EQ(r.hint_state, KV_HINT_MALFORMED);
		PARSE(POST "KV-Prefix: 1;20,16:0123456789abcdef\r\n"
			   "KV-Prefix: 1;20,16:0123456789abcdef\r\n\r\n");
		CHECK_EQ(r.hint_state, KV_HINT_MALFORMED);
	}
	TEST("session header names")
	{
		struct kv_names n = {0};

		CHECK_EQ(kv_names_add(&n, "X-Foo"), 0);
		CHECK_EQ(kv_names_add(&n, ""), -EINVAL);
		CHECK_EQ(kv_names_add(&n, "a b"), -EINVAL);
		CHECK_EQ(kv_names_add(&n, NAME32), -EINVAL);
		CHECK_EQ(kv_names_add(&n, NAME32 + 1), 0);
		CHECK_EQ(kv_names_add(&n, "Content-Length"), -EPERM);
		CHECK_EQ(kv_names_add(&n, "host"), -EPERM);
		for (int i = 2; i < KV_NAMES_MAX; i++)
			CHECK_EQ(kv_names_add(&n, "y"), 0);
		CHECK_EQ(kv_names_add(&n, "z"), -ENOSPC);
		names = n;
		PARSE(GET "x-FOO: 1\r\n\r\n");
		CHECK_EQ(r.session, kv_session_hash("1", 1));
		PARSE(GET "bcdefghijklmnopqrstuvwxyz012345: 2\r\n\r\n");
		CHECK_EQ(r.session, kv_session_hash("2", 1));
		PARSE(GET "x-session-id: 3\r\n\r\n");
		CHECK_EQ(r.session, 0);
		kv_names_default(&names);
	}
}

int main(void)
{
	kv_names_default(&names);
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
		TEST(heads[i].name)
	check_head(&heads[i]);
	check_result();
	check_sizes();
	check_hints();
	return check_done();
}
