// SPDX-License-Identifier: BSD-2-Clause
/* Reads answers: RFC 9112 framing in any segmentation, server-sent events, a hash of the body. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "load.h"

enum {
	IN_HEAD,
	IN_BODY,
	TO_CLOSE,
	CHUNK_SIZE, /* first digit */
	CHUNK_SIZE_MORE,
	CHUNK_EXTENSION,
	CHUNK_SIZE_LF,
	CHUNK_DATA,
	CHUNK_DATA_CR,
	CHUNK_DATA_LF,
	TRAILER_START,
	TRAILER,
	TRAILER_LF,
	END_LF,
	COMPLETE,
};

void load_response_init(struct load_response *r)
{
	XXH3_state_t *hash = r->hash;

	memset(r, 0, offsetof(struct load_response, head));
	r->hash = hash;
	if (hash)
		XXH3_64bits_reset(hash);
}

static enum load_status bad(struct load_response *r, const char *why)
{
	r->error = why;
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

static void body(struct load_response *r, const struct load_options *o, const char *data,
		 size_t len)
{
	r->bytes += len;
	if (r->hash)
		XXH3_64bits_update(r->hash, data, len);
	if (o->stream)
		sse(r, data, len);
}

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool field(const char *line, size_t len, const char *name, const char **ret_value)
{
	size_t n = strlen(name);

	if (len <= n || line[n] != ':' || strncasecmp(line, name, n))
		return false;
	line += n + 1;
	while (*line == ' ' || *line == '\t')
		line++;
	*ret_value = line;
	return true;
}

/* r->head holds a whole head of len bytes, ended by NUL. */
static enum load_status parse_head(struct load_response *r, const struct load_options *o,
				   size_t len)
{
	bool chunked = false, have_length = false;
	char *line, *next, *end;
	const char *v;

	if (strncmp(r->head, "HTTP/1.", 7) || (r->head[7] != '1' && r->head[7] != '0') ||
	    r->head[8] != ' ')
		return bad(r, "status line is not HTTP/1.x");
	r->status = (int)strtol(r->head + 9, &end, 10);
	if (end != r->head + 12 || r->status < 100)
		return bad(r, "status line without a status");
	r->close = r->head[7] == '0';
	r->left = 0;
	line = strstr(r->head, "\r\n") + 2;
	for (; line < r->head + len - 2; line = next) {
		next = strstr(line, "\r\n") + 2;
		if (field(line, next - line, "content-length", &v)) {
			if (have_length)
				return bad(r, "two Content-Length fields");
			have_length = true;
			r->left = strtoull(v, &end, 10);
			if (end == v || *end != '\r')
				return bad(r, "Content-Length is not a number");
		} else if (field(line, next - line, "transfer-encoding", &v)) {
			chunked = !strncasecmp(v, "chunked\r", 8);
			if (!chunked)
				return bad(r, "Transfer-Encoding other than chunked");
		} else if (field(line, next - line, "connection", &v)) {
			if (!strncasecmp(v, "close", 5))
				r->close = true;
			else if (!strncasecmp(v, "keep-alive", 10))
				r->close = false;
		}
	}
	if (chunked && have_length)
		return bad(r, "Content-Length beside Transfer-Encoding");
	if (r->status < 200) {
		r->state = IN_HEAD;
		return LOAD_MORE;
	}
	if (!strcmp(o->method, "HEAD") || r->status == 204 || r->status == 304)
		r->state = COMPLETE;
	else if (chunked)
		r->state = CHUNK_SIZE;
	else if (have_length)
		r->state = r->left ? IN_BODY : COMPLETE;
	else
		r->state = TO_CLOSE;
	return LOAD_MORE;
}

/* Takes bytes of the head out of the data; *used of them. */
static enum load_status feed_head(struct load_response *r, const struct load_options *o,
				  const char *data, size_t len, size_t *used)
{
	size_t had = r->head_len, room = LOAD_HEAD_MAX - 1 - had;
	size_t take = len < room ? len : room, from = had > 3 ? had - 3 : 0;
	const char *end;

	memcpy(r->head + had, data, take);
	end = memmem(r->head + from, had + take - from, "\r\n\r\n", 4);
	if (!end) {
		if (take == room)
			return bad(r, "head does not end");
		r->head_len += take;
		*used = take;
		return LOAD_MORE;
	}
	*used = end + 4 - r->head - had;
	r->head[end + 4 - r->head] = 0;
	r->head_len = 0;
	return parse_head(r, o, end + 4 - r->head);
}

/* One byte of what is around the chunks. */
static const char *chunk_byte(struct load_response *r, char c)
{
	switch (r->state) {
	case CHUNK_SIZE:
		r->left = 0;
		if (hex(c) < 0)
			return "chunk without a size";
		r->state = CHUNK_SIZE_MORE;
		/* fallthrough */
	case CHUNK_SIZE_MORE:
		if (hex(c) >= 0) {
			if (r->left >> 56)
				return "chunk size overflows";
			r->left = r->left << 4 | hex(c);
			return NULL;
		}
		/* fallthrough */
	case CHUNK_EXTENSION:
		if (c != '\r' && r->state == CHUNK_SIZE_MORE && c != ';' && c != ' ')
			return "chunk size is not hexadecimal";
		r->state = c == '\r' ? CHUNK_SIZE_LF : CHUNK_EXTENSION;
		return NULL;
	case CHUNK_SIZE_LF:
		r->state = r->left ? CHUNK_DATA : TRAILER_START;
		return c == '\n' ? NULL : "chunk size line without LF";
	case CHUNK_DATA_CR:
		r->state = CHUNK_DATA_LF;
		return c == '\r' ? NULL : "chunk longer than its size";
	case CHUNK_DATA_LF:
		r->state = CHUNK_SIZE;
		return c == '\n' ? NULL : "chunk without LF";
	case TRAILER_START:
	case TRAILER:
		if (c == '\r')
			r->state = r->state == TRAILER_START ? END_LF : TRAILER_LF;
		else
			r->state = TRAILER;
		return NULL;
	case TRAILER_LF:
		r->state = TRAILER_START;
		return c == '\n' ? NULL : "trailer without LF";
	default: /* END_LF */
		r->state = COMPLETE;
		return c == '\n' ? NULL : "last chunk without LF";
	}
}

static enum load_status complete(struct load_response *r, const struct load_options *o)
{
	if (o->expect_bytes && r->status < 300 && r->bytes != o->expect_bytes)
		return bad(r, "body has another length than expected");
	if (o->stream && r->status < 300) {
		if (!r->sse_seen_done)
			return bad(r, "stream without [DONE]");
		if (o->expect_events && r->events != o->expect_events)
			return bad(r, "stream has another number of events than expected");
	}
	return r->close ? LOAD_DONE_LAST : LOAD_DONE;
}

enum load_status load_response_feed(struct load_response *r, const struct load_options *o,
				    const char *data, size_t len)
{
	enum load_status s;
	size_t n;

	while (len) {
		switch (r->state) {
		case IN_HEAD:
			s = feed_head(r, o, data, len, &n);
			if (s != LOAD_MORE)
				return s;
			break;
		case IN_BODY:
		case CHUNK_DATA:
			n = len < r->left ? len : r->left;
			body(r, o, data, n);
			r->left -= n;
			if (!r->left)
				r->state = r->state == IN_BODY ? COMPLETE : CHUNK_DATA_CR;
			break;
		case TO_CLOSE:
			n = len;
			r->close = true;
			body(r, o, data, n);
			break;
		case COMPLETE:
			return bad(r, "bytes behind the end of the answer");
		default:
			n = 1;
			r->error = chunk_byte(r, *data);
			if (r->error)
				return LOAD_BAD;
		}
		data += n;
		len -= n;
	}
	return r->state == COMPLETE ? complete(r, o) : LOAD_MORE;
}

enum load_status load_response_eof(struct load_response *r, const struct load_options *o)
{
	if (r->state == TO_CLOSE)
		return complete(r, o);
	return bad(r, r->state == IN_HEAD && !r->head_len ? "closed without an answer"
							  : "closed inside the answer");
}
