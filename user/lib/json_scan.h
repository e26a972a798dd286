/* SPDX-License-Identifier: BSD-2-Clause */
/* What the parts of the JSON reader share: steps over bytes of the text. */
#ifndef KVSTEER_LIB_JSON_SCAN_H
#define KVSTEER_LIB_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "lib/json.h"

#define KV_JSON_LONG 256 /* bytes: the end of shorter values is searched again, not noted */

/* Of the compiler, so that x86 and arm64 have one source. */
typedef unsigned char vec __attribute__((vector_size(16)));
typedef uint64_t vec64 __attribute__((vector_size(16)));

/* Index of the first byte that is set, all ones; 16: none. One branch at most: a text's escapes
 * come as they like, and each wrong guess costs as much as 50 bytes. */
static inline size_t first_set(vec64 set)
{
#ifdef __SSE2__
	typedef char bytes __attribute__((vector_size(16)));

	return __builtin_ctz((unsigned int)__builtin_ia32_pmovmskb128((bytes)set) | 0x10000);
#else
	if (set[0] | set[1])
		return set[0] ? __builtin_ctzll(set[0]) / 8 : 8 + __builtin_ctzll(set[1]) / 8;
	return 16;
#endif
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
		size_t n;
		vec v;

		memcpy(&v, p, sizeof(v));
		n = first_set((vec64)((v < 0x20) | (v >= 0xf5) | (v == '"') | (v == '\\')));
		if (n < sizeof(v))
			return p + n;
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

/* p: behind the opening quote. Returns the place behind the closing one, NULL if malformed. */
static inline const char *skip_string(const char *p, const char *end)
{
	for (;;) {
		p = skip_plain(p, end);
		if (p == end)
			return NULL;
		if (*p == '"')
			return p + 1;
		if (*p != '\\' || end - p < 2)
			return NULL;
		p += 2;
		if (escapes[(unsigned char)p[-1]])
			continue;
		if (p[-1] != 'u' || hex4(p, end) < 0)
			return NULL;
		p += 4;
	}
}

#endif /* KVSTEER_LIB_JSON_SCAN_H */
