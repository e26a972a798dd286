// SPDX-License-Identifier: BSD-2-Clause
/* Strings of a checked text, decoded. */
#include "lib/json_scan.h"

static size_t put_utf8(char *out, unsigned int c)
{
	if (c < 0x80) {
		out[0] = c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = 0xc0 | c >> 6;
		out[1] = 0x80 | (c & 0x3f);
		return 2;
	}
	if (c < 0x10000) {
		out[0] = 0xe0 | c >> 12;
		out[1] = 0x80 | (c >> 6 & 0x3f);
		out[2] = 0x80 | (c & 0x3f);
		return 3;
	}
	out[0] = 0xf0 | c >> 18;
	out[1] = 0x80 | (c >> 12 & 0x3f);
	out[2] = 0x80 | (c >> 6 & 0x3f);
	out[3] = 0x80 | (c & 0x3f);
	return 4;
}

/* *p: behind \u. A surrogate without its partner is kept, as three bytes. */
static size_t decode_unicode(const char **p, const char *end, char *out)
{
	unsigned int c = hex4(*p, end);

	*p += 4;
	if (c >= 0xd800 && c < 0xdc00 && end - *p >= 6 && (*p)[0] == '\\' && (*p)[1] == 'u') {
		unsigned int low = hex4(*p + 2, end);

		if (low >= 0xdc00 && low < 0xe000) {
			*p += 6;
			c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
		}
	}
	return put_utf8(out, c);
}

/* *p: at a backslash. Returns the bytes written, at most 4. */
static inline size_t decode_escape(const char **p, const char *end, char *out)
{
	*p += 2;
	*out = escapes[(unsigned char)(*p)[-1]];
	return *out ? 1 : decode_unicode(p, end, out);
}

size_t kv_json_read(struct kv_json_decoder *dec, char *buf, size_t size)
{
	char *out = buf, *stop = buf + size - sizeof(vec) - 4; /* and an escape */
	const char *p = dec->p, *end = dec->end;

	/* A vector is copied whole before it is known how much of it is wanted. */
	while (out <= stop && p < end && dec->limit - p >= (ptrdiff_t)sizeof(vec)) {
		size_t len;
		vec v;

		memcpy(&v, p, sizeof(v));
		memcpy(out, &v, sizeof(v));
		len = first_set((vec64)(v == '\\'));
		if (len == sizeof(v) && end - p >= (ptrdiff_t)sizeof(v)) {
			/* Constants: the next round does not wait for this one's comparison. */
			p += sizeof(v);
			out += sizeof(v);
			continue;
		}
		if ((ptrdiff_t)len >= end - p) {
			out += end - p;
			p = end;
			break;
		}
		p += len;
		out += len;
		out += decode_escape(&p, end, out);
	}
	while (out <= stop && p < end) {
		if (*p == '\\')
			out += decode_escape(&p, end, out);
		else
			*out++ = *p++;
	}
	dec->p = p;
	return out - buf;
}

bool kv_json_equals(struct kv_value string, const char *text)
{
	size_t left = strlen(text), len = string.end - string.at;
	struct kv_json_decoder dec;
	char buf[64];

	/* Escapes only make a string longer. */
	if (kv_json_type(string) != KV_JSON_STRING || len < left + 2)
		return false;
	if (len == left + 2 && !memcmp(string.at + 1, text, left))
		return true;
	if (!memchr(string.at, '\\', len))
		return false;
	dec = kv_json_decode(NULL, string);
	while ((len = kv_json_read(&dec, buf, sizeof(buf)))) {
		if (len > left || memcmp(buf, text, len))
			return false;
		text += len;
		left -= len;
	}
	return !left;
}
