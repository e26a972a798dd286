// SPDX-License-Identifier: BSD-2-Clause
/* Everything about a request follows from the seed and its number. */
#include <math.h>
#include <stdio.h>

#include "traffic.h"

#define TAG_MARK 0x5aa5ull /* the lowest 16 bits of what a tag is made of */
#define MIX_1 0xbf58476d1ce4e5b9ull
#define MIX_2 0x94d049bb133111ebull
#define UNMIX_1 0x96de1b173f119089ull /* inverses modulo 2^64 */
#define UNMIX_2 0x319642b2d24d8ec3ull

uint64_t traffic_random(struct traffic_random *r)
{
	uint64_t z = r->state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * MIX_1;
	z = (z ^ z >> 27) * MIX_2;
	return z ^ z >> 31;
}

static double fraction(struct traffic_random *r)
{
	return (traffic_random(r) >> 11) * 0x1p-53;
}

bool traffic_chance(struct traffic_random *r, double percent)
{
	return fraction(r) * 100 < percent;
}

/* Evenly over the orders of magnitude. */
uint64_t traffic_between(struct traffic_random *r, struct traffic_range range)
{
	double low = log(range.from + 1), high = log(range.to + 2);
	uint64_t v = exp(low + fraction(r) * (high - low)) - 1;

	return v < range.from ? range.from : v > range.to ? range.to : v;
}

/* The mixing can be undone: a tag found among bytes tells whose it is. */
static uint64_t make_tag(uint64_t seed, uint64_t index)
{
	uint64_t z = seed << 44 | (index & 0xfffffff) << 16 | TAG_MARK;

	z = (z ^ z >> 32) * MIX_1;
	z = (z ^ z >> 32) * MIX_2;
	return z ^ z >> 32;
}

bool traffic_tag_read(uint64_t tag, uint32_t *ret_seed, uint32_t *ret_index)
{
	uint64_t z = (tag ^ tag >> 32) * UNMIX_2;

	z = (z ^ z >> 32) * UNMIX_1;
	z ^= z >> 32;
	*ret_seed = z >> 44;
	*ret_index = z >> 16 & 0xfffffff;
	return (z & 0xffff) == TAG_MARK;
}

static void plan_abort(const struct traffic_options *o, struct traffic_random *r,
		       struct traffic_request *q)
{
	if (!traffic_chance(r, o->aborted))
		return;
	q->abort = ABORT_SENDING + traffic_random(r) % 3;
	q->abort_rst = traffic_random(r) & 1;
	switch (q->abort) {
	case ABORT_SENDING:
		q->abort_at = traffic_random(r) % (q->body + 400);
		break;
	case ABORT_WAITING:
		q->abort_at = traffic_between(r, (struct traffic_range){0, q->first_us + 20000});
		break;
	default:
		q->abort_at = traffic_random(r) % (q->answer + 1);
	}
}

static enum tagged_framing pick_framing(const struct traffic_options *o, struct traffic_random *r)
{
	enum tagged_framing f = traffic_random(r) % TAGGED_FRAMINGS;

	while (!o->framings[f])
		f = (f + 1) % TAGGED_FRAMINGS;
	return f;
}

void traffic_plan(const struct traffic_options *o, uint64_t index, struct traffic_request *q)
{
	struct traffic_random r = {(o->seed << 32 ^ index) * MIX_2};

	*q = (struct traffic_request){.tag = make_tag(o->seed, index)};
	q->framing = pick_framing(o, &r);
	q->what.tag = q->tag;
	q->what.size = traffic_between(&r, o->answer_bytes);
	q->what.piece = traffic_between(&r, (struct traffic_range){16, 8192});
	q->answer = q->framing == TAGGED_SSE ? tagged_sse_length(&q->what) : q->what.size;
	q->body = traffic_between(&r, o->request_bytes);
	q->delay_us = traffic_between(&r, o->delay_us);
	q->first_us = traffic_between(&r, o->first_us);
	q->interims = traffic_chance(&r, 10) ? 1 + traffic_random(&r) % 2 : 0;
	q->group = traffic_random(&r) % o->groups;
	q->hinted = traffic_chance(&r, o->hinted);
	/* Without a hint, these are what leaves a request to the agent. */
	q->chunked = !q->hinted && q->body && traffic_chance(&r, 25);
	q->completion = !q->chunked && (!q->hinted || (q->body && traffic_chance(&r, 50)));
	q->followed = traffic_chance(&r, o->pipelined);
	q->half_close = traffic_chance(&r, o->half_closed);
	q->early = traffic_chance(&r, o->early);
	if (traffic_chance(&r, o->twice) && q->framing != TAGGED_CLOSE)
		q->twice = traffic_between(&r, (struct traffic_range){1, 8192});
	plan_abort(o, &r, q);
}

/* Depths and hashes as a tokenizer would make them of a long prompt: one group shares them all. */
static int hint(const struct traffic_request *q, char *out, size_t size)
{
	struct traffic_random r = {q->group};
	int at = snprintf(out, size, "KV-Prefix: 1;%u", 512);

	for (unsigned int depth = 64; depth <= 512 && at < (int)size; depth *= 2)
		at += snprintf(out + at, size - at, ",%u:%016llx", depth,
			       (unsigned long long)traffic_random(&r));
	return at < (int)size ? at + snprintf(out + at, size - at, "\r\n") : at;
}

int traffic_head(const struct traffic_options *o, const struct traffic_request *q, char *out,
		 size_t size)
{
	bool completion = q->completion && !o->path_prefix;
	int at;

	at = snprintf(out, size, "%s %s%s%016llx%ssize=%llu&body=%llu&framing=%s&piece=%u",
		      q->body || completion ? "POST" : "GET", o->path_prefix ? o->path_prefix : "",
		      completion ? "/v1/completions?tagged=" : "/tagged/",
		      (unsigned long long)q->tag, completion ? "&" : "?",
		      (unsigned long long)q->what.size, (unsigned long long)q->body,
		      tagged_framing_names[q->framing], q->what.piece);
	if (q->delay_us)
		at += snprintf(out + at, size - at, "&delay_us=%u", q->delay_us);
	if (q->first_us)
		at += snprintf(out + at, size - at, "&first_us=%u", q->first_us);
	if (q->interims)
		at += snprintf(out + at, size - at, "&interim=%u", q->interims);
	if (q->early)
		at += snprintf(out + at, size - at, "&early=1");
	if (q->twice)
		at += snprintf(out + at, size - at, "&twice=%llu", (unsigned long long)q->twice);
	at += snprintf(out + at, size - at, " HTTP/1.1\r\nHost: traffic\r\n");
	if (q->chunked)
		at += snprintf(out + at, size - at, "Transfer-Encoding: chunked\r\n");
	else if (q->body || completion)
		at += snprintf(out + at, size - at, "Content-Length: %llu\r\n",
			       (unsigned long long)q->body);
	if (q->hinted)
		at += hint(q, out + at, size - at);
	return at + snprintf(out + at, size - at, "\r\n");
}
