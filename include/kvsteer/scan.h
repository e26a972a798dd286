/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A window over a source, and what the parsers do in it, eight bytes at a time.
 *
 * A parser is a kv_loop whose step reads one unit (a name, 64 bytes of a value, a rung). Before
 * each step the window is filled so that KV_UNIT bytes lie ahead, or all there are. The byte
 * behind the last is NUL, which no unit accepts: a step that stops there asks kv_window_out()
 * whether that was the end, and checks no length before.
 */
#ifndef KVSTEER_SCAN_H
#define KVSTEER_SCAN_H

#include "source.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "words are compared as little-endian"
#endif

#define KV_UNIT 64
#define KV_TOKEN_MAX 32 /* bytes of a token that kv_window_token looks at */

struct kv_window {
	__u32 off;   /* in the source, of buf[0] */
	__u32 pos;   /* next byte, in buf */
	__u32 end;   /* bytes in buf */
	__u32 limit; /* in the source: nothing is read behind it */
	__u32 n;     /* length of the token at pos */
	__u32 mark;  /* the parser's own */
	__u8 buf[KV_LOAD_MAX + KV_UNIT + 8];
};

/* ---- bytes --------------------------------------------------------------------------- */

#define KV_CLASS_TOKEN 1   /* tchar, RFC 9110 section 5.6.2 */
#define KV_CLASS_ELEMENT 2 /* of a list: visible and no comma */
#define KV_CLASS_TARGET 4  /* VCHAR */
#define KV_CLASS_DIGIT 8

/* clang-format off */
static const __u8 kv_class[256] = {
	['!'] = 7, ['"'] = 6, ['#' ... '\''] = 7, ['('] = 6, [')'] = 6, ['*'] = 7, ['+'] = 7,
	[','] = 4, ['-'] = 7, ['.'] = 7, ['/'] = 6, ['0' ... '9'] = 15, [':' ... '@'] = 6,
	['A' ... 'Z'] = 7, ['[' ... ']'] = 6, ['^'] = 7, ['_'] = 7, ['`'] = 7, ['a' ... 'z'] = 7,
	['{'] = 6, ['|'] = 7, ['}'] = 6, ['~'] = 7, [0x80 ... 0xff] = 2,
};
/* clang-format on */

#define KV_BYTES(x) ((x)*0x0101010101010101ull)

/* The high bit of every byte of x that is zero. */
KV_INLINE __u64 kv_zero_bytes(__u64 x)
{
	return ~(((x & KV_BYTES(0x7f)) + KV_BYTES(0x7f)) | x | KV_BYTES(0x7f));
}

/* Non-zero if x has a control character; the lowest high bit set is at the first of them. */
KV_INLINE __u64 kv_control_bytes(__u64 x)
{
	__u64 del = x ^ KV_BYTES(0x7f);

	return (((x - KV_BYTES(0x20)) & ~x) | ((del - KV_BYTES(1)) & ~del)) & KV_BYTES(0x80);
}

/* Index of the byte that has the lowest high bit set. */
KV_INLINE __u32 kv_first_byte(__u64 bits)
{
	return (((((bits & -bits) >> 7) - 1) & KV_BYTES(1)) * KV_BYTES(1)) >> 56;
}

KV_INLINE __u64 kv_lower(__u64 x)
{
	__u64 low = x & KV_BYTES(0x7f);
	__u64 upper = (low + KV_BYTES(0x80 - 'A')) & ~(low + KV_BYTES(0x7f - 'Z')) & ~x;

	return x | (upper & KV_BYTES(0x80)) >> 2;
}

/* The first n bytes of x, the rest zero. */
KV_INLINE __u64 kv_first(__u64 x, __s32 n)
{
	if (n >= 8)
		return x;
	if (n <= 0)
		return 0;
	return x & ((1ull << 8 * n) - 1);
}

/* Eight bytes at any place of map memory, or at a multiple of eight on the stack. For BPF
 * clang would put a copy together from single bytes; the verifier allows a plain load (on
 * machines with cheap unaligned access: x86 and arm64). */
KV_INLINE __u64 kv_word_at(const __u8 *p, __u32 i)
{
#ifdef __bpf__
	return *(const __u64 *)(p + i);
#else
	__u64 x;

	memcpy(&x, p + i, 8);
	return x;
#endif
}

/* What was just stored is read back, not remembered: where a loop ends in many ways, the
 * verifier else follows what comes behind it once for each. */
KV_INLINE void kv_forget(void)
{
	asm volatile("" ::: "memory");
}

/* One register, in which the bounds that are checked are those of the value that is used. */
#define kv_opaque(x) asm volatile("" : "+r"(x))

/* Number of bytes of that class at p, KV_TOKEN_MAX at most. */
KV_INLINE __u32 kv_token(const __u8 *p, __u8 class)
{
	__u32 i;

	for (i = 0; i < KV_TOKEN_MAX; i++)
		if (!(kv_class[p[i]] & class))
			break;
	return i;
}

/* The n bytes at p as words, zero padded. */
KV_INLINE void kv_token_words(const __u8 *p, __s32 n, __u64 *ret_words)
{
	for (int k = 0; k < 4; k++)
		ret_words[k] = kv_first(kv_word_at(p, 8 * k), n - 8 * k);
}

/* A constant text as words; zero padded. */
union kv_literal {
	char text[32];
	__u64 word[4];
};

KV_INLINE bool kv_words_equal(const __u64 *a, const __u64 *b)
{
	return a[0] == b[0] && a[1] == b[1] && a[2] == b[2] && a[3] == b[3];
}

/* ---- the window ---------------------------------------------------------------------- */

KV_INLINE void kv_window_init(struct kv_window *w, __u32 off, __u32 limit)
{
	w->off = off;
	w->pos = 0;
	w->end = 0;
	w->limit = limit;
	w->buf[0] = 0;
}

KV_INLINE void kv_window_fill(struct kv_window *w, const struct kv_source *s)
{
	__u32 pos = w->pos, end = w->end, off = w->off, limit = w->limit, n;

	if (end - pos >= KV_UNIT || off + end >= limit)
		return;
	off += pos;
	n = limit - off;
	if (n > KV_LOAD_MAX)
		n = KV_LOAD_MAX;
	w->off = off;
	w->pos = 0;
	if (kv_source_load(s, off, w->buf, n, KV_LOAD_MAX)) {
		n = 0;
		w->limit = off;
	}
	w->end = n;
	/* The verifier does not know how n relates to the buffer. */
	if (n <= KV_LOAD_MAX)
		w->buf[n] = 0;
}

/* The bytes from pos on: KV_UNIT + 8 of them may be read. */
KV_INLINE const __u8 *kv_window_at(struct kv_window *w)
{
	__u32 pos = w->pos;

	kv_opaque(pos); /* 6.1: a 32-bit copy of a checked value is unchecked */
	if (pos > KV_LOAD_MAX)
		pos = KV_LOAD_MAX;
	return w->buf + pos;
}

/* Is the byte that stopped a step behind the last one? */
KV_INLINE bool kv_window_out(struct kv_window *w, __u32 ahead)
{
	return w->pos + ahead >= w->end;
}

/* Nothing follows what the window holds. */
KV_INLINE bool kv_window_last(struct kv_window *w)
{
	return w->off + w->end >= w->limit;
}

/* Sets n to the number of bytes of that class at pos, KV_TOKEN_MAX at most. */
KV_INLINE void kv_window_token(struct kv_window *w, __u8 class)
{
	w->n = kv_token(kv_window_at(w), class);
	kv_forget();
}

/* Words of the token at pos. */
KV_INLINE void kv_window_words(struct kv_window *w, __u64 *ret_words)
{
	kv_token_words(kv_window_at(w), w->n, ret_words);
}

#endif /* KVSTEER_SCAN_H */
