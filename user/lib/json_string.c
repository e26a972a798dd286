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

static inline uint64_t escapes16(const char *p)
{
	return mask16((vec64)(load16(p) == '\\'));
}

/* Decodes 64 bytes or a few more: at *p, of a string that has as many. Up to 64 bytes are copied
 * past what is wanted: 128 must be readable, 144 writable. Returns the bytes written. */
static inline size_t read64(const char **p, const char *end, char *buf)
{
	const char *base = *p, *from = base, *next = base + 64;
	uint64_t left = escapes16(base) | escapes16(base + 16) << 16 | escapes16(base + 32) << 32 |
			escapes16(base + 48) << 48;
	char *out = buf;

	while (left) {
		const char *escape = base + __builtin_ctzll(left);

		memcpy(out, from, 64);
		out += escape - from;
		out += decode_escape(&escape, end, out);
		from = escape;
		if (from >= next) {
			*p = from;
			return out - buf;
		}
		left &= ~0ull << (from - base);
	}
	memcpy(out, from, 64);
	*p = next;
	return out + (next - from) - buf;
}

size_t kv_json_read(struct kv_json_decoder *dec, char *buf, size_t size)
{
	const char *p = dec->p, *end = dec->end;
	size_t n = 0;

	while (size - n >= 144 && end - p >= 64 && dec->limit - p >= 128)
		n += read64(&p, end, buf + n);
	/* A vector and an escape. */
	while (size - n >= 20 && p < end && dec->limit - p >= 16) {
		size_t left = end - p, len;
		vec v = load16(p);

		memcpy(buf + n, &v, sizeof(v));
		len = __builtin_ctzll(mask16((vec64)(v == '\\')) | 0x10000);
		if (len >= left) {
			n += left;
			p = end;
			break;
		}
		n += len;
		p += len;
		if (len < sizeof(v))
			n += decode_escape(&p, end, buf + n);
	}
	while (size - n >= 4 && p < end) {
		if (*p == '\\')
			n += decode_escape(&p, end, buf + n);
		else
			buf[n++] = *p++;
	}
	dec->p = p;
	return n;
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
