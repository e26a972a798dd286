/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Is a segment what its sender sent? The home socket would look, and drop it; what passes by it
 * must be looked at here, or a flipped bit in an answer's framing, an ack or a flag is believed,
 * while its receiver drops the segment and the right one comes too late.
 *
 * Interfaces that verify checksums say so, and that costs nothing. A sum that is not complete yet
 * (CHECKSUM_PARTIAL: this host's own links) holds the pseudo header's only. The others are added
 * up.
 */
#ifndef KVSTEER_CHECKSUM_BPF_H
#define KVSTEER_CHECKSUM_BPF_H

#include "packet.bpf.h"

/* ---- sums over a packet's bytes ------------------------------------------------------ */

#define KV_SUM_STEP 128

struct kv_sum {
	struct __sk_buff *skb;
	__u32 off;
	__u32 end;
	__s64 sum;
};

static long kv_sum_step(__u32 i, void *ctx)
{
	struct kv_sum *s = ctx;
	__u8 bytes[KV_SUM_STEP] = {};
	__u32 off = s->off + i * KV_SUM_STEP;
	__u64 n;

	if (off >= s->end)
		return 1;
	n = s->end - off;
	if (n > KV_SUM_STEP)
		n = KV_SUM_STEP;
	asm volatile("" : "+r"(n));
	/* Signed, and two checks for two bounds: see kv_source_load. */
	if (n > KV_SUM_STEP)
		return 1;
	asm volatile("" : "+r"(n));
	if ((__s64)n <= 0 || bpf_skb_load_bytes(s->skb, off, bytes, n))
		return 1;
	s->sum = bpf_csum_diff(NULL, 0, (__be32 *)bytes, sizeof(bytes), s->sum);
	return 0;
}

/* Adds the bytes from off up to end, by 16-bit words from off on (RFC 1071), not folded. */
KV_INLINE __u32 kv_sum_add(struct __sk_buff *skb, __u32 off, __u32 end, __u32 sum)
{
	struct kv_sum s = {.skb = skb, .off = off, .end = end, .sum = sum};

	kv_loop(65536 / KV_SUM_STEP, kv_sum_step, &s);
	return s.sum;
}

KV_INLINE __u16 kv_sum_fold(__u64 sum)
{
	sum = (sum & 0xffff) + (sum >> 16 & 0xffff);
	return (sum & 0xffff) + (sum >> 16);
}

/* ---- the check ----------------------------------------------------------------------- */

/* True: wrong. */
KV_GLOBAL int kv_checksum_bad(struct __sk_buff *skb, const struct kv_packet *p)
{
	__u32 pseudo[10], sum;
	__u16 check;

	if (!p || bpf_csum_level(skb, 0 /* QUERY */) >= 0 ||
	    bpf_skb_load_bytes(skb, p->l4 + offsetof(struct tcphdr, check), &check, 2))
		return 0;
	/* The prefix of mapped IPv4 addresses is 0xffff, which adds nothing. */
	__builtin_memcpy(pseudo, p->key.local, 16);
	__builtin_memcpy(pseudo + 4, p->key.peer, 16);
	pseudo[8] = kv_htonl(KV_IPPROTO_TCP);
	pseudo[9] = kv_htonl(p->header_len + p->payload_len);
	sum = bpf_csum_diff(NULL, 0, pseudo, sizeof(pseudo), 0);
	if (skb->gso_size || kv_sum_fold(sum) == check)
		return 0;
	sum = kv_sum_add(skb, p->l4, kv_payload_off(p) + p->payload_len, sum);
	return kv_sum_fold(sum) != 0xffff;
}

#endif /* KVSTEER_CHECKSUM_BPF_H */
