/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Tenants apart: every hash of a request is replaced by a keyed hash of its tenant and itself.
 *
 * A client knows the hashes of its own prompts, can guess those of others', and chooses what its
 * hint says; so what separates tenants is a function that it cannot compute: SipHash-2-4
 * (Aumasson, Bernstein, 2012) under two random keys that each gateway has of its own.
 *
 *	tenant = SipHash(key 1; value in words, padded with zeros; its length)
 *	hash'  = SipHash(key 2; tenant; hash)
 *
 * A request without the header has the message "length ~0" alone, which no value has.
 */
#ifndef KVSTEER_TENANT_H
#define KVSTEER_TENANT_H

#include "request_state.h"

#define KV_TENANT_MAX 255 /* bytes of the value; with white space behind it, one load */
#define KV_TENANT_WORDS ((KV_TENANT_MAX + 7) / 8)

KV_INLINE __u64 kv_sip_turn(__u64 x, __u32 n)
{
	return x << n | x >> (64 - n);
}

KV_INLINE void kv_sip_round(struct kv_sip *s)
{
	s->a += s->b;
	s->b = kv_sip_turn(s->b, 13) ^ s->a;
	s->a = kv_sip_turn(s->a, 32);
	s->c += s->d;
	s->d = kv_sip_turn(s->d, 16) ^ s->c;
	s->a += s->d;
	s->d = kv_sip_turn(s->d, 21) ^ s->a;
	s->c += s->b;
	s->b = kv_sip_turn(s->b, 17) ^ s->c;
	s->c = kv_sip_turn(s->c, 32);
}

KV_INLINE void kv_sip_init(struct kv_sip *s, const __u64 *key)
{
	s->a = key[0] ^ 0x736f6d6570736575ull;
	s->b = key[1] ^ 0x646f72616e646f6dull;
	s->c = key[0] ^ 0x6c7967656e657261ull;
	s->d = key[1] ^ 0x7465646279746573ull;
}

KV_INLINE void kv_sip_word(struct kv_sip *state, __u64 word)
{
	struct kv_sip s = *state;

	s.d ^= word;
	kv_sip_round(&s);
	kv_sip_round(&s);
	s.a ^= word;
	*state = s;
}

/* The hash of a message of whole words, bytes long. */
KV_INLINE __u64 kv_sip_end(const struct kv_sip *state, __u32 bytes)
{
	struct kv_sip s = *state;

	kv_sip_word(&s, (__u64)bytes << 56);
	s.c ^= 0xff;
	for (int i = 0; i < 4; i++)
		kv_sip_round(&s);
	return s.a ^ s.b ^ s.c ^ s.d;
}

KV_INLINE bool kv_tenancy(const struct kv_names *names)
{
	return names->tenant[0];
}

/* What stands for a hash among those of this tenant; never 0, which says "no session". */
KV_INLINE __u64 kv_tenant_mix(const struct kv_sip *tenant, __u64 hash)
{
	struct kv_sip s = *tenant;

	kv_sip_word(&s, hash);
	hash = kv_sip_end(&s, 16);
	return hash ? hash : 1;
}

/* One byte of white space off the value's end. */
static long kv_tenant_trim(__u32 i, void *ctx)
{
	struct kv_request_loop *c = ctx;
	struct kv_request *r = c->r;
	__u32 last = r->tenant_len - 1;

	(void)i;
	kv_opaque(last);
	if (last >= KV_LOAD_MAX || (r->w.buf[last] != ' ' && r->w.buf[last] != '\t'))
		return 1;
	r->tenant_len = last;
	return 0;
}

static long kv_tenant_word(__u32 i, void *ctx)
{
	struct kv_request_loop *c = ctx;
	struct kv_request *r = c->r;
	__u32 len = r->tenant_len;

	kv_opaque(i);
	if (i >= KV_TENANT_WORDS || 8 * i >= len)
		return 1;
	kv_sip_word(&r->tenant, kv_first(kv_word_at(r->w.buf, 8 * i), len - 8 * i));
	return 0;
}

static long kv_tenant_rung(__u32 i, void *ctx)
{
	struct kv_request_loop *c = ctx;
	struct kv_request *r = c->r;

	kv_opaque(i);
	if (i >= KV_MAX_RUNGS || i >= r->hint.n)
		return 1;
	r->hint.rungs[i].hash = kv_tenant_mix(&r->tenant, r->hint.rungs[i].hash);
	return 0;
}

/*
 * Sets r->tenant from the value that the parse has found. -1: an empty one, or one longer than
 * KV_TENANT_MAX. Uses the window.
 */
KV_INLINE int kv_request_tenant(struct kv_request *r, const struct kv_source *s,
				const struct kv_names *names)
{
	struct kv_request_loop loop = {r, s, names};
	__u64 hash;

	kv_sip_init(&r->tenant, names->secret);
	if (r->has_tenant) {
		kv_window_init(&r->w, r->tenant_off, r->tenant_off + r->tenant_len);
		kv_window_fill(&r->w, s);
		/* Of more than one load only the first is here. */
		if (!r->tenant_len || r->w.end != r->tenant_len)
			return -1;
		kv_loop(KV_LOAD_MAX, kv_tenant_trim, &loop);
		if (!r->tenant_len || r->tenant_len > KV_TENANT_MAX)
			return -1;
		kv_loop(KV_TENANT_WORDS, kv_tenant_word, &loop);
		kv_sip_word(&r->tenant, r->tenant_len);
		hash = kv_sip_end(&r->tenant, (r->tenant_len + 7) / 8 * 8 + 8);
	} else {
		kv_sip_word(&r->tenant, ~0ull);
		hash = kv_sip_end(&r->tenant, 8);
	}
	kv_sip_init(&r->tenant, names->secret + 2);
	kv_sip_word(&r->tenant, hash);
	return 0;
}

/* The hint's rungs and the session become this tenant's. */
KV_INLINE void kv_request_of_tenant(struct kv_request *r)
{
	struct kv_request_loop loop = {.r = r};

	if (r->hint_state == KV_HINT_OK)
		kv_loop(KV_MAX_RUNGS, kv_tenant_rung, &loop);
	if (r->session)
		r->session = kv_tenant_mix(&r->tenant, r->session);
}

#endif /* KVSTEER_TENANT_H */
