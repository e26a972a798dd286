/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A TCP segment as we look at it: Ethernet, IPv4 without options or IPv6 without extension headers.
 * Others are recognised (odd), so that none reaches a socket with numbers that are not its own.
 */
#ifndef KVSTEER_PACKET_BPF_H
#define KVSTEER_PACKET_BPF_H

#include "maps.bpf.h"

#define KV_ETH_LEN 14
#define KV_ETH_P_IP 0x0800
#define KV_ETH_P_IPV6 0x86dd
#define KV_IPPROTO_TCP 6
#define KV_PACKET_OTHERHOST 3

#define KV_FIN 0x01
#define KV_SYN 0x02
#define KV_RST 0x04
#define KV_ACK 0x10
#define KV_ECE 0x40
#define KV_CWR 0x80

#define KV_MAPPED kv_htonl(0xffff) /* word 2 of ::ffff:a.b.c.d */

#define KV_ODD_FRAGMENT 1
#define KV_ODD_OPTIONS 2

struct kv_packet {
	__u64 now;	     /* CLOCK_MONOTONIC, ns: one reading for all that this packet does */
	struct kv_tuple key; /* local is this host's side */
	__u32 seq;
	__u32 ack;
	__u32 l4;	  /* offset of the TCP header */
	__u32 header_len; /* of TCP, with options: 20 … 60 */
	__u32 payload_len;
	__u16 window; /* as in the header */
	__u8 flags;
	__u8 ipv6;
	__u8 odd; /* KV_ODD_*: never rewritten */
	__u8 ecn; /* the IP header's ECN bits */
};

/* How what comes in by this interface is reached: lo's comes from this host. */
KV_INLINE __u32 kv_path_by(__u32 ifindex)
{
	return ifindex == kv_config.lo_ifindex ? KV_PATH_LOCAL : 0;
}

KV_INLINE __u32 kv_payload_off(const struct kv_packet *p)
{
	return p->l4 + p->header_len;
}

/* The pad puts the IP header on a word: the verifier wants stack accesses aligned. */
struct kv_headers4 {
	__u16 pad;
	struct ethhdr eth;
	struct iphdr ip;
	struct tcphdr tcp;
};

struct kv_headers6 {
	__u16 pad;
	struct ethhdr eth;
	struct ipv6hdr ip;
	struct tcphdr tcp;
};

#define kv_load_headers(skb, h) bpf_skb_load_bytes(skb, 0, &(h)->eth, sizeof(*(h)) - 2)

KV_INLINE void kv_mapped(__u32 to[4], __u32 addr4)
{
	to[0] = 0;
	to[1] = 0;
	to[2] = KV_MAPPED;
	to[3] = addr4;
}

/* An IPv4 address. */
KV_INLINE bool kv_is_mapped(const __u32 addr[4])
{
	return !addr[0] && !addr[1] && addr[2] == KV_MAPPED;
}

/* Fills key and what the TCP header says, given the segment's IP payload length. */
KV_INLINE int kv_packet_tcp(struct kv_packet *p, const struct tcphdr *tcp, __u32 ip_payload,
			    bool ingress)
{
	p->now = bpf_ktime_get_ns();
	p->header_len = (tcp->doff >> 4) * 4;
	if (p->header_len < 20 || p->header_len > ip_payload)
		return -1;
	p->payload_len = ip_payload - p->header_len;
	p->seq = kv_ntohl(tcp->seq);
	p->ack = kv_ntohl(tcp->ack_seq);
	p->window = kv_ntohs(tcp->window);
	p->flags = tcp->flags;
	p->key.local_port = ingress ? tcp->dest : tcp->source;
	p->key.peer_port = ingress ? tcp->source : tcp->dest;
	return 0;
}

/* IPv4 options: tcp is read from behind them. */
static __noinline int kv_packet_behind4(struct __sk_buff *skb, struct kv_packet *p, __u8 first,
					struct tcphdr *tcp)
{
	__u32 len = (first & 15) * 4;

	if (first >> 4 != 4 || len < sizeof(struct iphdr))
		return -1;
	p->odd |= KV_ODD_OPTIONS;
	p->l4 = KV_ETH_LEN + len;
	return bpf_skb_load_bytes(skb, p->l4, tcp, sizeof(*tcp));
}

#define KV_IPV6_HEADERS 4 /* extension headers that are looked behind */

/* IPv6 extension headers (RFC 8200, section 4). */
static __noinline int kv_packet_behind6(struct __sk_buff *skb, struct kv_packet *p, __u8 next,
					struct tcphdr *tcp)
{
	__u8 head[2];

	for (int i = 0; i < KV_IPV6_HEADERS && next != KV_IPPROTO_TCP; i++) {
		if (next != 0 && next != 43 && next != 44 && next != 60)
			return -1;
		if (bpf_skb_load_bytes(skb, p->l4, head, sizeof(head)))
			return -1;
		p->odd |= next == 44 ? KV_ODD_FRAGMENT : KV_ODD_OPTIONS;
		p->l4 += next == 44 ? 8 : (head[1] + 1) * 8;
		next = head[0];
	}
	if (next != KV_IPPROTO_TCP)
		return -1;
	return bpf_skb_load_bytes(skb, p->l4, tcp, sizeof(*tcp));
}

/* 0: a TCP segment, p filled. -1: something else, for the stack. */
KV_GLOBAL int kv_packet_parse(struct __sk_buff *skb, struct kv_packet *p, bool ingress)
{
	if (!p)
		return -1;
	/* A tag not yet stripped: the VLAN device on top sees this packet again. */
	if (skb->vlan_present)
		return -1;

	if (skb->protocol == kv_htons(KV_ETH_P_IP)) {
		struct kv_headers4 h;
		__u32 len;

		if (kv_load_headers(skb, &h))
			return -1;
		if (h.ip.protocol != KV_IPPROTO_TCP)
			return -1;
		p->ipv6 = 0;
		p->ecn = h.ip.tos & 3;
		p->odd = h.ip.frag_off & kv_htons(0x3fff) ? KV_ODD_FRAGMENT : 0;
		p->l4 = KV_ETH_LEN + sizeof(struct iphdr);
		if (*(__u8 *)&h.ip != 0x45 && kv_packet_behind4(skb, p, *(__u8 *)&h.ip, &h.tcp))
			return -1;
		kv_mapped(p->key.local, ingress ? h.ip.daddr : h.ip.saddr);
		kv_mapped(p->key.peer, ingress ? h.ip.saddr : h.ip.daddr);
		/* total length 0: BIG TCP, the length is the packet's */
		len = kv_ntohs(h.ip.tot_len);
		if (!len)
			len = skb->len - KV_ETH_LEN;
		if (len < p->l4 - KV_ETH_LEN || len > skb->len - KV_ETH_LEN)
			return -1;
		return kv_packet_tcp(p, &h.tcp, len - (p->l4 - KV_ETH_LEN), ingress);
	}
	if (skb->protocol == kv_htons(KV_ETH_P_IPV6)) {
		struct kv_headers6 h;
		__u32 len, behind;

		if (kv_load_headers(skb, &h))
			return -1;
		p->ipv6 = 1;
		p->ecn = h.ip.flow_lbl[0] >> 4 & 3;
		p->odd = 0;
		p->l4 = KV_ETH_LEN + sizeof(struct ipv6hdr);
		if (h.ip.nexthdr != KV_IPPROTO_TCP &&
		    kv_packet_behind6(skb, p, h.ip.nexthdr, &h.tcp))
			return -1;
		if (ingress) {
			__builtin_memcpy(p->key.local, h.ip.daddr, 16);
			__builtin_memcpy(p->key.peer, h.ip.saddr, 16);
		} else {
			__builtin_memcpy(p->key.local, h.ip.saddr, 16);
			__builtin_memcpy(p->key.peer, h.ip.daddr, 16);
		}
		len = kv_ntohs(h.ip.payload_len);
		if (!len)
			len = skb->len - KV_ETH_LEN - sizeof(struct ipv6hdr);
		behind = p->l4 - KV_ETH_LEN - sizeof(struct ipv6hdr);
		if (len < behind || len - behind > skb->len - p->l4)
			return -1;
		return kv_packet_tcp(p, &h.tcp, len - behind, ingress);
	}
	return -1;
}

KV_INLINE bool kv_tuple_equal(const struct kv_tuple *a, const struct kv_tuple *b)
{
	const __u32 *x = (const __u32 *)a, *y = (const __u32 *)b;
	__u32 differ = 0;

#pragma unroll
	for (int i = 0; i < 9; i++)
		differ |= x[i] ^ y[i];
	return !differ;
}

#endif /* KVSTEER_PACKET_BPF_H */
