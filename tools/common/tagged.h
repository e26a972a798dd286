/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bytes that name their owner: records of 16 bytes, tag and offset (little endian), so that a byte
 * in the wrong place or from another request is seen and named. kv-engine writes and kv-traffic
 * expects answers of the request's tag; request bodies carry its complement, answers that nobody
 * asked for its halves exchanged.
 */
#ifndef TOOLS_TAGGED_H
#define TOOLS_TAGGED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TAGGED_DONE "data: [DONE]\n\n"
#define TAGGED_PIECE_MAX 65536

enum tagged_framing { TAGGED_LENGTH, TAGGED_CHUNKED, TAGGED_SSE, TAGGED_CLOSE, TAGGED_FRAMINGS };

extern const char *const tagged_framing_names[TAGGED_FRAMINGS];

static inline uint64_t tagged_request_tag(uint64_t tag)
{
	return ~tag;
}

static inline uint64_t tagged_unasked_tag(uint64_t tag)
{
	return tag << 32 | tag >> 32;
}

/* n bytes from byte `at` of the endless sequence of tag's records. */
void tagged_fill(uint64_t tag, uint64_t at, char *out, size_t n);
/* How many of n bytes are as they should be, up to the first that is not. */
size_t tagged_equal(uint64_t tag, uint64_t at, const char *data, size_t n);

/*
 * As server-sent events: each carries up to `piece` of the records' bytes in hexadecimal digits,
 * the last is [DONE].
 */
struct tagged_sse {
	uint64_t tag;
	uint64_t size; /* bytes of records in all */
	uint32_t piece;
};

uint64_t tagged_sse_length(const struct tagged_sse *s);
void tagged_sse_fill(const struct tagged_sse *s, uint64_t at, char *out, size_t n);

#endif /* TOOLS_TAGGED_H */
