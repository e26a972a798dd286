/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* METHOD SP target SP HTTP/1.1 */
#ifndef KVSTEER_REQUEST_LINE_H
#define KVSTEER_REQUEST_LINE_H

#include "request_state.h"

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

#endif /* KVSTEER_REQUEST_LINE_H */
