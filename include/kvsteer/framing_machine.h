/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The byte machine of response framing: one state and one byte give the next state. */
#ifndef KVSTEER_FRAMING_MACHINE_H
#define KVSTEER_FRAMING_MACHINE_H

#include "framing_state.h"
#include "scan.h"

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
	f->past = 0;
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
	f->past = 0;
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

	if (!f->index || f->past || f->field == KV_FRAMING_F_LENGTH) {
		f->past = f->index > 0;
		return;
	}
	match = kv_framing_token_byte(f, 0);
	f->past = 1;
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
		if (!f->past && !list)
			kv_framing_break(f);
		else if (f->state != KV_FRAMING_BROKEN)
			f->state = KV_FRAMING_LF;
	} else if (c < ' ' || c == 0x7f) {
		kv_framing_break(f);
	} else if (f->past) {
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

#endif /* KVSTEER_FRAMING_MACHINE_H */
