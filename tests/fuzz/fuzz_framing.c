// SPDX-License-Identifier: BSD-2-Clause
/*
 * Response framing: in pieces as in one, also where the agent looks for the place of a line of its
 * own in the head. The first byte of the input seeds the cuts, its low bit says whether it is a
 * HEAD request; the rest is the response.
 */
#include <stdlib.h>

#include <kvsteer/framing.h>

#include "agent/answer_header.c"

#define must(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond))                                                                       \
			abort();                                                                   \
	} while (0)

static __u32 run(struct kv_framing *f, const __u8 *data, __u32 from, __u32 to)
{
	/* A copy of its own size: reading past it is seen by the sanitizer. */
	__u8 *copy = malloc(to - from + 1);
	struct kv_source s = {copy, to - from};
	__u32 n;

	memcpy(copy, data + from, to - from);
	n = kv_framing_run(f, &s, 0, to - from);
	free(copy);
	must(n == to - from || (n < to - from && kv_framing_done(f)));
	return n;
}

/* The same with a line that waits for its place, which is then counted from the first piece on. */
static __u32 place(struct kv_framing *f, const __u8 *data, __u32 from, __u32 to, __u32 *ret_place)
{
	char *copy = malloc(to - from + 1);
	__u32 at = 0, n;

	memcpy(copy, data + from, to - from);
	n = answer_frame(f, copy, to - from, *ret_place ? NULL : &at);
	must(at <= n);
	if (at) {
		must(copy[at - 1] == '\n' && kv_framing_answered(f));
		*ret_place = from + at;
	}
	free(copy);
	return n;
}

int LLVMFuzzerTestOneInput(const __u8 *data, size_t size);

int LLVMFuzzerTestOneInput(const __u8 *data, size_t size)
{
	struct kv_framing whole, pieces, bytes;
	__u32 len, n, total = 0, at, cut, seed, once = 0, cuts = 0;

	if (!size)
		return 0;
	seed = data[0] + 1;
	len = size - 1;
	data++;
	kv_framing_init(&whole, !(seed & 1));
	n = run(&whole, data, 0, len);
	must(whole.state >= KV_FRAMING_STATUS && whole.state <= KV_FRAMING_DONE);
	if (kv_framing_done(&whole))
		must(whole.status >= 200 && whole.status < 600);
	if (kv_framing_until_close(&whole))
		must(whole.flags & KV_FRAMING_CLOSE);
	if (whole.state == KV_FRAMING_BODY || whole.state == KV_FRAMING_DATA)
		must(whole.left);

	kv_framing_init(&pieces, !(seed & 1));
	must(place(&pieces, data, 0, len, &once) == n);
	must(!memcmp(&whole, &pieces, sizeof(whole)));
	must(once || whole.state < KV_FRAMING_CHUNK || kv_framing_broken(&whole));

	kv_framing_init(&pieces, whole.flags & KV_FRAMING_HEAD);
	for (at = 0; at < len; at += cut) {
		seed = seed * 1103515245 + 12345;
		cut = 1 + (seed >> 16) % ((seed >> 8) % 3 ? 9 : 150);
		if (cut > len - at)
			cut = len - at;
		total += place(&pieces, data, at, at + cut, &cuts);
	}
	must(total == n && cuts == once);
	must(!memcmp(&whole, &pieces, sizeof(whole)));

	kv_framing_init(&bytes, whole.flags & KV_FRAMING_HEAD);
	total = 0;
	for (at = 0; at < len; at++)
		total += run(&bytes, data, at, at + 1);
	must(total == n);
	must(!memcmp(&whole, &bytes, sizeof(whole)));
	return 0;
}
