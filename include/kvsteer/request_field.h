/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Field lines of a request head.
 *
 * What decides framing (who sends how many bytes, and whether another request follows) is
 * read so that no recipient behind us can read it differently; the rest is only checked to be
 * free of control characters and passed on as it is.
 */
#ifndef KVSTEER_REQUEST_FIELD_H
#define KVSTEER_REQUEST_FIELD_H

#include "request_state.h"

/* ---- field names --------------------------------------------------------------------- */

/* The field that a name of this length can be. */
static const __u8 kv_field_by_length[KV_TOKEN_MAX + 1] = {
	[4] = KV_FIELD_HOST,	[6] = KV_FIELD_EXPECT,	    [7] = KV_FIELD_UPGRADE,
	[9] = KV_FIELD_PREFIX,	[10] = KV_FIELD_CONNECTION, [14] = KV_FIELD_LENGTH,
	[17] = KV_FIELD_CODING,
};

/* Names that decide something are compared whole, not by a hash that could be forged. */
static const union kv_literal kv_field_names[KV_FIELD_ROOM] = {
	[KV_FIELD_HOST] = {"host"},
	[KV_FIELD_UPGRADE] = {"upgrade"},
	[KV_FIELD_PREFIX] = {"kv-prefix"},
	[KV_FIELD_LENGTH] = {"content-length"},
	[KV_FIELD_CODING] = {"transfer-encoding"},
	[KV_FIELD_EXPECT] = {"expect"},
	[KV_FIELD_CONNECTION] = {"connection"},
};

KV_INLINE bool kv_field_session(const struct kv_names *names, const __u64 *words)
{
	bool found = false;

	for (__u32 i = 0; i < KV_NAMES_MAX; i++) {
		if (i >= names->n)
			break;
		if (words[0] == names->name[i][0] && kv_words_equal(words, names->name[i]))
			found = true;
	}
	return found;
}

/* The field whose name of n bytes is at p. */
KV_INLINE __u32 kv_field_at(const __u8 *p, __u32 n, const struct kv_names *names)
{
	__u32 field = n < KV_TOKEN_MAX ? kv_field_by_length[n] : KV_FIELD_OTHER;
	bool session = names->lengths >> (n & 63) & 1; /* or tenant */
	__u64 words[4];

	if (!field && !session)
		return KV_FIELD_OTHER;
	kv_token_words(p, n, words);
	for (int k = 0; k < 4; k++)
		words[k] = kv_lower(words[k]);
	/* Masked, not compared: 6.1 forgets the bounds of a value that is loaded again. */
	if (kv_words_equal(words, kv_field_names[field & (KV_FIELD_ROOM - 1)].word))
		return field;
	/* Zero, where there is no tenancy, is no name's words. */
	if (kv_words_equal(words, names->tenant))
		return KV_FIELD_TENANT;
	return session && kv_field_session(names, words) ? KV_FIELD_SESSION : KV_FIELD_OTHER;
}

/* What a field means for the request, by its name alone. */
KV_INLINE long kv_request_meaning(struct kv_request *r)
{
	switch (r->field) {
	case KV_FIELD_HOST:
		if (r->has_host)
			return kv_request_refuse(r, KV_REASON_host_repeated);
		r->has_host = 1;
		break;
	case KV_FIELD_UPGRADE:
		r->upgrade = 1;
		kv_request_odd(r, KV_REASON_upgrade);
		break;
	case KV_FIELD_TENANT:
		/* Two tenants: one of them is not whom the request is from. */
		if (r->has_tenant)
			return kv_request_refuse(r, KV_REASON_tenant_repeated);
		r->has_tenant = 1;
		break;
	case KV_FIELD_LENGTH:
		if (r->has_body_len)
			return kv_request_refuse(r, KV_REASON_length_repeated);
		if (r->chunked)
			return kv_request_refuse(r, KV_REASON_length_and_coding);
		r->has_body_len = 1;
		break;
	case KV_FIELD_CODING:
		if (r->chunked)
			return kv_request_refuse(r, KV_REASON_coding_repeated);
		if (r->has_body_len)
			return kv_request_refuse(r, KV_REASON_length_and_coding);
		if (!r->minor)
			return kv_request_refuse(r, KV_REASON_coding_in_1_0);
		r->chunked = 1;
		kv_request_odd(r, KV_REASON_chunked_body);
		break;
	}
	return 0;
}

KV_INLINE long kv_request_name(struct kv_request *r, const struct kv_names *names)
{
	const __u8 *p = kv_window_at(&r->w);
	__u8 c;

	if (r->state == KV_AT_FIELD) {
		if (p[0] == '\r' && p[1] == '\n') {
			r->head_len = r->w.off + r->w.pos + 2;
			return 1;
		}
		if (p[0] == ' ' || p[0] == '\t')
			return kv_request_refuse(r, KV_REASON_line_folded);
		if (p[0] == '\r')
			return kv_request_stop(r, 1, KV_REASON_bare_cr);
	}
	kv_window_token(&r->w, KV_CLASS_TOKEN);
	c = p[r->w.n & 63];
	if (r->w.n == KV_TOKEN_MAX && kv_class[c] & KV_CLASS_TOKEN) {
		r->state = KV_AT_NAME_TAIL;
		r->w.pos += KV_TOKEN_MAX;
		return 0;
	}
	if (c != ':' || (!r->w.n && r->state == KV_AT_FIELD))
		return kv_request_stop(r, r->w.n,
				       c == '\n' ? KV_REASON_bare_lf : KV_REASON_bad_field_name);
	r->field = r->state == KV_AT_FIELD ? kv_field_at(p, r->w.n, names) : KV_FIELD_OTHER;
	if (++r->n_fields > KV_FIELDS_MAX)
		return kv_request_refuse(r, KV_REASON_too_many_fields);
	r->w.pos += r->w.n + 1;
	r->has_tokens = 0;
	r->in_element = 0;
	r->state = KV_AT_SPACE;
	return kv_request_meaning(r);
}

/* ---- field values -------------------------------------------------------------------- */

#define KV_SPACES 16 /* passed over in one step */

KV_INLINE void kv_request_spaces(struct kv_request *r, bool commas)
{
	const __u8 *p = kv_window_at(&r->w);
	__u32 i;

	for (i = 0; i < KV_SPACES; i++)
		if (p[i] != ' ' && p[i] != '\t' && !(commas && p[i] == ','))
			break;
	r->w.pos += i;
	kv_forget();
}

KV_INLINE long kv_request_space(struct kv_request *r)
{
	__u8 c;

	kv_request_spaces(r, false);
	c = *kv_window_at(&r->w);
	if (c == ' ' || c == '\t')
		return 0;
	if (kv_window_out(&r->w, 0))
		return kv_request_stop(r, 0, 0);
	if (r->field >= KV_FIELD_LENGTH) {
		r->state = KV_AT_TOKEN;
		return 0;
	}
	r->state = KV_AT_VALUE;
	if (r->field == KV_FIELD_PREFIX) {
		/* Which of two would be right? Neither is used. */
		r->hint_state = r->hint_state ? KV_HINT_MALFORMED : KV_HINT_OK;
		r->prefix_off = r->w.off + r->w.pos;
	}
	if (r->field == KV_FIELD_SESSION && !r->has_session)
		r->session_off = r->w.off + r->w.pos;
	if (r->field == KV_FIELD_TENANT)
		r->tenant_off = r->w.off + r->w.pos;
	return 0;
}

/* At CR LF behind a value. */
KV_INLINE long kv_request_line_end(struct kv_request *r)
{
	__u32 at = r->w.off + r->w.pos;

	if (r->field == KV_FIELD_PREFIX)
		r->prefix_len = at - r->prefix_off;
	if (r->field == KV_FIELD_SESSION && !r->has_session && at > r->session_off) {
		r->session_len = at - r->session_off;
		r->has_session = 1;
	}
	if (r->field == KV_FIELD_TENANT)
		r->tenant_len = at - r->tenant_off;
	r->w.pos += 2;
	r->state = KV_AT_FIELD;
	return 0;
}

KV_INLINE long kv_request_value(struct kv_request *r)
{
	const __u8 *p = kv_window_at(&r->w);
	__u64 hit;
	__u32 i;

	for (i = 0; i < KV_UNIT; i += 8) {
		hit = kv_control_bytes(kv_word_at(p, i));
		if (hit)
			break;
	}
	r->w.pos += i;
	kv_forget();
	if (!hit)
		return 0;
	r->w.pos += kv_first_byte(hit);
	p = kv_window_at(&r->w);
	if (p[0] == '\t') {
		r->w.pos++;
		return 0;
	}
	if (p[0] != '\r')
		return kv_request_stop_at(r, 0, p[0], KV_REASON_bad_field_value);
	if (p[1] != '\n')
		return kv_request_stop(r, 1, KV_REASON_bare_cr);
	return kv_request_line_end(r);
}

/* Content-Length: nothing but digits. 19 of them cannot overflow, and more is no body. */
KV_INLINE long kv_request_length(struct kv_request *r)
{
	const __u8 *p = kv_window_at(&r->w);
	__u32 n = r->w.n;
	__u64 value = 0;

	kv_window_token(&r->w, KV_CLASS_DIGIT);
	if (r->w.n != n)
		return kv_request_refuse(r, KV_REASON_length_malformed);
	if (n > 19)
		return kv_request_refuse(r, KV_REASON_length_too_large);
	for (__u32 i = 0; i < 19; i++) {
		if (i >= n)
			break;
		value = value * 10 + p[i] - '0';
	}
	r->body_len = value;
	return 0;
}

KV_INLINE long kv_request_token_means(struct kv_request *r, bool whole,
				      const struct kv_names *names)
{
	static const union kv_literal chunked = {"chunked"}, expect = {"100-continue"},
				      close = {"close"}, keep_alive = {"keep-alive"};
	__u64 words[4];

	kv_window_words(&r->w, words);
	for (int k = 0; k < 4; k++)
		words[k] = whole ? kv_lower(words[k]) : ~0ull;
	switch (r->field) {
	case KV_FIELD_LENGTH:
		return kv_request_length(r);
	case KV_FIELD_CODING:
		if (!kv_words_equal(words, chunked.word))
			return kv_request_refuse(r, KV_REASON_coding_unknown);
		break;
	case KV_FIELD_EXPECT:
		if (!kv_words_equal(words, expect.word))
			return kv_request_refuse(r, KV_REASON_expect_unknown);
		r->expect_continue = 1;
		break;
	case KV_FIELD_CONNECTION:
		if (r->in_element)
			break;
		if (kv_words_equal(words, close.word))
			r->close = 1;
		if (kv_words_equal(words, keep_alive.word))
			r->keep_alive = 1;
		/* A client's way to have its proxy take the header out again, and the words
		 * of what is no whole token are never a name's. */
		if (names->tenant[0] && kv_words_equal(words, names->tenant))
			return kv_request_refuse(r, KV_REASON_tenant_malformed);
		break;
	}
	return 0;
}

/* A value that must be one token and is none, or more. */
KV_INLINE long kv_request_bad_tokens(struct kv_request *r)
{
	return kv_request_refuse(r, r->field == KV_FIELD_LENGTH	  ? KV_REASON_length_malformed
				    : r->field == KV_FIELD_CODING ? KV_REASON_coding_unknown
								  : KV_REASON_expect_unknown);
}

KV_INLINE long kv_request_token(struct kv_request *r, const struct kv_names *names)
{
	bool list = r->field == KV_FIELD_CONNECTION;
	const __u8 *p;
	__u8 c;

	if (!r->in_element)
		kv_request_spaces(r, list);
	p = kv_window_at(&r->w);
	c = p[0];
	if (c == '\r') {
		if (p[1] != '\n')
			return kv_request_stop(r, 1, KV_REASON_bare_cr);
		if (!list && !r->has_tokens)
			return kv_request_bad_tokens(r);
		return kv_request_line_end(r);
	}
	if (c == ' ' || c == '\t' || (c == ',' && list)) {
		r->in_element = 0;
		return 0;
	}
	if (c < ' ' || c == 0x7f)
		return kv_request_stop_at(r, 0, c, KV_REASON_bad_field_value);
	if (!list && r->has_tokens)
		return kv_request_bad_tokens(r);
	kv_window_token(&r->w, KV_CLASS_ELEMENT);
	if (!list && !r->w.n) /* a comma */
		return kv_request_bad_tokens(r);
	/* The token's end must be seen, or it is not this token. */
	if (kv_window_out(&r->w, r->w.n))
		return kv_request_stop(r, r->w.n, 0);
	c = p[r->w.n & 63];
	r->has_tokens = 1;
	if (kv_request_token_means(r, !(kv_class[c] & KV_CLASS_ELEMENT), names))
		return 1;
	r->in_element = list && kv_class[c] & KV_CLASS_ELEMENT;
	r->w.pos += r->w.n;
	return 0;
}

#endif /* KVSTEER_REQUEST_FIELD_H */
