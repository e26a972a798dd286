/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TCP segments, written down and read back: Ethernet, IPv4 or IPv6, TCP with timestamps and SACK,
 * payload. Whoever reads one back recomputes its checksums.
 */
#ifndef KVSTEER_TESTS_PACKET_H
#define KVSTEER_TESTS_PACKET_H

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <stdbool.h>
#include <string.h>

#include <kvsteer/shared.h>

#include "../../tools/common/inet_sum.h"

#define PACKET_MAX 3700 /* test runs take a page with its skb's own needs */

#define FIN 0x01
#define SYN 0x02
#define RST 0x04
#define PSH 0x08
#define ACK 0x10
#define ECE 0x40
#define CWR 0x80

/* On the wire: local sends, peer receives. Numbers are in host order, addresses and ports are not.
 */
struct packet {
	struct kv_tuple path;
	__u32 seq;
	__u32 ack;
	__u16 window;
	__u8 flags;
	__u8 tos; /* with the ECN bits */
	bool timestamps;
	__u32 tsval;
	__u32 tsecr;
	__u32 n_sack; /* blocks */
	__u32 sack[6];
	bool fragment; /* IPv4: more fragments follow */
	bool loopback; /* Ethernet addresses of lo; else the sender's is another host's */
	const void *data;
	__u32 len;
};

static inline bool packet_is_ipv4(const struct packet *p)
{
	return !p->path.local[0] && !p->path.local[1] && p->path.local[2] == htonl(0xffff);
}

/* ---- checksums (RFC 1071) ------------------------------------------------------------ */

/* Of pseudo header and segment. A segment whose checksum field is right sums up to 0xffff. */
static inline __u32 packet_tcp_sum(const struct packet *p, const void *tcp, __u32 len)
{
	__u32 sum = IPPROTO_TCP + len;

	if (packet_is_ipv4(p)) {
		sum = inet_sum(&p->path.local[3], 4, sum);
		sum = inet_sum(&p->path.peer[3], 4, sum);
	} else {
		sum = inet_sum(p->path.local, 16, sum);
		sum = inet_sum(p->path.peer, 16, sum);
	}
	return inet_sum(tcp, len, sum);
}

/* ---- writing ------------------------------------------------------------------------- */

static inline __u32 packet_options(const struct packet *p, __u8 *o)
{
	__u32 n = 0, word;

	if (p->timestamps) {
		memcpy(o, "\x01\x01\x08\x0a", 4);
		word = htonl(p->tsval);
		memcpy(o + 4, &word, 4);
		word = htonl(p->tsecr);
		memcpy(o + 8, &word, 4);
		n = 12;
	}
	if (p->n_sack) {
		memcpy(o + n, "\x01\x01\x05", 3);
		o[n + 3] = 2 + 8 * p->n_sack;
		n += 4;
		for (__u32 i = 0; i < 2 * p->n_sack; i++, n += 4) {
			word = htonl(p->sack[i]);
			memcpy(o + n, &word, 4);
		}
	}
	return n;
}

/* Writes the IP header; returns its length. */
static inline __u32 packet_ip(const struct packet *p, __u8 *at, __u32 tcp_len)
{
	if (packet_is_ipv4(p)) {
		struct iphdr ip = {
			.version = 4,
			.ihl = 5,
			.tos = p->tos,
			.tot_len = htons(sizeof(ip) + tcp_len),
			.id = htons(0x1234),
			.frag_off = htons(p->fragment ? 0x2000 : 0x4000),
			.ttl = 64,
			.protocol = IPPROTO_TCP,
			.saddr = p->path.local[3],
			.daddr = p->path.peer[3],
		};

		ip.check = htons(~inet_sum(&ip, sizeof(ip), 0));
		memcpy(at, &ip, sizeof(ip));
		return sizeof(ip);
	}
	struct ipv6hdr ip6 = {
		.version = 6,
		.priority = p->tos >> 4,
		.flow_lbl = {p->tos << 4, 0x12, 0x34},
		.payload_len = htons(tcp_len),
		.nexthdr = IPPROTO_TCP,
		.hop_limit = 64,
	};

	memcpy(&ip6.saddr, p->path.local, 16);
	memcpy(&ip6.daddr, p->path.peer, 16);
	memcpy(at, &ip6, sizeof(ip6));
	return sizeof(ip6);
}

/* Returns the length of the frame. */
static inline __u32 packet_write(const struct packet *p, __u8 buf[PACKET_MAX])
{
	__u8 options[40];
	__u32 n = packet_options(p, options), len = sizeof(struct tcphdr) + n + p->len, at;
	struct ethhdr eth = {
		.h_proto = htons(packet_is_ipv4(p) ? ETH_P_IP : ETH_P_IPV6),
	};
	struct tcphdr tcp = {
		.source = p->path.local_port,
		.dest = p->path.peer_port,
		.seq = htonl(p->seq),
		.ack_seq = htonl(p->ack),
		.doff = (sizeof(tcp) + n) / 4,
		.window = htons(p->window),
	};

	/* to the device that test runs come in by, lo, whose address is zero */
	if (!p->loopback)
		memcpy(eth.h_source, "\x02kvgw\x02", ETH_ALEN);
	((__u8 *)&tcp)[13] = p->flags;
	memcpy(buf, &eth, sizeof(eth));
	at = sizeof(eth) + packet_ip(p, buf + sizeof(eth), len);
	memcpy(buf + at, &tcp, sizeof(tcp));
	memcpy(buf + at + sizeof(tcp), options, n);
	if (p->len)
		memcpy(buf + at + sizeof(tcp) + n, p->data, p->len);
	tcp.check = htons(~packet_tcp_sum(p, buf + at, len));
	memcpy(buf + at, &tcp, sizeof(tcp));
	return at + len;
}

/* ---- reading ------------------------------------------------------------------------- */

static inline const char *packet_read_options(struct packet *p, const __u8 *o, __u32 n)
{
	__u32 word;

	for (__u32 i = 0; i < n && o[i];) {
		__u32 len = o[i] == 1 ? 1 : i + 1 < n ? o[i + 1] : 0;

		if (!len || len > n - i)
			return "broken TCP options";
		if (o[i] == 8 && len == 10) {
			p->timestamps = true;
			memcpy(&word, o + i + 2, 4);
			p->tsval = ntohl(word);
			memcpy(&word, o + i + 6, 4);
			p->tsecr = ntohl(word);
		} else if (o[i] == 5 && len >= 10 && len <= 26) {
			p->n_sack = (len - 2) / 8;
			for (__u32 k = 0; k < 2 * p->n_sack; k++) {
				memcpy(&word, o + i + 2 + 4 * k, 4);
				p->sack[k] = ntohl(word);
			}
		}
		i += len;
	}
	return NULL;
}

static inline const char *packet_read_ip(struct packet *p, const __u8 *at, __u32 len,
					 __u32 *ret_header)
{
	struct ipv6hdr ip6;
	struct iphdr ip;

	if (at[0] == 0x45) {
		memcpy(&ip, at, sizeof(ip));
		p->path.local[2] = p->path.peer[2] = htonl(0xffff);
		p->path.local[3] = ip.saddr;
		p->path.peer[3] = ip.daddr;
		p->tos = ip.tos;
		*ret_header = sizeof(ip);
		if (inet_sum(&ip, sizeof(ip), 0) != 0xffff)
			return "wrong IPv4 header checksum";
		return ntohs(ip.tot_len) == len ? NULL : "wrong IPv4 total length";
	}
	memcpy(&ip6, at, sizeof(ip6));
	memcpy(p->path.local, &ip6.saddr, 16);
	memcpy(p->path.peer, &ip6.daddr, 16);
	p->tos = ip6.priority << 4 | ip6.flow_lbl[0] >> 4;
	*ret_header = sizeof(ip6);
	if (ip6.version != 6)
		return "neither IPv4 nor IPv6";
	return ntohs(ip6.payload_len) + sizeof(ip6) == len ? NULL : "wrong IPv6 payload length";
}

/* What is wrong with a frame, or NULL. data points into it. */
static inline const char *packet_read(struct packet *p, const __u8 *buf, __u32 len)
{
	__u32 header, at = sizeof(struct ethhdr), n;
	const char *wrong;
	struct tcphdr tcp;

	memset(p, 0, sizeof(*p));
	if (len < at + sizeof(struct iphdr) + sizeof(tcp))
		return "too short";
	p->loopback = !memcmp(buf, "\0\0\0\0\0\0\0\0\0\0\0\0", 12);
	wrong = packet_read_ip(p, buf + at, len - at, &header);
	if (wrong)
		return wrong;
	at += header;
	memcpy(&tcp, buf + at, sizeof(tcp));
	p->path.local_port = tcp.source;
	p->path.peer_port = tcp.dest;
	p->seq = ntohl(tcp.seq);
	p->ack = ntohl(tcp.ack_seq);
	p->window = ntohs(tcp.window);
	p->flags = buf[at + 13];
	n = tcp.doff * 4;
	if (n < sizeof(tcp) || n > len - at)
		return "wrong TCP data offset";
	if (packet_tcp_sum(p, buf + at, len - at) != 0xffff)
		return "wrong TCP checksum";
	p->data = buf + at + n;
	p->len = len - at - n;
	return packet_read_options(p, buf + at + sizeof(tcp), n - sizeof(tcp));
}

#endif /* KVSTEER_TESTS_PACKET_H */
