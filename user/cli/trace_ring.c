// SPDX-License-Identifier: BSD-2-Clause
/* Reading the ring while requests write into it. */
#include "trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"

int ring_open(struct cli *cli, const struct kv_pins *pins, struct trace_ring *ret)
{
	const struct kv_tracing *tracing = kv_pins_tracing(pins);
	const struct kv_pinned_map *map = &pins->map[KV_PIN_kv_traces];

	if (!tracing || map->fd < 0 || !kv_read_once(tracing->mask))
		return cli_error(cli, "nothing is traced: trace.requests is 0 in the "
				      "configuration");
	*ret = (struct trace_ring){.pins = pins, .places = map->max_entries};
	ret->seen = calloc(ret->places, sizeof(*ret->seen));
	return ret->seen ? 0 : cli_error(cli, "out of memory");
}

void ring_close(struct trace_ring *ring)
{
	free(ring->seen);
	ring->seen = NULL;
}

static bool passes(const struct trace_filter *filter, const struct kv_trace *t, __u64 now)
{
	__u64 until = t->answered_ns ?: t->ended_ns ?: now;

	if (t->end == KV_TRACE_VOID)
		return false;
	if (filter->service != KV_NONE && t->service != filter->service)
		return false;
	if (filter->backend != KV_NONE && t->backend != filter->backend)
		return false;
	return !filter->slow_ns || (until > t->at_ns && until - t->at_ns >= filter->slow_ns);
}

static int by_number(const void *a, const void *b)
{
	__u64 x = kv_trace_number(((const struct kv_trace *)a)->word),
	      y = kv_trace_number(((const struct kv_trace *)b)->word);

	return x < y ? -1 : x > y;
}

static int by_end(const void *a, const void *b)
{
	__u64 x = ((const struct kv_trace *)a)->ended_ns,
	      y = ((const struct kv_trace *)b)->ended_ns;

	return x < y ? -1 : x > y;
}

int ring_last(struct trace_ring *ring, const struct trace_filter *filter, size_t last,
	      struct trace_list *ret)
{
	_cleanup_free_ struct kv_trace *records = calloc(ring->places, sizeof(*records));
	__u64 now = kv_now_ns();
	size_t n = 0;

	if (!records)
		return -ENOMEM;
	for (__u32 i = 0; i < ring->places; i++)
		if (kv_trace_read(kv_pins_trace(ring->pins, i), &records[n]) &&
		    passes(filter, &records[n], now))
			n++;
	qsort(records, n, sizeof(*records), by_number);
	if (last > n)
		last = n;
	memmove(records, records + n - last, last * sizeof(*records));
	*ret = (struct trace_list){kv_take(records), last};
	return 0;
}

/* In trace_ring.seen, where the word of a whole record has a 0: it has been shown, or need not be.
 */
#define SHOWN 1ull

static bool is_done(const struct kv_trace *t)
{
	return KV_TRACE_ENDED(t->end) || t->end == KV_TRACE_VOID;
}

void ring_first(struct trace_ring *ring)
{
	__u64 last = kv_read_once(kv_pins_tracing(ring->pins)->next) - 1;

	for (__u32 i = 0; i < ring->places; i++) {
		/* As if it were there: the next one in this place has the number after that. */
		__u64 number = last - ((last - i) & (ring->places - 1));
		struct kv_trace t;

		ring->seen[i] = number << 8 | SHOWN;
		if (kv_trace_read(kv_pins_trace(ring->pins, i), &t))
			ring->seen[i] = t.word | (is_done(&t) ? SHOWN : 0);
	}
}

/* Requests that have had this place since was was seen there, the one of was included unless it has
 * been shown, the one of is not. */
static __u64 missed(const struct trace_ring *ring, __u64 was, __u64 is)
{
	__u64 rounds = (kv_trace_number(is) - kv_trace_number(was)) / ring->places;

	return rounds && was & SHOWN ? rounds - 1 : rounds;
}

/* What is new in a place: true, a request has ended there. */
static bool has_ended(struct trace_ring *ring, __u32 i, struct kv_trace *ret)
{
	const struct kv_trace *place = kv_pins_trace(ring->pins, i);
	__u64 was = ring->seen[i];

	if (!((kv_read_once(place->word) ^ was) & ~SHOWN) || !kv_trace_read(place, ret))
		return false;
	if (kv_trace_number(was) != kv_trace_number(ret->word)) {
		ring->missed += missed(ring, was, ret->word);
		was = 0;
	}
	ring->seen[i] = ret->word | (is_done(ret) ? SHOWN : 0);
	return KV_TRACE_ENDED(ret->end) && !(was & SHOWN);
}

int ring_news(struct trace_ring *ring, const struct trace_filter *filter, struct trace_list *ret)
{
	_cleanup_free_ struct kv_trace *records = NULL;
	size_t n = 0, room = 0;
	__u64 now = kv_now_ns();

	for (__u32 i = 0; i < ring->places; i++) {
		struct kv_trace t, *more;

		if (!has_ended(ring, i, &t) || !passes(filter, &t, now))
			continue;
		if (n == room) {
			room = room ? 2 * room : 64;
			more = realloc(records, room * sizeof(*records));
			if (!more)
				return -ENOMEM;
			records = more;
		}
		records[n++] = t;
	}
	if (n)
		qsort(records, n, sizeof(*records), by_end);
	*ret = (struct trace_list){kv_take(records), n};
	return 0;
}
