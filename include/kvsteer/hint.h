/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The hint header: KV-Prefix: 1;TOTAL,DEPTH:HASH,DEPTH:HASH,…
 */
#ifndef KVSTEER_HINT_H
#define KVSTEER_HINT_H

#include "scan.h"
#include "shared.h"

#define KV_HINT_MAX 800 /* bytes of the value */

enum kv_hint_state {
	KV_HINT_NONE,
	KV_HINT_OK,
	KV_HINT_MALFORMED, /* or of an unknown version */
};

struct kv_hint {
	__u32 total; /* tokens */
	__u32 n;
	struct kv_rung rungs[KV_MAX_RUNGS];
};

/* Eight hex digits of either case, the first the highest; sets *bad if they are not. */
KV_INLINE __u64 kv_hex8(__u64 x, __u64 *bad)
{
	__u64 digit = x ^ KV_BYTES(0x30);		     /* 0 … 9 */
	__u64 alpha = (x | KV_BYTES(0x20)) ^ KV_BYTES(0x60); /* 1 … 6 */
	__u64 not_digit = (digit + KV_BYTES(0x76)) | digit;
	__u64 not_alpha = (alpha + KV_BYTES(0x79)) | ~(alpha + KV_BYTES(0x7f)) | alpha;

	/* The sums run over from byte to byte only where a byte has its high bit: see | x. */
	*bad |= ((not_digit & not_alpha) | x) & KV_BYTES(0x80);
	x = (x & KV_BYTES(0x0f)) + (x >> 6 & KV_BYTES(1)) * 9;
	x = (x << 4 | x >> 8) & 0x00ff00ff00ff00ffull;
	x = (x << 8 | x >> 16) & 0x0000ffff0000ffffull;
	return (x << 16 | x >> 32) & 0xffffffffull;
}

/* 1 … 10 digits at w->pos, moves behind them; -1 if there are none or it is over 2^32. */
KV_INLINE int kv_hint_number(struct kv_window *w, __u32 *ret)
{
	const __u8 *p = kv_window_at(w);
	__u64 value = 0;
	__u32 i;

	for (i = 0; i < 10; i++) {
		__u8 digit = p[i] - '0';

		if (digit > 9)
			break;
		value = value * 10 + digit;
	}
	w->pos += i;
	*ret = value;
	w->n = i;
	kv_forget();
	return !w->n || value > 0xffffffffull ? -1 : 0;
}

/* One step: ,DEPTH:HASH. Returns 1 at the end of the rungs, -1 for malformed. */
KV_INLINE int kv_hint_rung(struct kv_hint *hint, struct kv_window *w)
{
	__u32 n = hint->n, depth;
	const __u8 *p;
	__u64 high, low, bad = 0;

	if (*kv_window_at(w) != ',' || n >= KV_MAX_RUNGS)
		return 1;
	w->pos++;
	if (kv_hint_number(w, &depth))
		return -1;
	p = kv_window_at(w);
	high = kv_hex8(kv_word_at(p, 1), &bad);
	low = kv_hex8(kv_word_at(p, 9), &bad);
	if (p[0] != ':' || bad || depth > hint->total || depth <= w->mark)
		return -1;
	w->mark = depth;
	w->pos += 17;
	hint->rungs[n] = (struct kv_rung){.hash = high << 32 | low, .depth = depth};
	hint->n = n + 1;
	return 0;
}

struct kv_hint_loop {
	struct kv_hint *hint;
	struct kv_window *w;
	const struct kv_source *s;
};

static long kv_hint_step(__u32 i, void *ctx)
{
	struct kv_hint_loop *c = ctx;
	int ret;

	(void)i;
	kv_window_fill(c->w, c->s);
	ret = kv_hint_rung(c->hint, c->w);
	if (ret < 0)
		c->hint->n = 0;
	return ret != 0;
}

/*
 * Parses the value of len bytes at off, which may end in white space. 0, or -1 for malformed.
 * w is working memory; in BPF it and *hint are in map memory.
 */
KV_INLINE int kv_hint_parse(struct kv_hint *hint, struct kv_window *w, const struct kv_source *s,
			    __u32 off, __u32 len)
{
	struct kv_hint_loop loop = {hint, w, s};
	const __u8 *p;
	__u32 n;

	hint->n = 0;
	hint->total = 0;
	/* A little white space may follow; a header that is mostly that is not worth the time. */
	if (len > KV_HINT_MAX + KV_UNIT)
		return -1;
	kv_window_init(w, off, off + len);
	w->mark = 0;
	kv_window_fill(w, s);
	p = kv_window_at(w);
	if (p[0] != '1' || p[1] != ';')
		return -1;
	w->pos = 2;
	if (kv_hint_number(w, &n))
		return -1;
	hint->total = n;
	kv_loop(KV_MAX_RUNGS + 1, kv_hint_step, &loop);
	if (!hint->n || w->off + w->pos - off > KV_HINT_MAX)
		return -1;
	kv_window_fill(w, s);
	p = kv_window_at(w);
	for (n = 0; n < KV_UNIT; n++)
		if (p[n] != ' ' && p[n] != '\t')
			break;
	w->n = n;
	kv_forget();
	return w->pos + w->n == w->end && kv_window_last(w) ? 0 : -1;
}

#endif /* KVSTEER_HINT_H */
