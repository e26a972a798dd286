/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Rewriting one segment. Two uses:
 *  - a connection that is not lent: sequence numbers between wire and home socket, nothing else;
 *  - a lent pair: one side's segment becomes the other's, addresses and all.
 *
 * Checksums: fields of the TCP header are replaced without, addresses with BPF_F_PSEUDO_HDR, so
 * that both complete checksums and CHECKSUM_PARTIAL ones (veth, virtio: only the pseudo header is
 * summed) stay right.
 */
#ifndef KVSTEER_REWRITE_BPF_H
#define KVSTEER_REWRITE_BPF_H

#include <kvsteer/seq.h>
#include "checksum.bpf.h"
#include "maps.bpf.h"
#include "packet.bpf.h"

/* Marks packets of ours that pass a hook again; of this host only, skb->tc_index is not on the
 * wire. */
#define KV_TC_SPLICED 0x6b76  /* spliced, leaving by tc egress: let through */
#define KV_TC_HOME_ACK 0x6b77 /* a copy of a segment, whose ack alone is for the home socket */

struct kv_rewrite {
	__u32 seq_delta;
	__u32 ack_delta; /* also of SACK edges */
	__u32 tsoff;	 /* of the home socket on the side it goes to */
	__u32 tsecr;
	__u32 echo; /* home: the peer's latest TSval, which may have passed while lent; 0 = none */
	__u16 window;
	__u8 flags;	 /* TCP flags to send */
	__u8 timestamps; /* 1: regenerate TSval, echo tsecr */
	__u8 clear_ecn;
	__u8 addresses;	    /* 1: to is where it goes */
	struct kv_tuple to; /* local: source, peer: destination, as the segment leaves */
};

struct kv_header_pair {
	__u8 old[64];
	__u8 new[64];
};

/* Header work areas; tc programs do not interrupt each other on one CPU. */
KV_MAP(kv_headers, BPF_MAP_TYPE_PERCPU_ARRAY, 1, __u32, struct kv_header_pair, 0);

/* Source and destination stand together in both IP headers: 8 or 32 bytes at the end of it. */
KV_INLINE int kv_rewrite_addresses(struct __sk_buff *skb, const struct kv_packet *p,
				   const struct kv_rewrite *r, struct kv_header_pair *h)
{
	__u32 len = p->ipv6 ? 32 : 8, *old = (__u32 *)h->old, *new = (__u32 *)h->new;
	__s64 diff;

	if (p->ipv6) {
		__builtin_memcpy(old, p->key.peer, 16); /* ingress: the peer is the source */
		__builtin_memcpy(old + 4, p->key.local, 16);
		__builtin_memcpy(new, r->to.local, 16);
		__builtin_memcpy(new + 4, r->to.peer, 16);
	} else {
		old[0] = p->key.peer[3];
		old[1] = p->key.local[3];
		new[0] = r->to.local[3];
		new[1] = r->to.peer[3];
	}
	diff = bpf_csum_diff(old, len, new, len, 0);
	if (bpf_skb_store_bytes(skb, p->l4 - len, new, len, 0))
		return -1;
	if (!p->ipv6 &&
	    bpf_l3_csum_replace(skb, KV_ETH_LEN + offsetof(struct iphdr, check), 0, diff, 0))
		return -1;
	return bpf_l4_csum_replace(skb, p->l4 + offsetof(struct tcphdr, check), 0, diff,
				   BPF_F_PSEUDO_HDR);
}

/* The first four bytes of either IP header hold its ECN bits; rare, so it costs its own pass. */
static __noinline int kv_clear_ip_ecn(struct __sk_buff *skb, const struct kv_packet *p)
{
	__u32 old, new;

	if (bpf_skb_load_bytes(skb, KV_ETH_LEN, &old, sizeof(old)))
		return -1;
	new = old & ~(p->ipv6 ? kv_htonl(0x00300000) : kv_htonl(0x00030000));
	if (!p->ipv6 && bpf_l3_csum_replace(skb, KV_ETH_LEN + offsetof(struct iphdr, check), 0,
					    bpf_csum_diff(&old, 4, &new, 4, 0), 0))
		return -1;
	return bpf_skb_store_bytes(skb, KV_ETH_LEN, &new, sizeof(new), 0);
}

KV_GLOBAL int kv_rewrite_apply(struct __sk_buff *skb, const struct kv_packet *p,
			       const struct kv_rewrite *r)
{
	__u32 zero = 0, len;
	struct kv_tcp_options options;
	struct kv_header_pair *h = bpf_map_lookup_elem(&kv_headers, &zero);
	struct tcphdr *tcp;
	__s64 diff;

	if (!h || !p || !r)
		return -1;
	len = p->header_len;
	asm volatile("%0 &= 63" : "+r"(len)); /* clang forgets the bound it has checked */
	if (len < 20 || bpf_skb_load_bytes(skb, p->l4, h->old, len))
		return -1;
	__builtin_memcpy(h->new, h->old, 64);
	tcp = (struct tcphdr *)h->new;
	if (r->addresses) {
		tcp->source = r->to.local_port;
		tcp->dest = r->to.peer_port;
	}
	tcp->seq = kv_htonl(p->seq + r->seq_delta);
	tcp->ack_seq = kv_htonl(p->ack + r->ack_delta);
	tcp->window = kv_htons(r->window);
	tcp->flags = r->flags;
	if (len > 20) {
		kv_tcp_options_scan(h->new + 20, len - 20, &options);
		if (options.odd)
			return -1;
		if (r->timestamps)
			kv_tcp_ts_set(h->new + 20, &options, kv_tsval(p->now, r->tsoff), r->tsecr);
		else if (r->echo)
			kv_tcp_ts_echo(h->new + 20, &options, r->echo);
		kv_tcp_sack_add(h->new + 20, &options, r->ack_delta);
	}
	diff = bpf_csum_diff((__be32 *)h->old, len, (__be32 *)h->new, len, 0);
	if (bpf_skb_store_bytes(skb, p->l4, h->new, len, 0) ||
	    bpf_l4_csum_replace(skb, p->l4 + offsetof(struct tcphdr, check), 0, diff, 0))
		return -1;
	if (r->addresses && kv_rewrite_addresses(skb, p, r, h))
		return -1;
	return r->clear_ecn && p->ecn ? kv_clear_ip_ecn(skb, p) : 0;
}

/* A segment between wire and home socket of a connection that is not lent. */
static __noinline int kv_rewrite_home(struct __sk_buff *skb, const struct kv_packet *p,
				      __u32 seq_delta, __u32 ack_delta, __u32 echo)
{
	struct kv_rewrite r = {
		.echo = echo,
		.seq_delta = seq_delta,
		.ack_delta = ack_delta,
		.window = p->window,
		.flags = p->flags,
	};

	if (!(seq_delta | ack_delta))
		return 0;
	return kv_rewrite_apply(skb, p, &r);
}

/* Sends a rewritten segment on its way. On a local path (a process of this host) it has to enter by
 * lo. If it comes from there, it simply goes on, with the route it has. Else it is redirected, as
 * if received there; that runs eth_type_trans, so both addresses must be zero, lo's own. */
KV_INLINE int kv_send(struct __sk_buff *skb, __u32 ifindex, __u32 path)
{
	if (path & KV_PATH_LOCAL) {
		__u8 none[12] = {};

		if (skb->ifindex == kv_config.lo_ifindex)
			return TC_ACT_OK;
		if (bpf_skb_store_bytes(skb, 0, none, sizeof(none), 0))
			return TC_ACT_SHOT;
		return bpf_redirect(kv_config.lo_ifindex, BPF_F_INGRESS);
	}
	skb->tc_index = KV_TC_SPLICED;
	return bpf_redirect_neigh(ifindex, NULL, 0, 0);
}

/* One side's segment becomes the other's and goes there: a TC action. */
KV_INLINE int kv_splice(struct __sk_buff *skb, const struct kv_packet *p,
			const struct kv_rewrite *r, __u32 ifindex, __u32 path, bool to_client)
{
	if (kv_rewrite_apply(skb, p, r)) {
		kv_bump(KV_CNT_drop_rewrite);
		return TC_ACT_SHOT;
	}
	kv_bump(to_client ? KV_CNT_packets_to_client : KV_CNT_packets_to_backend);
	kv_bump_n(to_client ? KV_CNT_bytes_to_client : KV_CNT_bytes_to_backend, p->payload_len);
	return kv_send(skb, ifindex, path);
}

/* ---- cutting a segment short; slow, and rare: a client that pipelines ---- */

/* Cuts the payload to its first keep bytes. Not for GSO packets, whose segmentation would be lost:
 * -1, and the sender's retransmission comes in single segments. */
KV_GLOBAL int kv_trim(struct __sk_buff *skb, struct kv_packet *p, __u32 keep)
{
	__u32 check, off, rest;
	__s64 gone = 0;
	__u16 old, new;
	__u8 odd = 0;

	/* By size: what comes from a virtual machine may not have its segments counted yet. */
	if (!p || (skb->gso_size && p->payload_len > skb->gso_size))
		return -1;
	check = p->l4 + offsetof(struct tcphdr, check);
	off = kv_payload_off(p) + keep;
	old = kv_htons(p->header_len + p->payload_len);
	new = kv_htons(p->header_len + keep);
	/* the sum goes by 16-bit words of the segment: take the odd byte out alone */
	if (keep & 1) {
		__u8 word[4] = {};

		if (bpf_skb_load_bytes(skb, off, &odd, 1))
			return -1;
		word[1] = odd;
		gone = bpf_csum_diff((__be32 *)word, 4, NULL, 0, 0);
		off++;
	}
	rest = kv_sum_add(skb, off, kv_payload_off(p) + p->payload_len, 0);
	gone = bpf_csum_diff(&rest, sizeof(rest), NULL, 0, gone);
	if (bpf_l4_csum_replace(skb, check, 0, gone, 0) ||
	    bpf_l4_csum_replace(skb, check, old, new, BPF_F_PSEUDO_HDR | 2))
		return -1;
	if (p->ipv6) {
		if (bpf_skb_store_bytes(skb, KV_ETH_LEN + offsetof(struct ipv6hdr, payload_len),
					&new, 2, 0))
			return -1;
	} else {
		old = kv_htons(20 + p->header_len + p->payload_len);
		new = kv_htons(20 + p->header_len + keep);
		if (bpf_l3_csum_replace(skb, KV_ETH_LEN + offsetof(struct iphdr, check), old, new,
					2) ||
		    bpf_skb_store_bytes(skb, KV_ETH_LEN + offsetof(struct iphdr, tot_len), &new, 2,
					0))
			return -1;
	}
	if (bpf_skb_change_tail(skb, kv_payload_off(p) + keep, 0))
		return -1;
	p->payload_len = keep;
	kv_bump(KV_CNT_trimmed);
	return 0;
}

#endif /* KVSTEER_REWRITE_BPF_H */
