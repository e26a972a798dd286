// SPDX-License-Identifier: BSD-2-Clause
/* From dispatches to lines: what is one request, and when it came. */
#include "record.h"

#include <errno.h>

#include "kvsteer/fixed.h"

#define AGAIN_NS 1000000000ull

/* The same request gives the same number when it is decided again. */
static __u64 number_of(const struct kv_query *q)
{
	__u64 x = kv_mix(q->session + q->service) + q->body_len;

	x = kv_mix(x) + q->total;
	for (__u32 i = 0; i < q->n_rungs && i < KV_MAX_RUNGS; i++)
		x = kv_mix(x) + q->rungs[i].hash;
	return kv_mix(x) ?: 1;
}

/* A decision that is taken back was of a request that may be decided again, soon: that is not a
 * second request then. One decision may be taken back by two who do not know of each other. */
static void take_back(struct record_book *book, const struct kv_dispatch *d)
{
	struct record_taken_back *t = book->taken_back;
	__u64 number = number_of(&d->query);

	for (int i = 0; i < RECORD_TAKEN_BACK; i++)
		if (t[i].number == number && t[i].at_ns == d->at_ns)
			return;
	t[book->n.taken_back++ % RECORD_TAKEN_BACK] =
		(struct record_taken_back){number, d->at_ns, kv_now_ns()};
}

static bool is_again(struct record_book *book, const struct kv_dispatch *d)
{
	struct record_taken_back *t = book->taken_back;
	__u64 number;

	if (!book->n.taken_back)
		return false;
	number = number_of(&d->query);
	for (int i = 0; i < RECORD_TAKEN_BACK; i++) {
		if (t[i].number != number || d->at_ns > t[i].heard_ns + AGAIN_NS)
			continue;
		t[i].number = 0;
		return true;
	}
	return false;
}

/* Two CPUs hand over in another order than they decided, by microseconds. */
static double time_of(struct record_book *book, const struct kv_dispatch *d)
{
	double at = d->at_ns > book->start_ns ? (d->at_ns - book->start_ns) / 1e9 : 0;

	if (at > book->last_s)
		book->last_s = at;
	return book->last_s;
}

int record_enter(struct record_book *book, const struct kv_dispatch *d)
{
	struct record_counts *n = &book->n;
	struct trace_line line;
	int rc;

	if (!d->charged_request) {
		take_back(book, d);
		return 0;
	}
	n->heard++;
	if (is_again(book, d)) {
		n->repeated++;
		return 0;
	}
	rc = trace_ladders_add(book->ladders, &d->query, &line);
	n->unsampled += rc == 0;
	n->promptless += rc == -ENODATA;
	n->overlong += rc == -E2BIG;
	if (rc <= 0)
		return rc == -ENODATA || rc == -E2BIG ? 0 : rc;
	line.at_s = time_of(book, d);
	rc = trace_put(book->writer, &line);
	n->written += !rc;
	return rc;
}
