/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Request heads: a strict subset of RFC 9112.
 */
#ifndef KVSTEER_REQUEST_H
#define KVSTEER_REQUEST_H

#include "fields.h"
#include "hint.h"
#include "source.h"

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
	__u8 zero[3];
	__u32 head_len; /* bytes of head with its empty line; 0 unless the head is whole */
	__u32 n_fields;
	__u64 body_len; /* Content-Length, else 0 */
	__u64 session;	/* hash of the session header's value, 0 = none */
	__u32 target_off;
	__u32 target_len;
	struct kv_hint hint; /* valid if hint_state is KV_HINT_OK */
	__u8 work[384];
};

/*
 * int kv_request_parse(struct kv_request *r, const struct kv_source *s, const struct kv_names
 **names); Parses the head at the start of the source; returns the lane. All fields are set up to
 *	where the head ended or was refused.
 * bool kv_request_persistent(const struct kv_request *r);
 *	The client's connection stays open after this request.
 * __u64 kv_session_hash(const void *value, __u32 len);	(host)
 *	What a request with this session header value has in .session.
 */

#endif /* KVSTEER_REQUEST_H */
