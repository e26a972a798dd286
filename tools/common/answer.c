// SPDX-License-Identifier: BSD-2-Clause
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "answer.h"

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

void answer_init(struct answer *a)
{
	memset(a, 0, offsetof(struct answer, head));
}

bool answer_is_whole(const struct answer *a)
{
	return a->state == COMPLETE;
}

bool answer_untouched(const struct answer *a)
{
	return a->state == IN_HEAD && !a->head_len && !a->interims;
}

static enum answer_event bad(struct answer *a, const char *why)
{
	a->error = why;
	return ANSWER_BAD;
}

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Value of the field in this line, which ends with CRLF; NULL if it has another name. */
static const char *value_of(const char *line, const char *next, const char *name, size_t *ret_len)
{
	size_t n = strlen(name);
	const char *end = next - 2;

	if ((size_t)(end - line) <= n || line[n] != ':' || strncasecmp(line, name, n))
		return NULL;
	line += n + 1;
	while (line < end && (*line == ' ' || *line == '\t'))
		line++;
	while (end > line && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	*ret_len = end - line;
	return line;
}

static bool is(const char *value, size_t len, const char *word)
{
	return len == strlen(word) && !strncasecmp(value, word, len);
}

unsigned int answer_field(const struct answer *a, const char *name, const char **ret_value,
			  size_t *ret_len)
{
	const char *line = strstr(a->head, "\r\n") + 2, *next, *v;
	unsigned int found = 0;
	size_t len;

	for (; strncmp(line, "\r\n", 2); line = next) {
		next = strstr(line, "\r\n") + 2;
		v = value_of(line, next, name, &len);
		if (v) {
			found++;
			*ret_value = v;
			*ret_len = len;
		}
	}
	return found;
}

/* CR and LF only as a pair, no NUL: a head holds only what all its readers read alike. */
static bool lines_are_plain(const char *head, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!head[i] || (head[i] == '\n' && (!i || head[i - 1] != '\r')) ||
		    (head[i] == '\r' && head[i + 1] != '\n'))
			return false;
	return true;
}

static bool read_length(const char *v, size_t len, uint64_t *ret)
{
	*ret = 0;
	if (!len || len > 18)
		return false;
	for (size_t i = 0; i < len; i++) {
		if (v[i] < '0' || v[i] > '9')
			return false;
		*ret = *ret * 10 + (v[i] - '0');
	}
	return true;
}

/* a->head holds a whole head of len bytes, ended by NUL. */
static enum answer_event parse_head(struct answer *a, size_t len)
{
	bool chunked = false, have_length = false;
	const char *line, *next, *v;
	char *end;
	size_t n;

	if (!lines_are_plain(a->head, len))
		return bad(a, "bare CR, LF or NUL in the head");
	if (strncmp(a->head, "HTTP/1.", 7) || (a->head[7] != '1' && a->head[7] != '0') ||
	    a->head[8] != ' ')
		return bad(a, "status line is not HTTP/1.x");
	a->status = (int)strtol(a->head + 9, &end, 10);
	if (end != a->head + 12 || a->status < 100)
		return bad(a, "status line without a status");
	a->close = a->head[7] == '0';
	a->left = 0;
	line = strstr(a->head, "\r\n") + 2;
	for (; line < a->head + len - 2; line = next) {
		next = strstr(line, "\r\n") + 2;
		if ((v = value_of(line, next, "content-length", &n))) {
			if (have_length)
				return bad(a, "two Content-Length fields");
			have_length = true;
			if (!read_length(v, n, &a->left))
				return bad(a, "Content-Length is not a number");
		} else if ((v = value_of(line, next, "transfer-encoding", &n))) {
			if (chunked || !is(v, n, "chunked"))
				return bad(a, "Transfer-Encoding other than chunked");
			chunked = true;
		} else if ((v = value_of(line, next, "connection", &n))) {
			if (is(v, n, "close"))
				a->close = true;
			else if (is(v, n, "keep-alive"))
				a->close = false;
		}
	}
	if (chunked && have_length)
		return bad(a, "Content-Length beside Transfer-Encoding");
	a->state = IN_HEAD;
	if (a->status < 200) {
		a->interims++;
		return ANSWER_MORE;
	}
	if (a->head_only || a->status == 204 || a->status == 304)
		a->state = COMPLETE;
	else if (chunked)
		a->state = CHUNK_SIZE;
	else if (have_length)
		a->state = a->left ? IN_BODY : COMPLETE;
	else
		a->state = TO_CLOSE;
	if (a->state == TO_CLOSE)
		a->close = true;
	return ANSWER_HEAD;
}

/* Takes bytes of the head out of the data; *ret_used of them. */
static enum answer_event feed_head(struct answer *a, const char *data, size_t len, size_t *ret_used)
{
	size_t had = a->head_len, room = ANSWER_HEAD_MAX - 1 - had;
	size_t take = len < room ? len : room, from = had > 3 ? had - 3 : 0;
	const char *end;

	memcpy(a->head + had, data, take);
	end = memmem(a->head + from, had + take - from, "\r\n\r\n", 4);
	if (!end) {
		if (take == room)
			return bad(a, "head does not end");
		a->head_len += take;
		*ret_used = take;
		return ANSWER_MORE;
	}
	*ret_used = end + 4 - a->head - had;
	a->head[end + 4 - a->head] = 0;
	a->head_len = 0;
	return parse_head(a, end + 4 - a->head);
}

/* One byte of what is around the chunks. */
static const char *chunk_byte(struct answer *a, char c)
{
	switch (a->state) {
	case CHUNK_SIZE:
		a->left = 0;
		if (hex(c) < 0)
			return "chunk without a size";
		a->state = CHUNK_SIZE_MORE;
		/* fallthrough */
	case CHUNK_SIZE_MORE:
		if (hex(c) >= 0) {
			if (a->left >> 56)
				return "chunk size overflows";
			a->left = a->left << 4 | hex(c);
			return NULL;
		}
		/* fallthrough */
	case CHUNK_EXTENSION:
		if (c != '\r' && a->state == CHUNK_SIZE_MORE && c != ';' && c != ' ')
			return "chunk size is not hexadecimal";
		a->state = c == '\r' ? CHUNK_SIZE_LF : CHUNK_EXTENSION;
		return NULL;
	case CHUNK_SIZE_LF:
		a->state = a->left ? CHUNK_DATA : TRAILER_START;
		return c == '\n' ? NULL : "chunk size line without LF";
	case CHUNK_DATA_CR:
		a->state = CHUNK_DATA_LF;
		return c == '\r' ? NULL : "chunk longer than its size";
	case CHUNK_DATA_LF:
		a->state = CHUNK_SIZE;
		return c == '\n' ? NULL : "chunk without LF";
	case TRAILER_START:
	case TRAILER:
		if (c == '\r')
			a->state = a->state == TRAILER_START ? END_LF : TRAILER_LF;
		else
			a->state = TRAILER;
		return NULL;
	case TRAILER_LF:
		a->state = TRAILER_START;
		return c == '\n' ? NULL : "trailer without LF";
	default: /* END_LF */
		a->state = COMPLETE;
		return c == '\n' ? NULL : "last chunk without LF";
	}
}

static enum answer_event take_body(struct answer *a, const char **data, size_t *len,
				   const char **ret_body, size_t *ret_len)
{
	size_t n = *len;

	if (a->state != TO_CLOSE) {
		if (n > a->left)
			n = a->left;
		a->left -= n;
		if (!a->left)
			a->state = a->state == IN_BODY ? COMPLETE : CHUNK_DATA_CR;
	}
	*ret_body = *data;
	*ret_len = n;
	a->bytes += n;
	*data += n;
	*len -= n;
	return ANSWER_BODY;
}

enum answer_event answer_next(struct answer *a, const char **data, size_t *len,
			      const char **ret_body, size_t *ret_len)
{
	enum answer_event e;
	size_t n;

	while (a->state != COMPLETE && *len) {
		switch (a->state) {
		case IN_HEAD:
			e = feed_head(a, *data, *len, &n);
			if (e == ANSWER_BAD)
				return e;
			*data += n;
			*len -= n;
			if (e == ANSWER_HEAD)
				return e;
			break;
		case IN_BODY:
		case TO_CLOSE:
		case CHUNK_DATA:
			return take_body(a, data, len, ret_body, ret_len);
		default:
			a->error = chunk_byte(a, **data);
			if (a->error)
				return ANSWER_BAD;
			++*data;
			--*len;
		}
	}
	return a->state == COMPLETE ? ANSWER_END : ANSWER_MORE;
}

enum answer_event answer_eof(struct answer *a)
{
	if (a->state == TO_CLOSE || a->state == COMPLETE)
		return ANSWER_END;
	return bad(a,
		   answer_untouched(a) ? "closed without an answer" : "closed inside the answer");
}
