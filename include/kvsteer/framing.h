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

#include "scan.h"
#include "source.h"

#define KV_FRAMING_HEAD_MAX (64 << 10)
#define KV_FRAMING_CHUNK_LINE_MAX (4 << 10)
#define KV_FRAMING_TRAILER_MAX (16 << 10)
#define KV_FRAMING_CHUNK_MAX (1ull << 60)

enum kv_framing_state {
	KV_FRAMING_STATUS = 1, /* HTTP/1.1 200 */
	KV_FRAMING_TEXT,       /* what is passed over up to the end of a line */
	KV_FRAMING_LF,	       /* behind the CR of a head or trailer line */
	KV_FRAMING_LINE,       /* start of a line */
	KV_FRAMING_NAME,       /* in a name that may be one of ours */
	KV_FRAMING_NAME_REST,  /* in another name */
	KV_FRAMING_VALUE,      /* of one of our fields */
	KV_FRAMING_END_LF,     /* behind the CR of the empty line */
	KV_FRAMING_CHUNK,      /* chunk size */
	KV_FRAMING_CHUNK_TEXT, /* behind the digits of a chunk size */
	KV_FRAMING_CHUNK_LF,
	KV_FRAMING_DATA_CR, /* behind chunk data */
	KV_FRAMING_DATA_LF,
	/* from here on no byte needs to be looked at */
	KV_FRAMING_DATA, /* chunk data */
	KV_FRAMING_BODY, /* of Content-Length */
	KV_FRAMING_UNTIL_CLOSE,
	KV_FRAMING_BROKEN,
	KV_FRAMING_DONE,
};

enum kv_framing_flag {
	KV_FRAMING_HEAD = 1,	   /* answers a HEAD request: no body */
	KV_FRAMING_STARTED = 2,	   /* a byte has been seen */
	KV_FRAMING_CLOSE = 4,	   /* the connection ends with this response */
	KV_FRAMING_KEEP_ALIVE = 8, /* Connection: keep-alive */
	KV_FRAMING_HTTP_1_0 = 16,
	KV_FRAMING_LENGTH = 32, /* Content-Length seen */
	KV_FRAMING_CHUNKED = 64,
	KV_FRAMING_TRAILERS = 128, /* lines are trailers */
};

/* Fields that decide framing. */
enum kv_framing_field {
	KV_FRAMING_F_CONNECTION,
	KV_FRAMING_F_LENGTH,
	KV_FRAMING_F_CODING,
};

/* State of one response; 32 bytes, copied as a whole. All zero is not a valid state.
 * In BPF kv_framing_run wants it in map memory: what the verifier knows of a stack would be
 * taken for true in every turn of the loop (before 6.8). */
struct kv_framing {
	__u64 left; /* bytes of body or chunk data still to come */
	__u8 state;
	__u8 flags;	 /* KV_FRAMING_* */
	__u16 status;	 /* of the final response, once its status line is read */
	__u32 head_seen; /* bytes of head, chunk line or trailers so far, against the limit */
	__u64 match;	 /* high bit of byte k: the token may be word k of the table */
	__u8 index;	 /* position in the status line, name, token or number */
	__u8 field;	 /* enum kv_framing_field of the value being read */
	__u8 ended;	 /* of a value: its token is over, only white space may follow */
	/* inside kv_framing_run, else 0 */
	__u8 at;    /* in the window */
	__u32 done; /* bytes consumed before the window */
};
_Static_assert(sizeof(struct kv_framing) == 32, "part of the maps' layout");

/* ---- predicates ---------------------------------------------------------------------- */

KV_INLINE void kv_framing_init(struct kv_framing *f, bool head_request)
{
	__builtin_memset(f, 0, sizeof(*f));
	f->state = KV_FRAMING_STATUS;
	f->flags = head_request ? KV_FRAMING_HEAD : 0;
}

/* The response has ended; the next byte is no part of it. */
KV_INLINE bool kv_framing_done(const struct kv_framing *f)
{
	return f->state == KV_FRAMING_DONE;
}

/* It cannot be framed: pass everything on, never use the connection again. */
KV_INLINE bool kv_framing_broken(const struct kv_framing *f)
{
	return f->state == KV_FRAMING_BROKEN;
}

/* It ends with the connection; true for broken ones too. */
KV_INLINE bool kv_framing_until_close(const struct kv_framing *f)
{
	return f->state == KV_FRAMING_UNTIL_CLOSE || f->state == KV_FRAMING_BROKEN;
}

/* The connection has ended: so has the response, whole or not. */
KV_INLINE void kv_framing_end(struct kv_framing *f)
{
	f->state = KV_FRAMING_DONE;
	f->flags |= KV_FRAMING_CLOSE;
}

/* The very next byte must be looked at, so bytes behind it cannot be taken first. */
KV_INLINE bool kv_framing_needs_bytes(const struct kv_framing *f)
{
	return f->state < KV_FRAMING_DATA;
}

/* ---- tokens -------------------------------------------------------------------------- */

#define KV_FRAMING_W_NAMES 0x808080ull
#define KV_FRAMING_W_CHUNKED 0x80000000ull
#define KV_FRAMING_W_CLOSE 0x8000000000ull
#define KV_FRAMING_W_KEEP_ALIVE 0x800000000000ull

/* Six words from top to bottom: connection, content-length, transfer-encoding, chunked, close,
 * keep-alive. One look at a row compares a byte with all of them. */
/* clang-format off */
static const union {
	char text[8];
	__u64 word;
} kv_framing_rows[] = {
	{"cctcck"}, {"oorhle"}, {"nnauoe"}, {"ntnnsp"}, {"eeske-"}, {"cnfe\0a"}, {"tted\0l"},
	{"i-r\0\0i"}, {"ol-\0\0v"}, {"nee\0\0e"}, {"\0nn"}, {"\0gc"}, {"\0to"}, {"\0hd"},
	{"\0\0i"}, {"\0\0n"}, {"\0\0g"}, {""},
};
/* clang-format on */

#define KV_FRAMING_ROWS (sizeof(kv_framing_rows) / sizeof(kv_framing_rows[0]))

KV_INLINE void kv_framing_token_start(struct kv_framing *f, __u64 words)
{
	f->match = words;
	f->index = 0;
	f->ended = 0;
}

/* The token goes on with c; with 0 it ends, and the words that are left are equal to it. */
KV_INLINE __u64 kv_framing_token_byte(struct kv_framing *f, __u8 c)
{
	__u32 index = f->index;
	__u64 match = 0;

	if (c >= 'A' && c <= 'Z')
		c |= 0x20;
	if (index < KV_FRAMING_ROWS) {
		match = f->match & kv_zero_bytes(kv_framing_rows[index].word ^ KV_BYTES(c));
		f->index = index + 1;
	}
	f->match = match;
	return match;
}

/* ---- the machine --------------------------------------------------------------------- */

KV_INLINE void kv_framing_break(struct kv_framing *f)
{
	f->state = KV_FRAMING_BROKEN;
	f->flags |= KV_FRAMING_CLOSE;
}

/* "HTTP/1.1 200", then a space or the end of the line. */
KV_INLINE void kv_framing_status(struct kv_framing *f, __u8 c)
{
	static const union kv_literal version = {"HTTP/1.1"};
	__u32 index = f->index;
	__u8 digit = c - '0';

	f->index = index + 1;
	if (index == 7 && c == '0') {
		f->flags |= KV_FRAMING_HTTP_1_0;
	} else if (index < 9) {
		if (c != (index < 8 ? (version.word[0] >> 8 * index & 0xff) : ' '))
			kv_framing_break(f);
	} else if (index < 12) {
		f->status = f->status * 10 + digit;
		if (digit > 9 || (index == 9 && (digit < 1 || digit > 5)))
			kv_framing_break(f);
	} else if (c == ' ') {
		f->state = KV_FRAMING_TEXT;
	} else if (c == '\r') {
		f->state = KV_FRAMING_LF;
	} else {
		kv_framing_break(f);
	}
}

/* Behind the empty line of a head. */
KV_INLINE void kv_framing_head_end(struct kv_framing *f)
{
	__u32 status = f->status, flags = f->flags;

	if (status == 101) {
		kv_framing_break(f);
		return;
	}
	if (status < 200) {
		f->state = KV_FRAMING_STATUS;
		f->flags = flags & (KV_FRAMING_HEAD | KV_FRAMING_STARTED);
		f->status = 0;
		f->left = 0;
		f->head_seen = 0;
		f->index = 0;
		return;
	}
	f->head_seen = 0;
	if ((flags & KV_FRAMING_HTTP_1_0) && !(flags & KV_FRAMING_KEEP_ALIVE))
		f->flags |= KV_FRAMING_CLOSE;
	if ((flags & KV_FRAMING_HEAD) || status == 204 || status == 304) {
		f->left = 0;
		f->state = KV_FRAMING_DONE;
	} else if (flags & KV_FRAMING_CHUNKED) {
		f->index = 0;
		f->state = KV_FRAMING_CHUNK;
	} else if (flags & KV_FRAMING_LENGTH) {
		f->state = f->left ? KV_FRAMING_BODY : KV_FRAMING_DONE;
	} else {
		f->flags |= KV_FRAMING_CLOSE;
		f->state = KV_FRAMING_UNTIL_CLOSE;
	}
}

/* Behind the colon of the name whose bit in the table is match; 0: of another. */
KV_INLINE void kv_framing_name_end(struct kv_framing *f, __u64 match)
{
	f->state = KV_FRAMING_VALUE;
	if (match == 0x80) {
		f->field = KV_FRAMING_F_CONNECTION;
		kv_framing_token_start(f, KV_FRAMING_W_CLOSE | KV_FRAMING_W_KEEP_ALIVE);
	} else if (match == 0x8000) {
		f->field = KV_FRAMING_F_LENGTH;
		kv_framing_token_start(f, 0);
		if (f->flags & (KV_FRAMING_LENGTH | KV_FRAMING_CHUNKED))
			kv_framing_break(f);
		f->flags |= KV_FRAMING_LENGTH;
	} else if (match == 0x800000) {
		f->field = KV_FRAMING_F_CODING;
		kv_framing_token_start(f, KV_FRAMING_W_CHUNKED);
		if (f->flags & (KV_FRAMING_LENGTH | KV_FRAMING_CHUNKED | KV_FRAMING_HTTP_1_0))
			kv_framing_break(f);
		f->flags |= KV_FRAMING_CHUNKED;
	} else {
		kv_framing_token_start(f, 0);
		f->state = KV_FRAMING_TEXT;
	}
}

/* A token of a value is over. */
KV_INLINE void kv_framing_value_token(struct kv_framing *f)
{
	__u64 match;

	if (!f->index || f->ended || f->field == KV_FRAMING_F_LENGTH) {
		f->ended = f->index > 0;
		return;
	}
	match = kv_framing_token_byte(f, 0);
	f->ended = 1;
	if (f->field == KV_FRAMING_F_CODING) {
		if (!match)
			kv_framing_break(f);
	} else if (match == KV_FRAMING_W_CLOSE) {
		f->flags |= KV_FRAMING_CLOSE;
	} else if (match == KV_FRAMING_W_KEEP_ALIVE) {
		f->flags |= KV_FRAMING_KEEP_ALIVE;
	}
}

KV_INLINE void kv_framing_value(struct kv_framing *f, __u8 c)
{
	bool list = f->field == KV_FRAMING_F_CONNECTION;
	__u8 digit = c - '0';

	if (c == ' ' || c == '\t' || (c == ',' && list)) {
		kv_framing_value_token(f);
		if (list)
			kv_framing_token_start(f, KV_FRAMING_W_CLOSE | KV_FRAMING_W_KEEP_ALIVE);
	} else if (c == '\r') {
		kv_framing_value_token(f);
		if (!f->ended && !list)
			kv_framing_break(f);
		else if (f->state != KV_FRAMING_BROKEN)
			f->state = KV_FRAMING_LF;
	} else if (c < ' ' || c == 0x7f) {
		kv_framing_break(f);
	} else if (f->ended) {
		kv_framing_break(f);
	} else if (f->field != KV_FRAMING_F_LENGTH) {
		kv_framing_token_byte(f, c);
	} else {
		/* 19 digits cannot overflow. */
		if (digit > 9 || f->index >= 19)
			kv_framing_break(f);
		f->left = f->left * 10 + digit;
		f->index++;
	}
}

KV_INLINE void kv_framing_chunk_size(struct kv_framing *f, __u8 c)
{
	__u8 low = c | 0x20, digit = c - '0';

	if (low >= 'a' && low <= 'f')
		digit = low - 'a' + 10;
	if (digit < 16 && (c <= '9' || low >= 'a')) {
		if (f->left >= KV_FRAMING_CHUNK_MAX >> 4)
			kv_framing_break(f);
		f->left = f->left << 4 | digit;
		f->index = 1;
	} else if (!f->index) {
		kv_framing_break(f);
	} else if (c == '\r') {
		f->state = KV_FRAMING_CHUNK_LF;
	} else if (c == ';' || c == ' ' || c == '\t') {
		f->state = KV_FRAMING_CHUNK_TEXT;
	} else {
		kv_framing_break(f);
	}
}

KV_INLINE void kv_framing_chunk_start(struct kv_framing *f)
{
	f->head_seen = 0;
	f->index = 0;
	if (f->left) {
		f->state = KV_FRAMING_DATA;
		return;
	}
	f->flags |= KV_FRAMING_TRAILERS;
	f->state = KV_FRAMING_LINE;
}

/* At the start of a line, where a name or the end is. */
KV_INLINE void kv_framing_line(struct kv_framing *f, __u8 c)
{
	if (c == '\r') {
		f->state = KV_FRAMING_END_LF;
	} else if (!(kv_class[c] & KV_CLASS_TOKEN)) {
		kv_framing_break(f);
	} else if (f->flags & KV_FRAMING_TRAILERS) {
		f->state = KV_FRAMING_NAME_REST;
	} else {
		kv_framing_token_start(f, KV_FRAMING_W_NAMES);
		f->state = kv_framing_token_byte(f, c) ? KV_FRAMING_NAME : KV_FRAMING_NAME_REST;
	}
}

KV_INLINE void kv_framing_expect(struct kv_framing *f, __u8 c, __u8 state)
{
	if (c == (state == KV_FRAMING_DATA_LF ? '\r' : '\n'))
		f->state = state;
	else
		kv_framing_break(f);
}

KV_INLINE void kv_framing_byte(struct kv_framing *f, __u8 c)
{
	switch (f->state) {
	case KV_FRAMING_STATUS:
		kv_framing_status(f, c);
		break;
	case KV_FRAMING_TEXT:
		if (c == '\r')
			f->state = KV_FRAMING_LF;
		else if ((c < ' ' && c != '\t') || c == 0x7f)
			kv_framing_break(f);
		break;
	case KV_FRAMING_LF:
		kv_framing_expect(f, c, KV_FRAMING_LINE);
		break;
	case KV_FRAMING_LINE:
		kv_framing_line(f, c);
		break;
	case KV_FRAMING_NAME:
		if (c == ':')
			kv_framing_name_end(f, kv_framing_token_byte(f, 0));
		else if (!(kv_class[c] & KV_CLASS_TOKEN))
			kv_framing_break(f);
		else if (!kv_framing_token_byte(f, c))
			f->state = KV_FRAMING_NAME_REST;
		break;
	case KV_FRAMING_NAME_REST:
		if (c == ':')
			kv_framing_name_end(f, 0);
		else if (!(kv_class[c] & KV_CLASS_TOKEN))
			kv_framing_break(f);
		break;
	case KV_FRAMING_VALUE:
		kv_framing_value(f, c);
		break;
	case KV_FRAMING_END_LF:
		kv_framing_expect(f, c, KV_FRAMING_DONE);
		if (f->state == KV_FRAMING_DONE && !(f->flags & KV_FRAMING_TRAILERS))
			kv_framing_head_end(f);
		break;
	case KV_FRAMING_CHUNK:
		kv_framing_chunk_size(f, c);
		break;
	case KV_FRAMING_CHUNK_TEXT:
		if (c == '\r')
			f->state = KV_FRAMING_CHUNK_LF;
		else if ((c < ' ' && c != '\t') || c == 0x7f)
			kv_framing_break(f);
		break;
	case KV_FRAMING_CHUNK_LF:
		if (c == '\n')
			kv_framing_chunk_start(f);
		else
			kv_framing_break(f);
		break;
	case KV_FRAMING_DATA_CR:
		kv_framing_expect(f, c, KV_FRAMING_DATA_LF);
		break;
	case KV_FRAMING_DATA_LF:
		f->head_seen = 0;
		f->left = 0;
		kv_framing_expect(f, c, KV_FRAMING_CHUNK);
		break;
	default:
		kv_framing_break(f);
	}
}

/* n bytes of a head, chunk line or trailer have been read. */
KV_INLINE void kv_framing_count(struct kv_framing *f, __u32 n)
{
	__u32 seen = f->head_seen + n, limit = KV_FRAMING_HEAD_MAX;

	if (f->flags & KV_FRAMING_TRAILERS)
		limit = KV_FRAMING_TRAILER_MAX;
	else if (f->state >= KV_FRAMING_CHUNK)
		limit = KV_FRAMING_CHUNK_LINE_MAX;
	f->head_seen = seen;
	if (seen > limit)
		kv_framing_break(f);
}

/* ---- over a source ------------------------------------------------------------------- */

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
	if (kv_source_load(c->s, c->off + f->done, buf, n))
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
		f->ended = 0;
	}
	return done;
}

#endif /* KVSTEER_FRAMING_H */
