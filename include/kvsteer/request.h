/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Request heads: a strict subset of RFC 9112, read in one pass over a window. The kernel reads
 * them in a packet, the agent in its buffer.
 */
#ifndef KVSTEER_REQUEST_H
#define KVSTEER_REQUEST_H

#include "request_field.h"
#include "request_line.h"
#include "session.h"
#include "tenant.h"

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
		return kv_request_token(r, c->names);
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
	if (r->has_session)
		kv_request_session(r, s);
	if (kv_tenancy(names)) {
		if (kv_request_tenant(r, s, names)) {
			kv_request_refuse(r, KV_REASON_tenant_malformed);
			return r->lane;
		}
		kv_request_of_tenant(r);
	}
	return r->lane;
}

/* Does the client's connection stay open after this request? */
KV_INLINE bool kv_request_persistent(const struct kv_request *r)
{
	return !r->close && (r->minor || r->keep_alive);
}

#endif /* KVSTEER_REQUEST_H */
