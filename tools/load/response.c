// SPDX-License-Identifier: BSD-2-Clause
/* What was asked for in an answer: length, hash of the body, server-sent events. */
#include <string.h>

#include "load.h"

void load_response_init(struct load_response *r, const struct load_options *o)
{
	answer_init(&r->http);
	r->http.head_only = !strcmp(o->method, "HEAD");
	r->events = 0;
	r->sse_seen_done = false;
	r->sse_match = 0;
	if (r->hash)
		XXH3_64bits_reset(r->hash);
}

static enum load_status bad(struct load_response *r, const char *why)
{
	r->http.error = why;
	return LOAD_BAD;
}

/* Counts lines that begin with "data:" and notices the last one, "data: [DONE]". */
static void sse(struct load_response *r, const char *data, size_t len)
{
	static const char done[] = "data: [DONE]";
	const char *end = data + len;

	while (data < end) {
		if (r->sse_match < sizeof(done) - 1 && *data == done[r->sse_match]) {
			if (++r->sse_match == 5)
				r->events++;
			if (r->sse_match == sizeof(done) - 1)
				r->sse_seen_done = true;
			data++;
			continue;
		}
		r->sse_match = 255;
		data = memchr(data, '\n', end - data);
		if (!data)
			return;
		data++;
		r->sse_match = 0;
	}
}

static enum load_status complete(struct load_response *r, const struct load_options *o)
{
	bool good = r->http.status < 300;

	if (o->expect_bytes && good && r->http.bytes != o->expect_bytes)
		return bad(r, "body has another length than expected");
	if (o->stream && good) {
		if (!r->sse_seen_done)
			return bad(r, "stream without [DONE]");
		if (o->expect_events && r->events != o->expect_events)
			return bad(r, "stream has another number of events than expected");
	}
	return r->http.close ? LOAD_DONE_LAST : LOAD_DONE;
}

enum load_status load_response_feed(struct load_response *r, const struct load_options *o,
				    const char *data, size_t len)
{
	const char *body;
	size_t n;

	for (;;) {
		switch (answer_next(&r->http, &data, &len, &body, &n)) {
		case ANSWER_MORE:
			return LOAD_MORE;
		case ANSWER_HEAD:
			break;
		case ANSWER_BODY:
			if (r->hash)
				XXH3_64bits_update(r->hash, body, n);
			if (o->stream)
				sse(r, body, n);
			break;
		case ANSWER_END:
			return len ? bad(r, "bytes behind the end of the answer") : complete(r, o);
		case ANSWER_BAD:
			return LOAD_BAD;
		}
	}
}

enum load_status load_response_eof(struct load_response *r, const struct load_options *o)
{
	return answer_eof(&r->http) == ANSWER_END ? complete(r, o) : LOAD_BAD;
}
