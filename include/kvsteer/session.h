/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What stands for a session: a hash of its header's value. */
#ifndef KVSTEER_SESSION_H
#define KVSTEER_SESSION_H

#include "request_state.h"

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

/* Sets r->session from the value that the parse has found. */
KV_INLINE void kv_request_session(struct kv_request *r, const struct kv_source *s)
{
	struct kv_request_loop loop = {.r = r, .s = s};

	r->session_all = KV_SESSION_SEED;
	kv_window_init(&r->w, r->session_off, r->session_off + r->session_len);
	kv_loop(KV_HEAD_MAX / KV_UNIT + 1, kv_session_step, &loop);
	r->session = kv_session_finish(r->session);
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

#endif /* KVSTEER_SESSION_H */
