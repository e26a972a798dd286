// SPDX-License-Identifier: BSD-2-Clause
/*
 * Makes all requests ahead: chat requests over a few long prompts, each with a tail of its own, or
 * one given body. A long request is not copied together: head, prompt, tail and end go out by one
 * sendmsg.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kvsteer.h>

#include "load.h"
#include "common/cleanup.h"

#define COPY_LIMIT 16384 /* shorter requests become one buffer */
#define HEAD_ROOM 8192

static uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* Words and lines of about the shape of prose and code; the line ends are escapes in JSON. */
static void make_text(char *out, size_t len, uint64_t seed)
{
	size_t word = 0, line = 0;
	uint64_t r = 0;

	for (size_t i = 0; i < len; i++) {
		if (!(i & 7))
			r = next_random(&seed);
		if (line > 70 && word > 2 && i + 2 < len) {
			out[i++] = '\\';
			out[i] = 'n';
			line = word = 0;
		} else if (word > 2 && !(r >> 5 & 3)) {
			out[i] = ' ';
			word = 0;
		} else {
			out[i] = 'a' + (r & 31) % 26;
			word++;
		}
		line++;
		r >>= 7;
	}
}

static int read_file(const char *path, char **ret_data, size_t *ret_len)
{
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	_cleanup_free_ char *data = NULL;
	size_t len = 0, got;
	char *grown;

	if (!f)
		return -errno;
	do {
		grown = realloc(data, len + 65536);
		if (!grown)
			return -ENOMEM;
		data = grown;
		got = fread(data + len, 1, 65536, f);
		len += got;
	} while (got);
	if (ferror(f))
		return -EIO;
	*ret_data = kv_take(data);
	*ret_len = len;
	return 0;
}

/* The pieces of one request, before it has a head. */
struct pieces {
	struct iovec part[LOAD_IOVS - 1];
	int n;
	size_t len;
};

static void add_piece(struct pieces *p, char *data, size_t len)
{
	p->part[p->n++] = (struct iovec){data, len};
	p->len += len;
}

/* The KV-Prefix line of a body that is in pieces. */
static int hint_line(const struct load_options *o, const struct pieces *p, char *scratch, char *out,
		     size_t size)
{
	struct kvsteer_prompt prompt;
	char value[KVSTEER_HEADER_SIZE];
	size_t at = 0;
	int err;

	for (int i = 0; i < p->n; i++) {
		memcpy(scratch + at, p->part[i].iov_base, p->part[i].iov_len);
		at += p->part[i].iov_len;
	}
	err = kvsteer_body(o->path, scratch, at, NULL, &prompt);
	if (!err)
		err = kvsteer_header(&prompt, value, sizeof(value));
	if (err < 0) {
		fprintf(stderr, "kv-load: no hint for this body: %s\n",
			prompt.reason ? prompt.reason : strerror(-err));
		return err;
	}
	return snprintf(out, size, KVSTEER_HEADER_NAME ": %s\r\n", value);
}

static int make_head(const struct load_options *o, const struct pieces *p, char *scratch, char *out,
		     size_t size)
{
	int at, n;

	at = snprintf(out, size, "%s %s HTTP/1.1\r\nHost: bench\r\n", o->method, o->path);
	for (unsigned int i = 0; i < o->n_headers && at < (int)size; i++)
		at += snprintf(out + at, size - at, "%s\r\n", o->headers[i]);
	if (p->n && at < (int)size)
		at += snprintf(out + at, size - at, "Content-Type: application/json\r\n");
	if (o->chunked && at < (int)size)
		at += snprintf(out + at, size - at, "Transfer-Encoding: chunked\r\n");
	else if (p->n && at < (int)size)
		at += snprintf(out + at, size - at, "Content-Length: %zu\r\n", p->len);
	if (o->hint && at < (int)size) {
		n = hint_line(o, p, scratch, out + at, size - at);
		if (n < 0)
			return n;
		at += n;
	}
	if (at < (int)size)
		at += snprintf(out + at, size - at, "\r\n");
	return at < (int)size ? at : -E2BIG;
}

/* Puts one chunk around the body, and the last chunk behind it. */
static int make_chunked(const struct pieces *body, struct pieces *ret)
{
	static char only_last[] = "0\r\n\r\n", end[] = "\r\n0\r\n\r\n";
	char *size;
	int n;

	if (!body->len) {
		add_piece(ret, only_last, sizeof(only_last) - 1);
		return 0;
	}
	n = asprintf(&size, "%zx\r\n", body->len);
	if (n < 0)
		return -ENOMEM;
	add_piece(ret, size, n);
	for (int i = 0; i < body->n; i++)
		add_piece(ret, body->part[i].iov_base, body->part[i].iov_len);
	add_piece(ret, end, sizeof(end) - 1);
	return 0;
}

static int make_request(const struct load_options *o, const struct pieces *body, char *scratch,
			struct load_request *ret)
{
	char head[HEAD_ROOM], *copy;
	int err, n = make_head(o, body, scratch, head, sizeof(head));
	struct pieces chunked = {0};
	const struct pieces *p = o->chunked ? &chunked : body;
	size_t keep, at;

	if (n < 0)
		return n;
	err = o->chunked ? make_chunked(body, &chunked) : 0;
	if (err)
		return err;
	ret->len = n + p->len;
	keep = ret->len <= COPY_LIMIT ? ret->len : (size_t)n;
	copy = malloc(keep);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, head, n);
	ret->iov[0] = (struct iovec){copy, keep};
	ret->n_iov = 1;
	at = n;
	for (int i = 0; i < p->n; i++) {
		if (keep == ret->len)
			memcpy(copy + at, p->part[i].iov_base, p->part[i].iov_len);
		else
			ret->iov[ret->n_iov++] = p->part[i];
		at += p->part[i].iov_len;
	}
	return 0;
}

/* A prompt begins with the JSON before it, so that it is one piece. */
static int make_prompt(const struct load_options *o, unsigned int i, char **ret, size_t *ret_len)
{
	char *text;
	int n;

	n = asprintf(&text,
		     "{\"model\":\"bench\",\"stream\":%s,\"max_tokens\":%u,"
		     "\"messages\":[{\"role\":\"user\",\"content\":\"%*s",
		     o->stream ? "true" : "false", o->max_tokens, (int)o->prompt_bytes, "");
	if (n < 0)
		return -ENOMEM;
	make_text(text + n - o->prompt_bytes, o->prompt_bytes, 1 + i);
	*ret = text;
	*ret_len = n;
	return 0;
}

static int make_all(const struct load_options *o, char **prompts, const size_t *lens,
		    unsigned int n_prompts, struct load_requests *q)
{
	_cleanup_free_ char *scratch = NULL;
	char *tail;
	int err;

	/* All prompts have one length, a given body is alone. */
	scratch = malloc(lens[0] + o->tail_bytes + 64);
	if (!scratch)
		return -ENOMEM;
	for (unsigned int i = 0; i < q->n; i++) {
		struct pieces p = {0};

		if (prompts[0])
			add_piece(&p, prompts[i % n_prompts], lens[i % n_prompts]);
		if (o->prompt_bytes) {
			tail = malloc(o->tail_bytes + 4);
			if (!tail)
				return -ENOMEM;
			make_text(tail, o->tail_bytes, o->seed << 32 | (i + 1));
			memcpy(tail + o->tail_bytes, "\"}]}", 4);
			add_piece(&p, tail, o->tail_bytes + 4);
		}
		q->body_bytes = p.len;
		err = make_request(o, &p, scratch, &q->all[i]);
		if (err)
			return err;
	}
	return 0;
}

int load_make_requests(const struct load_options *o, struct load_requests *ret)
{
	unsigned int n_prompts = o->prompt_bytes ? o->prompts : 1;
	_cleanup_free_ char **prompts = calloc(n_prompts, sizeof(*prompts));
	_cleanup_free_ size_t *lens = calloc(n_prompts, sizeof(*lens));
	int err = 0;

	ret->n = o->prompt_bytes ? o->tails : 1;
	ret->all = calloc(ret->n, sizeof(*ret->all));
	if (!prompts || !lens || !ret->all)
		return -ENOMEM;
	if (o->body_file)
		err = read_file(o->body_file, &prompts[0], &lens[0]);
	for (unsigned int i = 0; o->prompt_bytes && !err && i < n_prompts; i++)
		err = make_prompt(o, i, &prompts[i], &lens[i]);
	return err ? err : make_all(o, prompts, lens, n_prompts, ret);
}
