/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * KV-Steer: what the gateway adds to an answer that it relays, if its service is to
 * (answer_header). A dictionary of RFC 9651, in a line of its own behind the status line:
 *
 *	KV-Steer: matched=832, total=889, backend="e1"
 */
#ifndef AGENT_ANSWER_HEADER_H
#define AGENT_ANSWER_HEADER_H

#include <kvsteer/framing.h>
#include <kvsteer/shared.h>

struct answer_header {
	const char *backend; /* of letters, digits and -._:[] alone: a string needs no escapes */
	__u32 matched;
	__u32 total;
};

/* With the longest name and numbers. */
#define ANSWER_HEADER_MAX                                                                          \
	(sizeof("KV-Steer: matched=4294967295, total=4294967295, backend=\"\"\r\n") + KV_NAME_LEN)

/* Writes the line, with its end; returns its length. */
__u32 answer_header(char line[ANSWER_HEADER_MAX], const struct answer_header *h);
/* Takes a piece of a response into its framing; returns the bytes of it that are the response's.
 * ret_at, while the line waits for its place: behind so many bytes of the piece; 0: not in this
 * one. NULL: nothing waits. */
__u32 answer_frame(struct kv_framing *f, const char *piece, __u32 len, __u32 *ret_at);

#endif
