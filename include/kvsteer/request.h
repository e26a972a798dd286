/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Request heads: a strict subset of RFC 9112, read in one pass over a window.
 *
 * What decides framing (who sends how many bytes, and whether another request follows) is
 * read so that no recipient behind us can read it differently; the rest is only checked to be
 * free of control characters and passed on as it is.
 */
#ifndef KVSTEER_REQUEST_H
#define KVSTEER_REQUEST_H

#include "fields.h"
#include "hint.h"
#include "scan.h"

enum kv_request_state {
	KV_AT_METHOD,
	KV_AT_TARGET,	  /* its first bytes */
	KV_AT_TARGET_END, /* its rest */
	KV_AT_VERSION,
	KV_AT_FIELD,	 /* start of a field line */
	KV_AT_NAME_TAIL, /* in a name longer than any we know */
	KV_AT_SPACE,	 /* before a value */
	KV_AT_VALUE,	 /* in a value that is passed over */
	KV_AT_TOKEN,	 /* in a value that is read by tokens */
};

/* Fields with a meaning; those from KV_FIELD_LENGTH on are read by tokens. */
enum kv_field {
	KV_FIELD_OTHER,
	KV_FIELD_HOST,
	KV_FIELD_UPGRADE,
	KV_FIELD_PREFIX,
	KV_FIELD_SESSION,
	KV_FIELD_LENGTH,
	KV_FIELD_CODING,
	KV_FIELD_EXPECT,
	KV_FIELD_CONNECTION,
	KV_FIELD_MAX,
};

/* Result and working memory of one parse; in BPF in map memory. */
struct kv_request {
	/* result */
	__u8 lane;	 /* enum kv_lane */
	__u8 reason;	 /* enum kv_reason */
	__u8 minor;	 /* HTTP/1.minor */
	__u8 hint_state; /* enum kv_hint_state */
	__u8 is_head;
	__u8 is_post;
	__u8 completion; /* POST to a path whose body holds a prompt */
	__u8 has_body_len;
	__u8 chunked;
	__u8 expect_continue;
	__u8 close;	 /* Connection: close */
	__u8 keep_alive; /* Connection: keep-alive */
	__u8 upgrade;
	/* working memory */
	__u8 state;
	__u8 field;
	__u8 odd; /* first reason for the agent lane */
	__u8 is_options;
	__u8 method_known;
	__u8 has_host;
	__u8 has_session;
	__u8 has_tokens; /* of this value */
	__u8 in_element; /* of a list, behind the part that is compared */
	__u8 zero[2];
	__u32 prefix_off;
	__u32 prefix_len;
	__u32 session_off;
	__u32 session_len;
	__u64 session_all; /* hash with the white space so far */
	/* result */
	__u32 head_len; /* bytes of head with its empty line; 0 unless the head is whole */
	__u32 n_fields;
	__u64 body_len; /* Content-Length, else 0 */
	__u64 session;	/* hash of the session header's value, 0 = none */
	__u32 target_off;
	__u32 target_len;
	struct kv_hint hint; /* valid if hint_state is KV_HINT_OK */
	struct kv_window w;
};
_Static_assert(sizeof(struct kv_request) <= 1536, "kv_request is per-CPU memory");

struct kv_request_loop {
	struct kv_request *r;
	const struct kv_source *s;
	const struct kv_names *names;
};

/* ---- ends of a step ------------------------------------------------------------------ */

KV_INLINE long kv_request_refuse(struct kv_request *r, __u32 reason)
{
	r->lane = KV_LANE_REFUSE;
	r->reason = reason;
	return 1;
}

/* The step stopped at the byte `ahead` of pos: refused, unless that is where the bytes end.
 * Then the head goes on in a later packet, or the next step sees more of it. */
KV_INLINE long kv_request_stop(struct kv_request *r, __u32 ahead, __u32 reason)
{
	if (!kv_window_out(&r->w, ahead))
		return kv_request_refuse(r, reason);
	if (!kv_window_last(&r->w))
		return 0;
	if (r->w.limit >= KV_HEAD_MAX)
		return kv_request_refuse(r, KV_REASON_head_too_large);
	return 1;
}

/* The same, naming line ends by their own reasons. */
KV_INLINE long kv_request_stop_at(struct kv_request *r, __u32 ahead, __u8 c, __u32 reason)
{
	if (c == '\n')
		reason = KV_REASON_bare_lf;
	else if (c == '\r')
		reason = KV_REASON_bare_cr;
	return kv_request_stop(r, ahead, reason);
}

KV_INLINE void kv_request_odd(struct kv_request *r, __u8 reason)
{
	if (!r->odd)
		r->odd = reason;
}

/* ---- the request line ---------------------------------------------------------------- */

KV_INLINE long kv_request_method(struct kv_request *r)
{
	static const union kv_literal methods[] = {
		{"POST"}, {"HEAD"}, {"OPTIONS"}, {"GET"}, {"PUT"}, {"PATCH"}, {"DELETE"},
	};
	__u64 words[4];
	__u8 c;

	kv_window_token(&r->w, KV_CLASS_TOKEN);
	c = kv_window_at(&r->w)[r->w.n & 63];
	if (!r->w.n || c != ' ')
		return kv_request_stop(r, r->w.n, KV_REASON_bad_request_line);
	kv_window_words(&r->w, words);
	for (__u32 i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		if (words[0] == methods[i].word[0] && !words[1])
			r->method_known = 1;
	r->is_post = words[0] == methods[0].word[0] && !words[1];
	r->is_head = words[0] == methods[1].word[0] && !words[1];
	r->is_options = words[0] == methods[2].word[0] && !words[1];
	r->w.pos += r->w.n + 1;
	r->target_off = r->w.off + r->w.pos;
	r->state = KV_AT_TARGET;
	return 0;
}

/* Paths whose body holds a prompt. */
KV_INLINE bool kv_path_completion(const __u64 *words)
{
	static const union kv_literal paths[] = {
		{"/v1/chat/completions"}, {"/v1/completions"}, {"/v1/messages"},
		{"/v1/responses"},	  {"/generate"},
	};
	bool found = false;

	for (__u32 i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		if (kv_words_equal(words, paths[i].word))
			found = true;
	return found;
}

KV_INLINE long kv_request_target(struct kv_request *r)
{
	static const union kv_literal http = {"http://"}, https = {"https://"};
	const __u8 *p = kv_window_at(&r->w);
	__u64 words[4];
	__u32 i;

	if (p[0] == '*' && r->is_options) {
		if (p[1] != ' ')
			return kv_request_stop(r, 1, KV_REASON_bad_target);
		kv_request_odd(r, KV_REASON_asterisk_target);
	} else if ((p[0] == 'h' || p[0] == 'H') && r->method_known) {
		__u64 word = kv_lower(kv_word_at(p, 0));

		/* Shorter ones are not whole: at least the version follows. */
		if (kv_window_out(&r->w, 7))
			return kv_request_stop(r, 7, KV_REASON_bad_target);
		if (kv_first(word, 7) != http.word[0] && word != https.word[0])
			return kv_request_refuse(r, KV_REASON_bad_target);
		kv_request_odd(r, KV_REASON_absolute_target);
	} else if (p[0] != '/' && r->method_known) {
		return kv_request_stop(r, 0, KV_REASON_bad_target);
	} else {
		for (i = 0; i < KV_TOKEN_MAX; i++)
			if (p[i] == '?' || !(kv_class[p[i]] & KV_CLASS_TARGET))
				break;
		r->w.n = i;
		kv_forget();
		kv_window_words(&r->w, words);
		r->completion = r->is_post && kv_path_completion(words);
	}
	r->state = KV_AT_TARGET_END;
	return 0;
}

KV_INLINE long kv_request_target_end(struct kv_request *r)
{
	__u8 c;

	kv_window_token(&r->w, KV_CLASS_TARGET);
	c = kv_window_at(&r->w)[r->w.n & 63];
	if (r->w.n == KV_TOKEN_MAX && kv_class[c] & KV_CLASS_TARGET) {
		r->w.pos += KV_TOKEN_MAX;
		return 0;
	}
	if (c != ' ')
		return kv_request_stop(r, r->w.n, KV_REASON_bad_target);
	r->w.pos += r->w.n;
	r->target_len = r->w.off + r->w.pos - r->target_off;
	r->w.pos++;
	r->state = KV_AT_VERSION;
	return 0;
}

KV_INLINE long kv_request_version(struct kv_request *r)
{
	static const union kv_literal version = {"HTTP/1.1"};
	const __u8 *p = kv_window_at(&r->w);
	__u64 differs = kv_word_at(p, 0) ^ version.word[0];
	__u8 major = p[5] - '0', minor = p[7] - '0';

	if (differs) {
		/* Any digits, else it is no version at all. */
		__u64 bad = ~kv_zero_bytes(differs & ~0xff00ff0000000000ull) & KV_BYTES(0x80);

		if (major > 9)
			bad |= 0x80ull << 40;
		if (minor > 9)
			bad |= 0x80ull << 56;
		if (bad)
			return kv_request_stop(r, kv_first_byte(bad), KV_REASON_bad_request_line);
		if (major != 1 || minor > 1)
			return kv_request_refuse(r, KV_REASON_bad_version);
		kv_request_odd(r, KV_REASON_http_1_0);
	}
	if (p[8] != '\r')
		return kv_request_stop_at(r, 8, p[8], KV_REASON_bad_request_line);
	if (p[9] != '\n')
		return kv_request_stop(r, 9, KV_REASON_bare_cr);
	if (!r->method_known)
		return kv_request_refuse(r, KV_REASON_method_unknown);
	r->minor = minor;
	r->w.pos += 10;
	r->state = KV_AT_FIELD;
	return 0;
}

/* ---- field names --------------------------------------------------------------------- */

/* The field that a name of this length can be. */
static const __u8 kv_field_by_length[KV_TOKEN_MAX + 1] = {
	[4] = KV_FIELD_HOST,	[6] = KV_FIELD_EXPECT,	    [7] = KV_FIELD_UPGRADE,
	[9] = KV_FIELD_PREFIX,	[10] = KV_FIELD_CONNECTION, [14] = KV_FIELD_LENGTH,
	[17] = KV_FIELD_CODING,
};

/* Names that decide something are compared whole, not by a hash that could be forged. */
static const union kv_literal kv_field_names[KV_FIELD_MAX] = {
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
	bool session = names->lengths >> (n & 63) & 1;
	__u64 words[4];

	if (!field && !session)
		return KV_FIELD_OTHER;
	kv_token_words(p, n, words);
	for (int k = 0; k < 4; k++)
		words[k] = kv_lower(words[k]);
	if (field < KV_FIELD_MAX && kv_words_equal(words, kv_field_names[field].word))
		return field;
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

KV_INLINE long kv_request_token_means(struct kv_request *r, bool whole)
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

KV_INLINE long kv_request_token(struct kv_request *r)
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
	if (kv_request_token_means(r, !(kv_class[c] & KV_CLASS_ELEMENT)))
		return 1;
	r->in_element = list && kv_class[c] & KV_CLASS_ELEMENT;
	r->w.pos += r->w.n;
	return 0;
}

/* ---- the parse ----------------------------------------------------------------------- */

static long kv_request_step(__u32 i, void *ctx)
{
	struct kv_request_loop *c = ctx;
	struct kv_request *r = c->r;

	(void)i;
	kv_window_fill(&r->w, c->s);
	if (r->state == KV_AT_FIELD || r->state == KV_AT_NAME_TAIL)
		if (kv_request_name(r, c->names))
			return 1;
	/* The space is short and the value's scan stops anywhere: both in the name's step. */
	if (r->state == KV_AT_SPACE)
		if (kv_request_space(r))
			return 1;
	switch (r->state) {
	case KV_AT_VALUE:
		return kv_request_value(r);
	case KV_AT_TOKEN:
		return kv_request_token(r);
	case KV_AT_METHOD:
		return kv_request_method(r);
	case KV_AT_TARGET:
		return kv_request_target(r);
	case KV_AT_TARGET_END:
		return kv_request_target_end(r);
	case KV_AT_VERSION:
		return kv_request_version(r);
	}
	return 0;
}

/* ---- sessions ------------------------------------------------------------------------ */

#define KV_SESSION_SEED 0xcbf29ce484222325ull

KV_INLINE __u64 kv_session_mix(__u64 hash, __u8 c)
{
	return (hash ^ c) * 0x100000001b3ull;
}

/* FNV's high bits depend little on the last bytes. Never 0, which says that there is none. */
KV_INLINE __u64 kv_session_finish(__u64 hash)
{
	hash ^= hash >> 33;
	hash *= 0xff51afd7ed558ccdull;
	hash ^= hash >> 33;
	hash *= 0xc4ceb9fe1a85ec53ull;
	hash ^= hash >> 33;
	return hash ? hash : 1;
}

/* Hashes KV_UNIT bytes; r->session follows up to the last byte that is no white space. */
static long kv_session_step(__u32 i, void *ctx)
{
	struct kv_request_loop *c = ctx;
	struct kv_request *r = c->r;
	__u64 hash = r->session_all, last = r->session;
	const __u8 *p;
	__u32 left, k;

	(void)i;
	kv_window_fill(&r->w, c->s);
	p = kv_window_at(&r->w);
	left = r->w.end - r->w.pos;
	for (k = 0; k < KV_UNIT; k++) {
		if (k >= left)
			break;
		hash = kv_session_mix(hash, p[k]);
		if (p[k] != ' ' && p[k] != '\t')
			last = hash;
	}
	r->w.pos += k;
	r->session_all = hash;
	r->session = last;
	return left <= KV_UNIT && kv_window_last(&r->w);
}

#ifndef __bpf__
/* What a request with this header value, without white space around it, has in .session. */
static inline __u64 kv_session_hash(const void *value, __u32 len)
{
	__u64 hash = KV_SESSION_SEED;

	for (__u32 i = 0; i < len; i++)
		hash = kv_session_mix(hash, ((const __u8 *)value)[i]);
	return len ? kv_session_finish(hash) : 0;
}
#endif

/* ---- all of it ----------------------------------------------------------------------- */

/* Parses the head at the start of the source; returns the lane. All fields are set up to where
 * the head was refused or ends. */
KV_INLINE int kv_request_parse(struct kv_request *r, const struct kv_source *s,
			       const struct kv_names *names)
{
	struct kv_request_loop loop = {r, s, names};

	__builtin_memset(r, 0, __builtin_offsetof(struct kv_request, hint));
	r->lane = KV_LANE_AGENT;
	r->reason = KV_REASON_head_incomplete;
	kv_window_init(&r->w, 0, s->len < KV_HEAD_MAX ? s->len : KV_HEAD_MAX);
	/* Every second step at least consumes a byte. */
	kv_loop(2 * KV_HEAD_MAX, kv_request_step, &loop);
	if (r->lane == KV_LANE_REFUSE || !r->head_len)
		return r->lane;
	if (!r->has_host && r->minor) {
		kv_request_refuse(r, KV_REASON_host_missing);
		return r->lane;
	}
	r->lane = r->odd ? KV_LANE_AGENT : KV_LANE_EXPRESS;
	r->reason = r->odd;
	if (r->hint_state == KV_HINT_OK &&
	    kv_hint_parse(&r->hint, &r->w, s, r->prefix_off, r->prefix_len))
		r->hint_state = KV_HINT_MALFORMED;
	if (r->has_session) {
		r->session_all = KV_SESSION_SEED;
		kv_window_init(&r->w, r->session_off, r->session_off + r->session_len);
		kv_loop(KV_HEAD_MAX / KV_UNIT + 1, kv_session_step, &loop);
		r->session = kv_session_finish(r->session);
	}
	return r->lane;
}

/* Does the client's connection stay open after this request? */
KV_INLINE bool kv_request_persistent(const struct kv_request *r)
{
	return !r->close && (r->minor || r->keep_alive);
}

#endif /* KVSTEER_REQUEST_H */
