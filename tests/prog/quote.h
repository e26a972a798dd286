/* SPDX-License-Identifier: BSD-2-Clause */
/* ICMP errors that quote a TCP segment, written down and read back. */
#ifndef KVSTEER_TESTS_QUOTE_H
#define KVSTEER_TESTS_QUOTE_H

#include "packet.h"

struct quote {
	__u32 from[4];	      /* the router's address … */
	__u32 to[4];	      /* … and whom it tells */
	struct kv_tuple path; /* of the quoted segment: local sent it */
	__u32 seq;
	__u32 mtu;
	bool loopback;
};

struct icmp_header {
	__u8 type;
	__u8 code;
	__be16 check;
	__be32 mtu;
};

#define QUOTED_TCP 8

static inline bool quote_is_ipv4(const struct quote *q)
{
	return !q->to[0] && !q->to[1] && q->to[2] == htonl(0xffff);
}

/* An IP header of either version; returns its length. */
static inline __u32 quote_ip(__u8 *at, const __u32 from[4], const __u32 to[4], int protocol,
			     __u32 len, bool ipv4)
{
	struct iphdr ip = {.version = 4, .ihl = 5, .ttl = 60, .protocol = protocol};
	struct ipv6hdr ip6 = {.version = 6, .hop_limit = 60, .nexthdr = protocol};

	if (ipv4) {
		ip.tot_len = htons(sizeof(ip) + len);
		ip.frag_off = htons(0x4000);
		ip.saddr = from[3];
		ip.daddr = to[3];
		ip.check = htons(~inet_sum(&ip, sizeof(ip), 0));
		memcpy(at, &ip, sizeof(ip));
		return sizeof(ip);
	}
	ip6.payload_len = htons(len);
	memcpy(&ip6.saddr, from, 16);
	memcpy(&ip6.daddr, to, 16);
	memcpy(at, &ip6, sizeof(ip6));
	return sizeof(ip6);
}

static inline __u32 quote_sum(const struct quote *q, const __u8 *icmp, __u32 len)
{
	__u32 sum = 0;

	if (!quote_is_ipv4(q)) {
		sum = inet_sum(q->from, 16, IPPROTO_ICMPV6 + len);
		sum = inet_sum(q->to, 16, sum);
	}
	return inet_sum(icmp, len, sum);
}

static inline __u32 quote_write(const struct quote *q, __u8 buf[PACKET_MAX])
{
	bool ipv4 = quote_is_ipv4(q);
	struct icmp_header icmp = {
		.type = ipv4 ? 3 : 2, .code = ipv4 ? 4 : 0, .mtu = htonl(q->mtu)};
	__u32 seq = htonl(q->seq), len = sizeof(icmp) + (ipv4 ? 20 : 40) + QUOTED_TCP, at;
	struct ethhdr eth = {.h_proto = htons(ipv4 ? ETH_P_IP : ETH_P_IPV6)};
	__u8 *body;

	memcpy(eth.h_source, "\x02kvgw\x02", ETH_ALEN);
	memcpy(buf, &eth, sizeof(eth));
	body = buf + sizeof(eth);
	body += quote_ip(body, q->from, q->to, ipv4 ? IPPROTO_ICMP : IPPROTO_ICMPV6, len, ipv4);
	memcpy(body, &icmp, sizeof(icmp));
	at = sizeof(icmp);
	at += quote_ip(body + at, q->path.local, q->path.peer, IPPROTO_TCP, 1480, ipv4);
	memcpy(body + at, &q->path.local_port, 2);
	memcpy(body + at + 2, &q->path.peer_port, 2);
	memcpy(body + at + 4, &seq, 4);
	icmp.check = htons(~quote_sum(q, body, len));
	memcpy(body, &icmp, sizeof(icmp));
	return body + len - buf;
}

static inline void quote_addresses(const __u8 *ip, bool ipv4, __u32 from[4], __u32 to[4])
{
	if (!ipv4) {
		memcpy(from, ip + 8, 16);
		memcpy(to, ip + 24, 16);
		return;
	}
	from[0] = from[1] = to[0] = to[1] = 0;
	from[2] = to[2] = htonl(0xffff);
	memcpy(&from[3], ip + 12, 4);
	memcpy(&to[3], ip + 16, 4);
}

/* What is wrong with a frame, or NULL. */
static inline const char *quote_read(struct quote *q, const __u8 *buf, __u32 len)
{
	const __u8 *ip = buf + sizeof(struct ethhdr), *icmp, *quoted, *tcp;
	bool ipv4 = ip[0] == 0x45;
	__u32 header = ipv4 ? 20 : 40, word;

	memset(q, 0, sizeof(*q));
	q->loopback = !memcmp(buf, "\0\0\0\0\0\0\0\0\0\0\0\0", 12);
	icmp = ip + header;
	quoted = icmp + sizeof(struct icmp_header);
	tcp = quoted + header;
	if (tcp + QUOTED_TCP != buf + len)
		return "wrong length";
	if (ipv4 && inet_sum(ip, header, 0) != 0xffff)
		return "wrong IPv4 header checksum";
	quote_addresses(ip, ipv4, q->from, q->to);
	quote_addresses(quoted, ipv4, q->path.local, q->path.peer);
	memcpy(&q->path.local_port, tcp, 2);
	memcpy(&q->path.peer_port, tcp + 2, 2);
	memcpy(&word, tcp + 4, 4);
	q->seq = ntohl(word);
	memcpy(&word, icmp + 4, 4);
	q->mtu = ntohl(word);
	return quote_sum(q, icmp, tcp + QUOTED_TCP - icmp) == 0xffff ? NULL : "wrong ICMP checksum";
}

#endif /* KVSTEER_TESTS_QUOTE_H */
