/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Response framing: where an HTTP/1.1 response ends (RFC 9112, section 6).
 *
 * A byte machine that may be stopped behind any byte and goes on with the next packet. What
 * cannot be framed without doubt is BROKEN: all bytes are passed on, the client sees where the
 * connection ends, and the connection is not used again.
 */
#ifndef KVSTEER_FRAMING_H
#define KVSTEER_FRAMING_H

#include "framing_machine.h"
#include "source.h"

#define KV_FRAMING_WINDOW 64
#define KV_FRAMING_TURNS 8 /* bytes that one step looks at one by one */

struct kv_framing_loop {
	struct kv_framing *f;
	const struct kv_source *s;
	__u32 off;
	__u32 len;
};

/* Passes over bytes that need not be looked at. */
KV_INLINE void kv_framing_skip(struct kv_framing *f, __u32 len)
{
	__u32 n = len - f->done;

	f->past = f->state != KV_FRAMING_BROKEN;
	if (f->state == KV_FRAMING_DATA || f->state == KV_FRAMING_BODY) {
		if (n > f->left)
			n = f->left;
		f->left -= n;
		if (!f->left)
			f->state =
				f->state == KV_FRAMING_BODY ? KV_FRAMING_DONE : KV_FRAMING_DATA_CR;
	}
	f->done += n;
}

/*
 * Short cuts of the byte machine, where the window holds what they need; behind its last byte
 * it is NUL, which ends a name and a text. They leave the state as the bytes would.
 */

/* "HTTP/1.1 200 " */
KV_INLINE void kv_framing_fast_status(struct kv_framing *f, const __u8 *buf)
{
	static const union kv_literal version = {"HTTP/1.1"};
	__u8 a = buf[9] - '0', b = buf[10] - '0', c = buf[11] - '0';

	if (kv_word_at(buf, 0) != version.word[0] || buf[8] != ' ' || buf[12] != ' ' || a < 1 ||
	    a > 5 || b > 9 || c > 9)
		return;
	f->status = a * 100 + b * 10 + c;
	f->index = 13;
	f->state = KV_FRAMING_TEXT;
	f->at = 13;
	kv_framing_count(f, 13);
}

/* A name of at most 31 bytes with its colon, at the start of a window. */
KV_INLINE void kv_framing_fast_name(struct kv_framing *f, const __u8 *buf)
{
	static const union kv_literal names[] = {
		{"connection"}, {"content-length"}, {"transfer-encoding"}};
	__u64 words[4], match = 0;
	__u32 n;

	f->at = kv_token(buf, KV_CLASS_TOKEN);
	kv_forget();
	n = f->at & (KV_FRAMING_WINDOW - 1);
	f->at = 0;
	if (!n || n >= KV_TOKEN_MAX || buf[n] != ':')
		return;
	if (n == 10 || n == 14 || n == 17) {
		kv_token_words(buf, n, words);
		for (int k = 0; k < 4; k++)
			words[k] = kv_lower(words[k]);
		for (int k = 0; k < 3; k++)
			if (kv_words_equal(words, names[k].word))
				match = 0x80ull << 8 * k;
	}
	kv_framing_name_end(f, match);
	kv_framing_count(f, n + 1);
	f->at = n + 1;
}

/* The text up to the end of its line, 64 bytes at most. */
KV_INLINE void kv_framing_fast_text(struct kv_framing *f, const __u8 *buf)
{
	__u32 start = f->at, skip = start & 7, at, i;
	__u64 hit = 0, before = (1ull << 8 * skip) - 1;

	if (start > KV_TOKEN_MAX)
		return;
	/* By aligned words, which a stack demands: the bytes before become spaces. */
	start -= skip;
	buf += start;
	for (i = 0; i < KV_UNIT; i += 8) {
		hit = kv_control_bytes((kv_word_at(buf, i) & ~before) | (KV_BYTES(' ') & before));
		if (hit)
			break;
		before = 0;
	}
	f->at = i + (hit ? kv_first_byte(hit) : 0);
	kv_forget();
	at = f->at;
	if (at <= KV_UNIT && buf[at] == '\r' && buf[at + 1] == '\n') {
		at += 2;
		f->state = KV_FRAMING_LINE;
	}
	kv_framing_count(f, at - skip);
	f->at = start + at;
}

/* Byte by byte, until a short cut may do better. */
KV_INLINE void kv_framing_slow(struct kv_framing *f, const __u8 *buf, __u32 n)
{
	for (__u32 turn = 0; turn < KV_FRAMING_TURNS; turn++) {
		__u32 at = f->at;

		kv_opaque(at);
		if (at >= KV_FRAMING_WINDOW || at >= n || !kv_framing_needs_bytes(f))
			break;
		if (turn && (f->state == KV_FRAMING_LINE || f->state == KV_FRAMING_TEXT))
			break;
		f->at = at + 1;
		kv_framing_count(f, 1);
		if (f->state != KV_FRAMING_BROKEN)
			kv_framing_byte(f, buf[at]);
		kv_forget();
	}
}

static long kv_framing_step(__u32 i, void *ctx)
{
	struct kv_framing_loop *c = ctx;
	struct kv_framing *f = c->f;
	__u64 words[(KV_TOKEN_MAX + KV_UNIT) / 8 + 1] = {0};
	__u8 *buf = (__u8 *)words;
	__u32 n = c->len - f->done;

	(void)i;
	if (!n || f->state == KV_FRAMING_DONE)
		return 1;
	if (!kv_framing_needs_bytes(f)) {
		kv_framing_skip(f, c->len);
		return 0;
	}
	if (n > KV_FRAMING_WINDOW)
		n = KV_FRAMING_WINDOW;
	f->flags |= KV_FRAMING_STARTED;
	if (kv_source_load(c->s, c->off + f->done, buf, n, KV_FRAMING_WINDOW))
		return 1;
	f->at = 0;
	if (f->state == KV_FRAMING_STATUS && !f->index)
		kv_framing_fast_status(f, buf);
	else if (f->state == KV_FRAMING_LINE && !(f->flags & KV_FRAMING_TRAILERS))
		kv_framing_fast_name(f, buf);
	if (f->state == KV_FRAMING_TEXT)
		kv_framing_fast_text(f, buf);
	if (!f->at)
		kv_framing_slow(f, buf, n);
	f->done += f->at;
	return 0;
}

/* Consumes up to len bytes at off; returns how many belong to this response: less than len
 * only when it has ended. A broken response owns all bytes. */
KV_INLINE __u32 kv_framing_run(struct kv_framing *f, const struct kv_source *s, __u32 off,
			       __u32 len)
{
	struct kv_framing_loop loop = {f, s, off, len};
	__u32 done;

	f->done = 0;
	/* Every step consumes a byte, or breaks. */
	kv_loop(len + 2, kv_framing_step, &loop);
	done = f->done;
	/* The state must not tell how the bytes came. */
	f->done = 0;
	f->at = 0;
	if (kv_framing_broken(f)) {
		f->left = 0;
		f->head_seen = 0;
		f->match = 0;
		f->index = 0;
		f->field = 0;
		f->past = 0;
	}
	return done;
}

#endif /* KVSTEER_FRAMING_H */
