/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Response framing: where an HTTP/1.1 response ends (RFC 9112, section 6). */
#ifndef KVSTEER_FRAMING_H
#define KVSTEER_FRAMING_H

#include "types.h"

/* State of one response; 32 bytes, copied as a whole. All zero is not a valid state. */
struct kv_framing {
	__u64 left; /* bytes of body or chunk data still to come */
	__u8 state;
	__u8 flags;
	__u16 status;
	__u32 head_seen; /* bytes of head or trailers so far, against the limit */
	__u8 work[16];
};

#endif
