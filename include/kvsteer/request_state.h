/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A request head being parsed: what is known, and how a step of the parse ends. */
#ifndef KVSTEER_REQUEST_STATE_H
#define KVSTEER_REQUEST_STATE_H

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
	KV_FIELD_TENANT,
	KV_FIELD_LENGTH,
	KV_FIELD_CODING,
	KV_FIELD_EXPECT,
	KV_FIELD_CONNECTION,
	KV_FIELD_MAX,
	KV_FIELD_ROOM = 16, /* a power of two */
};
_Static_assert(KV_FIELD_MAX <= KV_FIELD_ROOM, "all have their place");

/* SipHash's four words, on their way. */
struct kv_sip {
	__u64 a, b, c, d;
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
	__u8 has_tenant;
	__u8 zero;
	__u32 prefix_off;
	__u32 prefix_len;
	__u32 session_off;
	__u32 session_len;
	__u32 tenant_off;
	__u32 tenant_len;
	__u64 session_all; /* hash with the white space so far */
	/* result */
	__u32 head_len; /* bytes of head with its empty line; 0 unless the head is whole */
	__u32 n_fields;
	__u64 body_len; /* Content-Length, else 0 */
	__u64 session;	/* hash of the session header's value, 0 = none */
	__u32 target_off;
	__u32 target_len;
	struct kv_sip tenant; /* with tenancy: what kv_tenant_mix starts from */
	struct kv_hint hint;  /* valid if hint_state is KV_HINT_OK */
	struct kv_window w;
};
_Static_assert(sizeof(struct kv_request) <= 1536, "kv_request is per-CPU memory");

struct kv_request_loop {
	struct kv_request *r;
	const struct kv_source *s;
	const struct kv_names *names;
};

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

#endif /* KVSTEER_REQUEST_STATE_H */
