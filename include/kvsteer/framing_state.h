/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The state of one response being framed. */
#ifndef KVSTEER_FRAMING_STATE_H
#define KVSTEER_FRAMING_STATE_H

#include "types.h"

#define KV_FRAMING_HEAD_MAX (64 << 10)
#define KV_FRAMING_CHUNK_LINE_MAX (4 << 10)
#define KV_FRAMING_TRAILER_MAX (16 << 10)
#define KV_FRAMING_CHUNK_MAX (1ull << 60)

enum kv_framing_state {
	KV_FRAMING_STATUS = 1, /* HTTP/1.1 200 */
	KV_FRAMING_TEXT,       /* what is passed over up to the end of a line */
	KV_FRAMING_LF,	       /* behind the CR of a head or trailer line */
	KV_FRAMING_LINE,       /* start of a line */
	KV_FRAMING_NAME,       /* in a name that may be one of ours */
	KV_FRAMING_NAME_REST,  /* in another name */
	KV_FRAMING_VALUE,      /* of one of our fields */
	KV_FRAMING_END_LF,     /* behind the CR of the empty line */
	KV_FRAMING_CHUNK,      /* chunk size */
	KV_FRAMING_CHUNK_TEXT, /* behind the digits of a chunk size */
	KV_FRAMING_CHUNK_LF,
	KV_FRAMING_DATA_CR, /* behind chunk data */
	KV_FRAMING_DATA_LF,
	/* from here on no byte needs to be looked at */
	KV_FRAMING_DATA, /* chunk data */
	KV_FRAMING_BODY, /* of Content-Length */
	KV_FRAMING_UNTIL_CLOSE,
	KV_FRAMING_BROKEN,
	KV_FRAMING_DONE,
};

enum kv_framing_flag {
	KV_FRAMING_HEAD = 1,	   /* answers a HEAD request: no body */
	KV_FRAMING_STARTED = 2,	   /* a byte has been seen */
	KV_FRAMING_CLOSE = 4,	   /* the connection ends with this response */
	KV_FRAMING_KEEP_ALIVE = 8, /* Connection: keep-alive */
	KV_FRAMING_HTTP_1_0 = 16,
	KV_FRAMING_LENGTH = 32, /* Content-Length seen */
	KV_FRAMING_CHUNKED = 64,
	KV_FRAMING_TRAILERS = 128, /* lines are trailers */
};

/* Fields that decide framing. */
enum kv_framing_field {
	KV_FRAMING_F_CONNECTION,
	KV_FRAMING_F_LENGTH,
	KV_FRAMING_F_CODING,
};

/* State of one response; 32 bytes, copied as a whole. All zero is not a valid state.
 * In BPF kv_framing_run wants it in map memory: what the verifier knows of a stack would be
 * taken for true in every turn of the loop (before 6.8). */
struct kv_framing {
	__u64 left; /* bytes of body or chunk data still to come */
	__u8 state;
	__u8 flags;	 /* KV_FRAMING_* */
	__u16 status;	 /* of the response at hand, as far as its digits are read */
	__u32 head_seen; /* bytes of head, chunk line or trailers so far, against the limit */
	__u64 match;	 /* high bit of byte k: the token may be word k of the table */
	__u8 index;	 /* position in the status line, name, token or number */
	__u8 field;	 /* enum kv_framing_field of the value being read */
	__u8 past;	 /* of a value: its token is over, only white space may follow; of a body:
			    its first byte has been seen */
	/* inside kv_framing_run, else 0 */
	__u8 at;    /* in the window */
	__u32 done; /* bytes consumed before the window */
};
_Static_assert(sizeof(struct kv_framing) == 32, "part of the maps' layout");

KV_INLINE void kv_framing_init(struct kv_framing *f, bool head_request)
{
	__builtin_memset(f, 0, sizeof(*f));
	f->state = KV_FRAMING_STATUS;
	f->flags = head_request ? KV_FRAMING_HEAD : 0;
}

/* The final response has begun: its status is read. */
KV_INLINE bool kv_framing_answered(const struct kv_framing *f)
{
	return f->status >= 200;
}

/* The first token is there, or there will be none. The head alone does not say so: engines send
 * that of a stream (vLLM, by way of uvicorn) as soon as they have queued the request. */
KV_INLINE bool kv_framing_begun(const struct kv_framing *f)
{
	return (f->past && f->state >= KV_FRAMING_CHUNK) || f->state >= KV_FRAMING_BROKEN ||
	       f->status >= 300;
}

/* Its length was not known when its head was sent: it is written as it is generated. */
KV_INLINE bool kv_framing_streamed(const struct kv_framing *f)
{
	return !(f->flags & KV_FRAMING_LENGTH);
}

/* The response has ended; the next byte is no part of it. */
KV_INLINE bool kv_framing_done(const struct kv_framing *f)
{
	return f->state == KV_FRAMING_DONE;
}

/* It cannot be framed: pass everything on, never use the connection again. */
KV_INLINE bool kv_framing_broken(const struct kv_framing *f)
{
	return f->state == KV_FRAMING_BROKEN;
}

/* It ends with the connection; true for broken ones too. */
KV_INLINE bool kv_framing_until_close(const struct kv_framing *f)
{
	return f->state == KV_FRAMING_UNTIL_CLOSE || f->state == KV_FRAMING_BROKEN;
}

/* The connection has ended: so has the response, whole or not. */
KV_INLINE void kv_framing_end(struct kv_framing *f)
{
	f->state = KV_FRAMING_DONE;
	f->flags |= KV_FRAMING_CLOSE;
}

/* The very next byte must be looked at, so bytes behind it cannot be taken first. */
KV_INLINE bool kv_framing_needs_bytes(const struct kv_framing *f)
{
	return f->state < KV_FRAMING_DATA;
}

#endif /* KVSTEER_FRAMING_STATE_H */
