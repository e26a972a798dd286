// SPDX-License-Identifier: BSD-2-Clause
/* Every byte of an answer has one value that it may have. */
#include <endian.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "traffic.h"

#define BLOCK 4096
#define EXPLAIN_MAX 10
#define EXPLAIN_BYTES 32

static size_t equal(const struct traffic_request *q, uint64_t at, const char *data, size_t n)
{
	char expected[BLOCK];

	if (q->framing != TAGGED_SSE)
		return tagged_equal(q->tag, at, data, n);
	for (size_t done = 0; done < n;) {
		size_t take = n - done < BLOCK ? n - done : BLOCK;

		tagged_sse_fill(&q->what, at + done, expected, take);
		if (memcmp(expected, data + done, take)) {
			for (size_t i = 0; expected[i] == data[done]; i++)
				done++;
			return done;
		}
		done += take;
	}
	return n;
}

enum whose { NOBODYS, OWN, ANOTHERS };

struct owner {
	enum whose whose;
	const char *what;
	uint32_t seed, index;
};

static bool name_owner(uint64_t found, uint64_t own, struct owner *ret)
{
	const struct {
		uint64_t tag;
		const char *what;
	} forms[] = {
		{found, "answer"},
		{tagged_request_tag(found), "request"},
		{tagged_unasked_tag(found), "second, unasked answer"},
	};

	for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
		if (!traffic_tag_read(forms[i].tag, &ret->seed, &ret->index))
			continue;
		ret->what = forms[i].what;
		ret->whose = forms[i].tag == own && i < 2 ? OWN : ANOTHERS;
		return true;
	}
	return false;
}

static bool hex_word(const char *p, uint64_t *ret)
{
	char digits[17] = "";

	memcpy(digits, p, 16);
	if (strspn(digits, "0123456789abcdef") != 16)
		return false;
	*ret = strtoull(digits, NULL, 16);
	return true;
}

/* The first tag among these bytes: as it stands in records, in events or in X-Tag. */
static struct owner find_owner(uint64_t own, const char *data, size_t n)
{
	struct owner o = {NOBODYS};
	uint64_t word;

	for (size_t i = 0; i + 8 <= n; i++) {
		memcpy(&word, data + i, 8);
		if (name_owner(le64toh(word), own, &o))
			return o;
		if (i + 16 <= n && hex_word(data + i, &word) &&
		    (name_owner(word, own, &o) || name_owner(be64toh(htole64(word)), own, &o)))
			return o;
	}
	return o;
}

static void print_bytes(const char *name, const char *p, size_t n)
{
	fprintf(stderr, "  %s:", name);
	for (size_t i = 0; i < n && i < EXPLAIN_BYTES; i++)
		fprintf(stderr, " %02x", (unsigned char)p[i]);
	fputc('\n', stderr);
}

static void say(struct traffic_conn *c, const char *what)
{
	struct sockaddr_in6 a = {0}; /* the port is at the same place in both families */
	socklen_t len = sizeof(a);
	struct timespec now; /* others' logs are to be read beside this one */

	getsockname(c->fd, (struct sockaddr *)&a, &len);
	clock_gettime(CLOCK_REALTIME, &now);
	fprintf(stderr, "kv-traffic: %lld.%03ld: connection %u, local port %u: %s\n",
		(long long)now.tv_sec, now.tv_nsec / 1000000, c->index, ntohs(a.sin6_port), what);
	for (unsigned int i = 0; i < c->n; i++) {
		const struct traffic_request *q = traffic_at(c, i);

		fprintf(stderr,
			"  request %016llx: %llu bytes%s%s%s, %s; answer %s of %llu bytes%s%s",
			(unsigned long long)q->tag, (unsigned long long)q->body,
			q->hinted ? ", hinted" : "", q->chunked ? ", chunked" : "",
			q->half_close ? ", half-closed" : "",
			i < c->n_sent		     ? "sent"
			: i > c->n_sent || !c->begun ? "not begun"
						     : "in part",
			tagged_framing_names[q->framing], (unsigned long long)q->answer,
			q->early ? ", early" : "", q->twice ? ", twice" : "");
		if (!i)
			fprintf(stderr, "; status %d, %llu bytes were right", c->answer.status,
				(unsigned long long)c->seen);
		fputc('\n', stderr);
	}
}

void traffic_say(struct traffic_conn *c, const char *what)
{
	if (c->run->o->verbose)
		say(c, what);
}

static bool explain(struct traffic_conn *c, const char *what)
{
	if (c->run->r->explained++ >= EXPLAIN_MAX)
		return false;
	say(c, what);
	return true;
}

/* These bytes must not be here: whose are they? Ends the connection. */
static bool refuse(struct traffic_conn *c, const char *what, const char *data, size_t n)
{
	const struct traffic_request *q = traffic_at(c, 0);
	struct owner o = find_owner(c->n ? q->tag : 0, data, n);
	struct traffic_result *r = c->run->r;
	char expected[EXPLAIN_BYTES];

	if (o.whose == ANOTHERS)
		r->foreign_bytes += n;
	else
		r->wrong_bytes += n ? n : 1;
	if (explain(c, what)) {
		if (o.whose == ANOTHERS)
			fprintf(stderr, "  FOREIGN: of the %s of request %u of seed %u\n", o.what,
				o.index, o.seed);
		else if (o.whose == OWN)
			fprintf(stderr, "  of its own %s, in the wrong place\n", o.what);
		print_bytes("seen", data, n);
		if (c->n && q->framing == TAGGED_SSE)
			tagged_sse_fill(&q->what, c->seen, expected, sizeof(expected));
		else
			tagged_fill(q->tag, c->seen, expected, sizeof(expected));
		if (c->n)
			print_bytes("due ", expected, sizeof(expected));
	}
	if (c->n && !c->answered) {
		r->failed++;
		traffic_pop(c);
	}
	traffic_close(c, true, &r->aborted);
	return false;
}

static bool check_head(struct traffic_conn *c, const struct traffic_request *q)
{
	const char *v = "", *head = c->answer.head;
	size_t len = 0;
	unsigned int n = answer_field(&c->answer, "x-tag", &v, &len);
	uint64_t tag;

	if (c->answer.status != 200 && !n)
		return true; /* somebody's error; counted at its end */
	if (n != 1 || len != 16 || !hex_word(v, &tag))
		return refuse(c, "head without one good X-Tag", head, strlen(head));
	if (tag != q->tag)
		return refuse(c, "answer to another request", v, len);
	if (c->answer.status != 200)
		return refuse(c, "tag with a status other than 200", head, strlen(head));
	if (c->answer.interims != q->interims)
		return refuse(c, "not as many 1xx answers as asked for", head, strlen(head));
	return true;
}

static bool check_body(struct traffic_conn *c, const struct traffic_request *q, const char *data,
		       size_t n)
{
	uint64_t left = q->answer - c->seen;
	size_t good;

	if (c->answer.status == 599 && explain(c, "the engine got a wrong request"))
		fprintf(stderr, "  %.*s\n", (int)n, data);
	if (c->answer.status != 200)
		return true;
	good = equal(q, c->seen, data, n < left ? n : left);
	c->seen += good;
	c->run->r->bytes_received += good;
	if (good < n)
		return refuse(c, good == left ? "body too long" : "byte of another value",
			      data + good, n - good);
	if (q->abort == ABORT_READING && c->seen >= q->abort_at) {
		traffic_abort(c);
		return false;
	}
	return true;
}

/* The answer is whole. */
static bool answered(struct traffic_conn *c)
{
	struct traffic_request *q = traffic_at(c, 0);
	struct traffic_result *r = c->run->r;
	int status = c->answer.status;
	bool half_close = q->half_close;

	if (status == 200 && c->seen != q->answer && q->framing != TAGGED_CLOSE)
		return refuse(c, "body too short", "", 0);
	/* Only the connection's end says where such a body ends: it may be the engine's doing. */
	if (status == 200 && c->seen != q->answer) {
		traffic_say(c, "cut short");
		r->truncated++;
		traffic_close(c, false, &r->broken);
		return false;
	}
	if (status == 200) {
		r->ok++;
		r->half_closed += half_close;
		traffic_record(r, traffic_now() - q->start_ns, q->first_ns - q->start_ns);
	} else if (status == 599) {
		r->engine_foreign++;
	} else {
		r->refused[status < 600 ? status : 0]++;
		traffic_say(c, "refused");
	}
	if (c->answer.close || half_close) {
		traffic_pop(c);
		/* What was sent behind it will have no answer. */
		r->unanswered += c->n;
		if (c->n)
			traffic_say(c, "closed by the answer before");
		traffic_close(c, false, &r->broken);
		return false;
	}
	if (!c->n_sent)
		c->answered = true;
	else
		traffic_pop(c);
	return true;
}

bool traffic_receive(struct traffic_conn *c, const char *data, size_t len)
{
	const char *body, *from;
	size_t n;

	while (len) {
		struct traffic_request *q = traffic_at(c, 0);

		if (!c->n || c->answered)
			return refuse(c, "bytes that nobody asked for", data, len);
		if (!q->first_ns)
			q->first_ns = traffic_now();
		from = data;
		switch (answer_next(&c->answer, &data, &len, &body, &n)) {
		case ANSWER_MORE:
			return true;
		case ANSWER_HEAD:
			if (!check_head(c, q))
				return false;
			break;
		case ANSWER_BODY:
			if (!check_body(c, q, body, n))
				return false;
			break;
		case ANSWER_END:
			break;
		case ANSWER_BAD:
			return refuse(c, c->answer.error, from, data + len - from);
		}
		if (answer_is_whole(&c->answer) && !answered(c))
			return false;
	}
	return true;
}

void traffic_eof(struct traffic_conn *c, bool reset)
{
	struct traffic_result *r = c->run->r;

	if (c->n && !c->answered && !reset && answer_eof(&c->answer) == ANSWER_END) {
		answered(c);
		return;
	}
	if (c->n && c->answered)
		traffic_pop(c);
	if (c->n) {
		r->unanswered += c->n - !answer_untouched(&c->answer);
		traffic_say(c, reset ? "reset" : "closed");
	}
	traffic_close(c, reset, &r->broken);
}
