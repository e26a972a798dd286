// SPDX-License-Identifier: BSD-2-Clause
#include <endian.h>
#include <string.h>

#include "tagged.h"

#define RECORD 16
#define EVENT_HEAD "data: "
#define EVENT_HEAD_LEN (sizeof(EVENT_HEAD) - 1)
#define EVENT_LEN(n) (EVENT_HEAD_LEN + 2 * (uint64_t)(n) + 2)
#define DONE_LEN (sizeof(TAGGED_DONE) - 1)
#define BLOCK 4096

const char *const tagged_framing_names[TAGGED_FRAMINGS] = {"length", "chunked", "sse", "close"};

static size_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

void tagged_fill(uint64_t tag, uint64_t at, char *out, size_t n)
{
	uint64_t record[2] = {htole64(tag)};
	size_t from, take;

	for (; n; at += take, out += take, n -= take) {
		from = at % RECORD;
		record[1] = htole64(at - from);
		take = least(RECORD - from, n);
		if (take == RECORD)
			memcpy(out, record, RECORD);
		else
			memcpy(out, (char *)record + from, take);
	}
}

size_t tagged_equal(uint64_t tag, uint64_t at, const char *data, size_t n)
{
	char expected[BLOCK];

	for (size_t done = 0; done < n;) {
		size_t take = least(BLOCK, n - done);

		tagged_fill(tag, at + done, expected, take);
		if (memcmp(expected, data + done, take)) {
			while (expected[done % BLOCK] == data[done])
				done++;
			return done;
		}
		done += take;
	}
	return n;
}

uint64_t tagged_sse_length(const struct tagged_sse *s)
{
	uint64_t rest = s->size % s->piece;

	return s->size / s->piece * EVENT_LEN(s->piece) + (rest ? EVENT_LEN(rest) : 0) + DONE_LEN;
}

/* Bytes of one event, of n bytes of records from byte `from` on: those from `skip` on. */
static size_t event_fill(const struct tagged_sse *s, uint64_t from, uint32_t n, uint64_t skip,
			 char *out, size_t room)
{
	static const char digits[] = "0123456789abcdef";
	size_t done = 0;
	char byte = 0;

	for (; done < room && skip < EVENT_HEAD_LEN; skip++)
		out[done++] = EVENT_HEAD[skip];
	for (; done < room && skip < EVENT_LEN(n) - 2; skip++) {
		uint64_t digit = skip - EVENT_HEAD_LEN;

		if (!(digit & 1) || !done)
			tagged_fill(s->tag, from + digit / 2, &byte, 1);
		out[done++] = digits[(digit & 1 ? byte : byte >> 4) & 15];
	}
	for (; done < room && skip < EVENT_LEN(n); skip++)
		out[done++] = '\n';
	return done;
}

void tagged_sse_fill(const struct tagged_sse *s, uint64_t at, char *out, size_t n)
{
	while (n) {
		uint64_t event = at / EVENT_LEN(s->piece), from = event * s->piece;
		size_t took;

		if (from < s->size &&
		    at - event * EVENT_LEN(s->piece) < EVENT_LEN(least(s->piece, s->size - from))) {
			took = event_fill(s, from, least(s->piece, s->size - from),
					  at - event * EVENT_LEN(s->piece), out, n);
		} else {
			uint64_t skip = at + DONE_LEN - tagged_sse_length(s);

			took = least(n, DONE_LEN - skip);
			memcpy(out, TAGGED_DONE + skip, took);
		}
		at += took;
		out += took;
		n -= took;
	}
}
