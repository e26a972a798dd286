// SPDX-License-Identifier: BSD-2-Clause
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "http.h"

bool slice_is(struct slice s, const char *text)
{
	return s.n == strlen(text) && !memcmp(s.p, text, s.n);
}

static bool is_name(struct slice s, const char *text)
{
	return s.n == strlen(text) && !strncasecmp(s.p, text, s.n);
}

static bool token_char(unsigned char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c && strchr("!#$%&'*+-.^_`|~", c));
}

/* One line without its CRLF. 1, 0 (incomplete) or -1 (bare CR or LF, NUL). */
static int line(const char *p, const char *end, struct slice *ret, const char **ret_next)
{
	for (const char *q = p; q < end; q++) {
		if (*q == '\n' || !*q)
			return -1;
		if (*q != '\r')
			continue;
		if (q + 1 == end)
			return 0;
		if (q[1] != '\n')
			return -1;
		*ret = (struct slice){p, q - p};
		*ret_next = q + 2;
		return 1;
	}
	return 0;
}

static int request_line(struct slice l, struct request *r, const char **ret_why)
{
	const char *end = l.p + l.n, *q = l.p, *mark;

	while (q < end && token_char(*q))
		q++;
	r->method = (struct slice){l.p, q - l.p};
	*ret_why = "malformed request line";
	if (!r->method.n || q == end || *q != ' ')
		return -400;
	r->target.p = ++q;
	while (q < end && (unsigned char)*q > 0x20 && *q != 0x7f)
		q++;
	r->target.n = q - r->target.p;
	if (!r->target.n || end - q != 9 || *q != ' ')
		return -400;
	if (memcmp(q, " HTTP/1.", 8)) {
		*ret_why = "HTTP version not supported";
		return memcmp(q, " HTTP/", 6) ? -400 : -505;
	}
	if (q[8] != '0' && q[8] != '1')
		return -400;
	r->keep_alive = q[8] == '1';
	r->path = r->target;
	if (r->path.n > 7 && !memcmp(r->path.p, "http://", 7)) { /* absolute form */
		const char *slash = memchr(r->path.p + 7, '/', r->path.n - 7);

		r->path.n = slash ? r->target.p + r->target.n - slash : 0;
		r->path.p = slash;
	}
	if (!r->path.n || (*r->path.p != '/' && !slice_is(r->path, "*")))
		return -400;
	mark = memchr(r->path.p, '?', r->path.n);
	if (mark) {
		r->query = (struct slice){mark + 1, r->path.p + r->path.n - mark - 1};
		r->path.n = mark - r->path.p;
	}
	r->head_only = slice_is(r->method, "HEAD");
	return 1;
}

static int field(struct slice l, struct request *r, int *hosts, const char **ret_why)
{
	const char *end = l.p + l.n, *q = l.p;
	struct slice name, value;

	while (q < end && token_char(*q))
		q++;
	name = (struct slice){l.p, q - l.p};
	*ret_why = "malformed header field";
	if (!name.n || q == end || *q != ':')
		return -400;
	for (q++; q < end && (*q == ' ' || *q == '\t'); q++)
		;
	while (end > q && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	value = (struct slice){q, end - q};
	for (size_t i = 0; i < value.n; i++)
		if (((unsigned char)q[i] < 0x20 && q[i] != '\t') || q[i] == 0x7f)
			return -400;

	if (is_name(name, "host")) {
		(*hosts)++;
	} else if (is_name(name, "content-length")) {
		*ret_why = "malformed Content-Length";
		if (r->has_length || !value.n || value.n > 18)
			return -400;
		for (size_t i = 0; i < value.n; i++) {
			if (q[i] < '0' || q[i] > '9')
				return -400;
			r->content_length = r->content_length * 10 + (q[i] - '0');
		}
		r->has_length = true;
	} else if (is_name(name, "transfer-encoding")) {
		*ret_why = "Transfer-Encoding not supported";
		if (r->chunked || !is_name(value, "chunked"))
			return -501;
		r->chunked = true;
	} else if (is_name(name, "connection")) {
		if (is_name(value, "close"))
			r->keep_alive = false;
	} else if (is_name(name, "expect")) {
		*ret_why = "unknown expectation";
		if (!is_name(value, "100-continue"))
			return -417;
		r->expect = true;
	} else if (is_name(name, "user-agent")) {
		r->follower = is_name(value, "kvsteerd");
	} else if (is_name(name, "x-tag")) {
		r->tag = value;
	}
	return 1;
}

int http_head(const char *p, size_t n, struct request *ret, const char **ret_why)
{
	const char *next = p, *end = p + n;
	struct slice l;
	int err, hosts = 0;

	memset(ret, 0, sizeof(*ret));
	*ret_why = "bare CR, LF or NUL in the request head";
	err = line(next, end, &l, &next);
	if (err <= 0)
		goto incomplete;
	err = request_line(l, ret, ret_why);
	if (err < 0)
		return err;
	for (;;) {
		err = line(next, end, &l, &next);
		if (err <= 0)
			goto incomplete;
		if (!l.n)
			break;
		err = field(l, ret, &hosts, ret_why);
		if (err < 0)
			return err;
	}
	ret->head_len = next - p;
	ret->head = (struct slice){p, ret->head_len};
	*ret_why = "exactly one Host field is needed";
	if (hosts != 1 && (ret->keep_alive || hosts > 1))
		return -400;
	*ret_why = "both Content-Length and Transfer-Encoding";
	if (ret->chunked && ret->has_length)
		return -400;
	*ret_why = "request body too large";
	if (ret->content_length > BODY_MAX)
		return -413;
	*ret_why = "request head too large";
	return ret->head_len > HEAD_MAX ? -431 : 1;

incomplete:
	if (err < 0)
		return -400;
	*ret_why = "request head too large";
	return n > HEAD_MAX ? -431 : 0;
}

enum { CHUNK_SIZE, CHUNK_DATA, CHUNK_END, CHUNK_TRAILERS };

static int chunk_size(struct slice l, uint64_t *ret)
{
	size_t i;

	for (*ret = 0, i = 0; i < l.n && i < 15; i++) {
		int c = l.p[i] | 0x20;

		if (c >= '0' && c <= '9')
			*ret = *ret * 16 + (c - '0');
		else if (c >= 'a' && c <= 'f')
			*ret = *ret * 16 + (c - 'a' + 10);
		else
			break;
	}
	return i && (i == l.n || l.p[i] == ';') ? 1 : -400;
}

int http_chunks(char *p, size_t n, struct chunks *c, const char **ret_why)
{
	*ret_why = "malformed chunked body";
	for (;;) {
		const char *next, *why;
		struct slice l;
		int err;

		if (c->out > BODY_MAX)
			return -413;
		if (c->state == CHUNK_DATA) {
			size_t take = n - c->at < c->left ? n - c->at : c->left;

			memmove(p + c->out, p + c->at, take);
			c->at += take;
			c->out += take;
			c->left -= take;
			if (c->left)
				return 0;
			c->state = CHUNK_END;
		}
		err = line(p + c->at, p + n, &l, &next);
		if (err <= 0)
			return err < 0 || n - c->at > HEAD_MAX ? -400 : 0;
		c->at = next - p;
		switch (c->state) {
		case CHUNK_SIZE:
			err = chunk_size(l, &c->left);
			if (err < 0)
				return err;
			c->state = c->left ? CHUNK_DATA : CHUNK_TRAILERS;
			break;
		case CHUNK_END:
			if (l.n)
				return -400;
			c->state = CHUNK_SIZE;
			break;
		case CHUNK_TRAILERS:
			if (!l.n)
				return 1;
			/* their meaning does not matter here, their form does */
			if (field(l, &(struct request){0}, &(int){0}, &why) == -400)
				return -400;
			break;
		}
	}
}

struct slice query_get(struct slice query, const char *key)
{
	const char *p = query.p, *end = query.p + query.n;
	size_t len = strlen(key);

	while (p && p < end) {
		const char *stop = memchr(p, '&', end - p);

		stop = stop ? stop : end;
		if ((size_t)(stop - p) > len && p[len] == '=' && !memcmp(p, key, len))
			return (struct slice){p + len + 1, stop - p - len - 1};
		p = stop + 1;
	}
	return (struct slice){"", 0};
}

uint64_t query_num(struct slice query, const char *key, uint64_t otherwise)
{
	struct slice v = query_get(query, key);
	char text[24];

	if (!v.n || v.n >= sizeof(text))
		return otherwise;
	memcpy(text, v.p, v.n);
	text[v.n] = 0;
	return strtoull(text, NULL, 10);
}
