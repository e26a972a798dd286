/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * TCP arithmetic of spliced connections: sequence numbers, windows, timestamps, and the options
 * that carry them. Everything is u32 modulo 2^32 (RFC 9293, section 3.4) and in host byte order,
 * except inside an option buffer.
 */
#ifndef KVSTEER_SEQ_H
#define KVSTEER_SEQ_H

#include "types.h"

/* ---- sequence numbers ---------------------------------------------------------------- */

KV_INLINE bool kv_seq_before(__u32 a, __u32 b)
{
	return (__s32)(a - b) < 0;
}

KV_INLINE bool kv_seq_after(__u32 a, __u32 b)
{
	return kv_seq_before(b, a);
}

KV_INLINE bool kv_seq_before_eq(__u32 a, __u32 b)
{
	return !kv_seq_before(b, a);
}

KV_INLINE bool kv_seq_after_eq(__u32 a, __u32 b)
{
	return !kv_seq_before(a, b);
}

KV_INLINE __u32 kv_seq_max(__u32 a, __u32 b)
{
	return kv_seq_before(a, b) ? b : a;
}

KV_INLINE __u32 kv_seq_min(__u32 a, __u32 b)
{
	return kv_seq_before(a, b) ? a : b;
}

/* start <= seq < end; an empty range holds nothing. */
KV_INLINE bool kv_seq_within(__u32 seq, __u32 start, __u32 end)
{
	return seq - start < end - start;
}

/* start <= seq <= end: what an acknowledgement may say of bytes start … end - 1. */
KV_INLINE bool kv_seq_acks(__u32 seq, __u32 start, __u32 end)
{
	return seq - start <= end - start;
}

/* from - below <= seq <= from + above. */
KV_INLINE bool kv_seq_near(__u32 seq, __u32 from, __u32 below, __u32 above)
{
	return seq - from + below <= below + above;
}

/* ---- windows ------------------------------------------------------------------------- */

#define KV_WSCALE_MAX 14 /* RFC 7323, section 2.3 */
#define KV_WINDOW_MAX 65535
#define KV_WINDOW_IDLE (1 << 20) /* bytes: what is promised to a client that is not uploading */

KV_INLINE __u32 kv_wscale_clamp(__u32 wscale)
{
	return wscale > KV_WSCALE_MAX ? KV_WSCALE_MAX : wscale;
}

/* A window field announced with one scale, as it must read with another. Rounds down: never
 * promise what the receiver has not. */
KV_INLINE __u16 kv_window_rescale(__u16 window, __u32 from, __u32 to)
{
	__u32 w = ((__u32)window << kv_wscale_clamp(from)) >> kv_wscale_clamp(to);

	return w > KV_WINDOW_MAX ? KV_WINDOW_MAX : w;
}

/* What such a field stands for, in bytes. */
KV_INLINE __u32 kv_window_bytes(__u16 window, __u32 wscale)
{
	return (__u32)window << kv_wscale_clamp(wscale);
}

/* Outside of an upload a client is not to believe in much more room than its next upstream may
 * have. What it sends too much is not lost, its next backend has it sent again; what it may not
 * send costs it a round trip. */
KV_INLINE __u16 kv_window_idle(__u16 window, __u32 wscale)
{
	__u32 most = KV_WINDOW_IDLE >> kv_wscale_clamp(wscale);

	return window > most ? most : window;
}

/* ---- timestamps ---------------------------------------------------------------------- */

/* What a home socket would put into TSval now: the kernel's ms clock (CLOCK_MONOTONIC) plus
 * its own offset (tcp_sock.tsoffset). Monotonic per connection, so PAWS holds for any peer. */
KV_INLINE __u32 kv_tsval(__u64 now_ns, __u32 tsoffset)
{
	return (__u32)(now_ns / 1000000) + tsoffset;
}

/* ---- options ------------------------------------------------------------------------- */

/* Buffers hold at least KV_TCP_OPTIONS bytes, all of them initialised (the verifier asks for that),
 * whatever the length of the options in them. */
#define KV_TCP_OPTIONS 40
#define KV_TCPOPT_EOL 0
#define KV_TCPOPT_NOP 1
#define KV_TCPOPT_SACK 5
#define KV_TCPOPT_TIMESTAMP 8

struct kv_tcp_options {
	__u32 ts;     /* offset of TSval (TSecr follows), 0 = no timestamp option */
	__u32 sack;   /* offset of the first SACK block, 0 = no SACK option */
	__u32 n_sack; /* blocks, 8 bytes each: left and right edge */
	__u32 odd;    /* garbage, or an option twice: do not rewrite such a segment */
};

struct kv_tcp_walk {
	const __u8 *opt;
	struct kv_tcp_options *ret;
	__u32 len;
	__u32 at;
};

/* Keeps clang from replacing a checked offset by an equal, unchecked one, which the verifier
 * would not know to be the same. */
#define kv_tcp_opaque(x) asm volatile("" : "+r"(x))

KV_INLINE __u32 kv_tcp_get(const __u8 *opt, __u32 at)
{
	kv_tcp_opaque(at);
	if (at > KV_TCP_OPTIONS - 4)
		return 0;
	/* byte by byte: the verifier wants stack accesses aligned */
	return (__u32)opt[at] << 24 | (__u32)opt[at + 1] << 16 | (__u32)opt[at + 2] << 8 |
	       opt[at + 3];
}

KV_INLINE void kv_tcp_put(__u8 *opt, __u32 at, __u32 v)
{
	kv_tcp_opaque(at);
	if (at > KV_TCP_OPTIONS - 4)
		return;
	opt[at] = v >> 24;
	opt[at + 1] = v >> 16;
	opt[at + 2] = v >> 8;
	opt[at + 3] = v;
}

static long kv_tcp_walk_step(__u32 i, void *ctx)
{
	struct kv_tcp_walk *w = ctx;
	__u32 at = w->at, odd = 0, kind, len, blocks;

	(void)i;
	kv_tcp_opaque(at);
	if (at >= w->len || at >= KV_TCP_OPTIONS)
		return 1;
	kind = w->opt[at];
	if (kind == KV_TCPOPT_EOL)
		return 1;
	if (kind == KV_TCPOPT_NOP) {
		w->at = at + 1;
		return 0;
	}
	w->ret->odd = 1;
	if (at + 1 >= w->len || at + 1 >= KV_TCP_OPTIONS)
		return 1;
	len = w->opt[at + 1];
	if (len < 2 || len > w->len - at)
		return 1;
	w->at = at + len;
	if (kind == KV_TCPOPT_TIMESTAMP && len == 10) {
		odd = w->ret->ts != 0;
		w->ret->ts = at + 2;
	} else if (kind == KV_TCPOPT_SACK) {
		blocks = (len - 2) / 8;
		odd = w->ret->sack || !blocks || len != 2 + 8 * blocks;
		w->ret->sack = at + 2;
		w->ret->n_sack = blocks;
	}
	w->ret->odd = odd;
	return odd != 0; /* 0 or 1 is all the verifier lets a callback return */
}

/*
 * Finds the two options whose values a splice must change. Never fails: of garbage it keeps
 * what came before and sets ret->odd. Established connections send one of two layouts (RFC
 * 7323, appendix A), which are recognised at a glance; anything else is walked.
 */
KV_INLINE void kv_tcp_options_scan(const __u8 *opt, __u32 len, struct kv_tcp_options *ret)
{
	struct kv_tcp_walk walk = {.opt = opt, .ret = ret};

	ret->ts = 0;
	ret->sack = 0;
	ret->n_sack = 0;
	ret->odd = 0;
	if (len > KV_TCP_OPTIONS)
		len = KV_TCP_OPTIONS;
	walk.len = len;
	if (len < 12 || opt[0] != KV_TCPOPT_NOP || opt[1] != KV_TCPOPT_NOP ||
	    opt[2] != KV_TCPOPT_TIMESTAMP || opt[3] != 10) {
		if (len)
			kv_loop(KV_TCP_OPTIONS, kv_tcp_walk_step, &walk);
		return;
	}
	ret->ts = 4;
	if (len == 12)
		return;
	if (len >= 24 && opt[12] == KV_TCPOPT_NOP && opt[13] == KV_TCPOPT_NOP &&
	    opt[14] == KV_TCPOPT_SACK && opt[15] == len - 14 && len % 8 == 0) {
		ret->sack = 16;
		ret->n_sack = (len - 16) / 8;
		return;
	}
	walk.at = 12;
	kv_loop(KV_TCP_OPTIONS, kv_tcp_walk_step, &walk);
}

/* The timestamp option speaks the gateway's clock to this side, and echoes that side's. */
KV_INLINE void kv_tcp_ts_set(__u8 *opt, const struct kv_tcp_options *o, __u32 tsval, __u32 tsecr)
{
	if (!o->ts)
		return;
	kv_tcp_put(opt, o->ts, tsval);
	kv_tcp_put(opt, o->ts + 4, tsecr);
}

/* A later TSval to echo. */
KV_INLINE void kv_tcp_ts_echo(__u8 *opt, const struct kv_tcp_options *o, __u32 tsecr)
{
	if (o->ts && (__s32)(tsecr - kv_tcp_get(opt, o->ts + 4)) > 0)
		kv_tcp_put(opt, o->ts + 4, tsecr);
}

/* SACK edges count the other direction's bytes, like the ack they come with. */
KV_INLINE void kv_tcp_sack_add(__u8 *opt, const struct kv_tcp_options *o, __u32 delta)
{
	for (__u32 i = 0; i < 8; i++) {
		__u32 at = o->sack + 4 * i;

		if (i >= 2 * o->n_sack)
			break;
		kv_tcp_put(opt, at, kv_tcp_get(opt, at) + delta);
	}
}

#endif /* KVSTEER_SEQ_H */
