/* SPDX-License-Identifier: BSD-2-Clause */
/* What the parts of the JSON reader share: steps over bytes of the text. */
#ifndef KVSTEER_LIB_JSON_SCAN_H
#define KVSTEER_LIB_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "lib/json.h"

#define KV_JSON_LONG 512 /* bytes: the end of shorter values is searched again, not noted */

/* Of the compiler, so that x86 and arm64 have one source. */
typedef unsigned char vec __attribute__((vector_size(16)));
typedef uint64_t vec64 __attribute__((vector_size(16)));

/* One bit a byte: set are all ones or zero. */
static inline uint64_t mask16(vec64 set)
{
#ifdef __SSE2__
	typedef char bytes __attribute__((vector_size(16)));

	return (unsigned int)__builtin_ia32_pmovmskb128((bytes)set);
#else
	const uint64_t ones = 0x0101010101010101, gather = 0x0102040810204080;

	return (set[0] & ones) * gather >> 56 | ((set[1] & ones) * gather >> 56) << 8;
#endif
}

static inline vec load16(const char *p)
{
	vec v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* Which of 16 bytes end or interrupt plain string content. */
static inline uint64_t odd16(const char *p)
{
	vec v = load16(p);

	return mask16((vec64)((v < 0x20) | (v >= 0xf5) | (v == '"') | (v == '\\')));
}

static inline uint64_t odd64(const char *p)
{
	return odd16(p) | odd16(p + 16) << 16 | odd16(p + 32) << 32 | odd16(p + 48) << 48;
}

static inline const char *skip_space(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
		p++;
	return p;
}

static inline bool is_plain(unsigned char c)
{
	return c >= 0x20 && c < 0xf5 && c != '"' && c != '\\';
}

/* First byte that is not plain string content. */
static inline const char *skip_plain(const char *p, const char *end)
{
	for (; end - p >= (ptrdiff_t)sizeof(vec); p += sizeof(vec)) {
		uint64_t odd = odd16(p);

		if (odd)
			return p + __builtin_ctzll(odd);
	}
	while (p < end && is_plain(*p))
		p++;
	return p;
}

static inline int hex4(const char *p, const char *end)
{
	int value = 0;

	if (end - p < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		char c = p[i] | 0x20;

		if (p[i] >= '0' && p[i] <= '9')
			value = value << 4 | (p[i] - '0');
		else if (c >= 'a' && c <= 'f')
			value = value << 4 | (c - 'a' + 10);
		else
			return -1;
	}
	return value;
}

/* What a backslash and this byte stand for; 0: not an escape, or, for u, see there. */
static const char escapes[256] = {
	['"'] = '"',  ['\\'] = '\\', ['/'] = '/',  ['b'] = '\b',
	['f'] = '\f', ['n'] = '\n',  ['r'] = '\r', ['t'] = '\t',
};

/* p: where plain content is interrupted, but not by a quote. The place behind an escape, or NULL.
 */
static inline const char *skip_escape(const char *p, const char *end)
{
	if (*p != '\\' || end - p < 2)
		return NULL;
	p += 2;
	if (escapes[(unsigned char)p[-1]])
		return p;
	return p[-1] == 'u' && hex4(p, end) >= 0 ? p + 4 : NULL;
}

/* p: behind the opening quote. Returns the place behind the closing one, NULL if malformed. */
static inline const char *skip_string(const char *p, const char *end)
{
	if (end - p >= 16) {
		uint64_t odd = odd16(p);
		const char *q = p + __builtin_ctzll(odd | 1 << 15);

		if (*q == '"') /* most strings are short */
			return q + 1;
	}
	/* All escapes of 64 bytes from one comparison: were each searched from the one before,
	 * every search would wait for the last, and code has an escape every 30 bytes. */
	while (end - p >= 64) {
		const char *next = p + 64;
		uint64_t odd = odd64(p);

		while (odd) {
			const char *q = p + __builtin_ctzll(odd);

			if (*q == '"')
				return q + 1;
			q = skip_escape(q, end);
			if (!q)
				return NULL;
			if (q >= next) {
				next = q;
				break;
			}
			odd &= ~0ull << (q - p);
		}
		p = next;
	}
	for (;;) {
		p = skip_plain(p, end);
		if (p == end)
			return NULL;
		if (*p == '"')
			return p + 1;
		p = skip_escape(p, end);
		if (!p)
			return NULL;
	}
}

#endif /* KVSTEER_LIB_JSON_SCAN_H */
