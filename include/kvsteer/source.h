/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where the parsers' bytes come from: a buffer on the host, an skb in BPF.
 *
 * A ctx pointer cannot be stored in a map value, so in BPF a kv_source lives on the stack and
 * is not changed while a loop runs; everything that changes lives in map memory.
 */
#ifndef KVSTEER_SOURCE_H
#define KVSTEER_SOURCE_H

#include "types.h"

#define KV_LOAD_MAX 256
#define KV_STASH_BYTES 65536 /* of a stash: a power of two */

struct kv_source {
#ifdef __bpf__
	struct __sk_buff *skb;
	const __u8 *stash; /* or, where given, a stash (bpf/lib/stash.bpf.h) */
	__u32 base;	   /* offset of byte 0 there */
#else
	const __u8 *data;
#endif
	__u32 len;
};

/* Copies n bytes (1 … max, a constant: the room at dst) at off; -1 if they are not all there. */
KV_INLINE int kv_source_load(const struct kv_source *s, __u32 off, void *dst, __u32 n, __u32 max)
{
#ifdef __bpf__
	__u64 size = n;

	/* Each check is of this very register: the verifier must see both bounds. Without the first
	 * barrier the compiler checks n, of which size is a 32-bit copy (6.1 forgets its bounds);
	 * without the second it merges the two checks into one on size - 1. */
	asm volatile("" : "+r"(size));
	if (size > max)
		return -1;
	asm volatile("" : "+r"(size));
	/* Signed, for clang makes "== 0" of an unsigned test and 6.1's verifier learns no lower
	 * bound from that (6.8 does). */
	if ((__s64)size <= 0)
		return -1;
	if (off > s->len || n > s->len - off)
		return -1;
	if (s->stash)
		return bpf_probe_read_kernel(dst, size,
					     s->stash + ((s->base + off) & (KV_STASH_BYTES - 1)))
			       ? -1
			       : 0;
	return bpf_skb_load_bytes(s->skb, s->base + off, dst, size) ? -1 : 0;
#else
	if (n > max || off > s->len || n > s->len - off)
		return -1;
	memcpy(dst, s->data + off, n);
	return 0;
#endif
}

#endif /* KVSTEER_SOURCE_H */
