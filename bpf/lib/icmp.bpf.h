/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Path MTU discovery (RFC 1191, RFC 8201) across the splice. "Fragmentation needed" and "packet too
 * big" quote the segment that was too big as it left the gateway. Of a lent pair the other side
 * sent it, so that gets the message, about the segment as it knows it. Of a connection that is not
 * lent the home socket did: the quoted sequence number is shifted to its own.
 *
 * Receivers check the quoted number against what they have in flight (RFC 5927); so it need not be
 * checked here.
 */
#ifndef KVSTEER_ICMP_BPF_H
#define KVSTEER_ICMP_BPF_H

#include "pair.bpf.h"

#define KV_IPPROTO_ICMP 1
#define KV_IPPROTO_ICMPV6 58
#define KV_ICMP_FRAG_NEEDED 0x0304 /* type and code */
#define KV_ICMPV6_TOO_BIG 0x0200
#define KV_ICMP_LEN 8

/* What every quote holds of TCP (RFC 792). */
struct kv_quoted_tcp {
	__be16 source;
	__be16 dest;
	__be32 seq;
};

struct kv_quote4 {
	__u16 pad;
	struct ethhdr eth;
	struct iphdr ip;
	__be16 kind;
	__u16 check;
	__be32 mtu;
	struct iphdr quoted;
	struct kv_quoted_tcp tcp;
};

struct kv_quote6 {
	__u16 pad;
	struct ethhdr eth;
	struct ipv6hdr ip;
	__be16 kind;
	__u16 check;
	__be32 mtu;
	struct ipv6hdr quoted;
	struct kv_quoted_tcp tcp;
};

/* 0: p is the quoted segment, as it left: key, seq, and its place. */
static __noinline int kv_quote_parse(struct __sk_buff *skb, struct kv_packet *p)
{
	if (skb->protocol == kv_htons(KV_ETH_P_IP)) {
		struct kv_quote4 q;

		if (kv_load_headers(skb, &q) || *(__u8 *)&q.ip != 0x45 ||
		    q.ip.protocol != KV_IPPROTO_ICMP || q.kind != kv_htons(KV_ICMP_FRAG_NEEDED) ||
		    *(__u8 *)&q.quoted != 0x45 || q.quoted.protocol != KV_IPPROTO_TCP)
			return -1;
		p->ipv6 = 0;
		p->l4 = KV_ETH_LEN + 2 * sizeof(struct iphdr) + KV_ICMP_LEN;
		kv_mapped(p->key.local, q.quoted.saddr);
		kv_mapped(p->key.peer, q.quoted.daddr);
		p->key.local_port = q.tcp.source;
		p->key.peer_port = q.tcp.dest;
		p->seq = kv_ntohl(q.tcp.seq);
		return 0;
	}
	if (skb->protocol == kv_htons(KV_ETH_P_IPV6)) {
		struct kv_quote6 q;

		if (kv_load_headers(skb, &q) || q.ip.nexthdr != KV_IPPROTO_ICMPV6 ||
		    q.kind != kv_htons(KV_ICMPV6_TOO_BIG) || q.quoted.nexthdr != KV_IPPROTO_TCP)
			return -1;
		p->ipv6 = 1;
		p->l4 = KV_ETH_LEN + 2 * sizeof(struct ipv6hdr) + KV_ICMP_LEN;
		__builtin_memcpy(p->key.local, q.quoted.saddr, 16);
		__builtin_memcpy(p->key.peer, q.quoted.daddr, 16);
		p->key.local_port = q.tcp.source;
		p->key.peer_port = q.tcp.dest;
		p->seq = kv_ntohl(q.tcp.seq);
		return 0;
	}
	return -1;
}

/* Replaces len bytes at off, in the message's body; its checksum follows. A constant len. */
KV_INLINE int kv_quote_store(struct __sk_buff *skb, __u32 check, __u32 off, void *old, void *new,
			     __u32 len)
{
	return bpf_skb_store_bytes(skb, off, new, len, 0) ||
			       bpf_l4_csum_replace(skb, check, 0,
						   bpf_csum_diff(old, len, new, len, 0), 0)
		       ? -1
		       : 0;
}

/* The outer addresses and the quoted ones, of IPv4. to is as the quoted segment's sender sees the
 * connection: its own side is to->peer. */
KV_INLINE int kv_quote_readdress4(struct __sk_buff *skb, const struct kv_packet *p, __u32 check,
				  const struct kv_tuple *to)
{
	__u32 outer = KV_ETH_LEN + offsetof(struct iphdr, saddr), old[2], new[2];
	__u32 ip_check = KV_ETH_LEN + offsetof(struct iphdr, check);
	__u32 quoted = p->l4 - sizeof(struct iphdr);
	__s64 diff;

	if (bpf_skb_load_bytes(skb, outer, old, sizeof(old)))
		return -1;
	new[0] = to->local[3];
	new[1] = to->peer[3];
	diff = bpf_csum_diff(old, sizeof(old), new, sizeof(new), 0);
	if (bpf_skb_store_bytes(skb, outer, new, sizeof(new), 0) ||
	    bpf_l3_csum_replace(skb, ip_check, 0, diff, 0))
		return -1;
	/* The quoted header's own checksum is left as it is: only its sender could have a use for
	 * it, and does not look (RFC 5927, section 4.1). */
	old[0] = p->key.local[3];
	old[1] = p->key.peer[3];
	new[0] = to->peer[3];
	new[1] = to->local[3];
	return kv_quote_store(skb, check, quoted + offsetof(struct iphdr, saddr), old, new,
			      sizeof(old));
}

KV_INLINE int kv_quote_readdress6(struct __sk_buff *skb, const struct kv_packet *p, __u32 check,
				  const struct kv_tuple *to)
{
	__u32 outer = KV_ETH_LEN + offsetof(struct ipv6hdr, saddr), old[8], new[8];
	__u32 quoted = p->l4 - sizeof(struct ipv6hdr);

	if (bpf_skb_load_bytes(skb, outer, old, sizeof(old)))
		return -1;
	__builtin_memcpy(new, to->local, 16);
	__builtin_memcpy(new + 4, to->peer, 16);
	/* ICMPv6 sums its addresses too (RFC 4443, section 2.3). */
	if (bpf_skb_store_bytes(skb, outer, new, sizeof(new), 0) ||
	    bpf_l4_csum_replace(skb, check, 0, bpf_csum_diff(old, sizeof(old), new, sizeof(new), 0),
				BPF_F_PSEUDO_HDR))
		return -1;
	__builtin_memcpy(old, p->key.local, 16);
	__builtin_memcpy(old + 4, p->key.peer, 16);
	__builtin_memcpy(new, to->peer, 16);
	__builtin_memcpy(new + 4, to->local, 16);
	return kv_quote_store(skb, check, quoted + offsetof(struct ipv6hdr, saddr), old, new,
			      sizeof(old));
}

/* The message becomes one about a segment of another connection, or (to NULL) about another
 * position of the same. */
static __noinline int kv_quote_rewrite(struct __sk_buff *skb, const struct kv_packet *p,
				       __u32 seq_delta, const struct kv_tuple *to)
{
	__u32 ip_len = p->ipv6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);
	__u32 check = p->l4 - ip_len - KV_ICMP_LEN + 2;
	struct kv_quoted_tcp old = {
		.source = p->key.local_port,
		.dest = p->key.peer_port,
		.seq = kv_htonl(p->seq),
	};
	struct kv_quoted_tcp new = old;

	new.seq = kv_htonl(p->seq + seq_delta);
	if (to) {
		new.source = to->peer_port;
		new.dest = to->local_port;
		if (p->ipv6 ? kv_quote_readdress6(skb, p, check, to)
			    : kv_quote_readdress4(skb, p, check, to))
			return -1;
	}
	return kv_quote_store(skb, check, p->l4, &old, &new, sizeof(old));
}

KV_INLINE int kv_quote_home(struct __sk_buff *skb, const struct kv_packet *p, __u32 tx_bypass)
{
	if (tx_bypass && kv_quote_rewrite(skb, p, -tx_bypass, NULL))
		return TC_ACT_SHOT;
	return TC_ACT_OK;
}

KV_INLINE int kv_quote_send(struct __sk_buff *skb, const struct kv_packet *p, __u32 seq_delta,
			    const struct kv_tuple *to, __u32 ifindex, __u32 path)
{
	if (kv_quote_rewrite(skb, p, seq_delta, to)) {
		kv_bump(KV_CNT_drop_rewrite);
		return TC_ACT_SHOT;
	}
	kv_bump(KV_CNT_icmp_passed_on);
	return kv_send(skb, ifindex, path);
}

/* A segment to a client was too big: of its backend, or of its home socket. */
static __noinline int kv_quote_client(struct __sk_buff *skb, const struct kv_packet *p)
{
	struct kv_client *c = bpf_map_lookup_elem(&kv_clients, &p->key);
	__u32 tx = 0, slot = KV_NONE, delta = 0;
	struct kv_upstream *u;
	struct kv_backend *b;
	struct kv_tuple to;

	if (!c)
		return TC_ACT_OK;
	bpf_spin_lock(&c->lock);
	if (kv_tuple_equal(&c->key, &p->key)) {
		tx = c->tx_bypass;
		if (c->state == KV_CLIENT_LENT) {
			slot = c->pair.slot;
			delta = c->pair.to_backend_ack;
		}
	}
	bpf_spin_unlock(&c->lock);
	u = kv_slot(slot);
	b = u ? kv_world_backend(u->backend) : NULL;
	if (!b)
		return kv_quote_home(skb, p, tx);
	to = u->key;
	return kv_quote_send(skb, p, delta, &to, b->ifindex, b->path);
}

static __noinline int kv_quote_upstream(struct __sk_buff *skb, const struct kv_packet *p,
					__u32 slot)
{
	__u32 delta = 0, gen, ifindex = 0, path = 0;
	struct kv_upstream *u = kv_slot(slot);
	struct kv_tuple to = {};
	struct kv_client *c;

	if (!u)
		return TC_ACT_OK;
	if (u->state != KV_UP_LENT)
		return kv_quote_home(skb, p, u->tx_bypass);
	gen = u->gen;
	c = bpf_map_lookup_elem(&kv_clients, &u->client);
	if (!c)
		return TC_ACT_OK;
	bpf_spin_lock(&c->lock);
	if (c->state == KV_CLIENT_LENT && c->pair.slot == slot && c->pair.gen == gen) {
		delta = -c->pair.to_backend_seq;
		ifindex = c->ifindex;
		path = c->path;
		to = c->key;
	}
	bpf_spin_unlock(&c->lock);
	return to.peer_port ? kv_quote_send(skb, p, delta, &to, ifindex, path) : TC_ACT_OK;
}

#endif /* KVSTEER_ICMP_BPF_H */
