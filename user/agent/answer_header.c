// SPDX-License-Identifier: BSD-2-Clause
#include <stdio.h>
#include <string.h>

#include "agent/answer_header.h"

__u32 answer_header(char line[ANSWER_HEADER_MAX], const struct answer_header *h)
{
	return snprintf(line, ANSWER_HEADER_MAX,
			"KV-Steer: matched=%u, total=%u, backend=\"%s\"\r\n", h->matched, h->total,
			h->backend);
}

/* Up to the end of the final response's status line, line by line: the first after which there is a
 * final status. One that cannot be framed has none. */
static __u32 frame_status_line(struct kv_framing *f, const struct kv_source *s, __u32 *ret_at)
{
	const char *piece = (const char *)s->data, *end;
	__u32 done = 0;

	*ret_at = 0;
	while (done < s->len && kv_framing_needs_bytes(f)) {
		end = memchr(piece + done, '\n', s->len - done);
		done += kv_framing_run(f, s, done, end ? end + 1 - piece - done : s->len - done);
		if (f->state == KV_FRAMING_LINE && kv_framing_answered(f)) {
			*ret_at = done;
			break;
		}
	}
	return done;
}

__u32 answer_frame(struct kv_framing *f, const char *piece, __u32 len, __u32 *ret_at)
{
	struct kv_source s = {.data = (const __u8 *)piece, .len = len};
	__u32 done = ret_at ? frame_status_line(f, &s, ret_at) : 0;

	return done + kv_framing_run(f, &s, done, len - done);
}
