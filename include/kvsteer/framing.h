/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Response framing: where an HTTP/1.1 response ends (RFC 9112, section 6). */
#ifndef KVSTEER_FRAMING_H
#define KVSTEER_FRAMING_H

#include "source.h"
#include "types.h"

enum kv_framing_flag {
	KV_FRAMING_HEAD = 1,	   /* answers a HEAD request: no body */
	KV_FRAMING_STARTED = 2,	   /* a byte has been seen */
	KV_FRAMING_CLOSE = 4,	   /* the connection ends with this response */
	KV_FRAMING_KEEP_ALIVE = 8, /* Connection: keep-alive */
	KV_FRAMING_HTTP_1_0 = 16,
	KV_FRAMING_LENGTH = 32, /* Content-Length seen */
	KV_FRAMING_CHUNKED = 64,
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
	__u8 work[16];
};

/*
 * void kv_framing_init(struct kv_framing *f, bool head_request);
 * __u32 kv_framing_run(struct kv_framing *f, const struct kv_source *s, __u32 off, __u32 len);
 *	Consumes up to len bytes at off; returns how many belong to this response: less than
 *	len only when the response ended. A broken response owns all bytes.
 * bool kv_framing_done(f)	  ended; the byte after belongs to no one
 * bool kv_framing_broken(f)	  cannot be framed: pass everything on, never use again
 * bool kv_framing_until_close(f) body ends with the connection (also: broken)
 * bool kv_framing_needs_bytes(f) the next byte must be looked at
 */

#endif
