// SPDX-License-Identifier: BSD-2-Clause
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/tcp.h>
#include <string.h>

#include "cut.h"

#define ETH 14

static uint64_t next_random(uint64_t *x)
{
	/* xorshift64* */
	*x ^= *x >> 12;
	*x ^= *x << 25;
	*x ^= *x >> 27;
	return *x * 0x2545f4914f6cdd1dull;
}

static uint32_t sum_bytes(const uint8_t *p, size_t len, uint32_t sum)
{
	size_t i;

	for (i = 0; i + 1 < len; i += 2)
		sum += (uint32_t)p[i] << 8 | p[i + 1];
	return i < len ? sum + ((uint32_t)p[i] << 8) : sum;
}

static uint16_t fold(uint32_t sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

/* The pseudo header's sum: what a sender with checksum offload leaves in the field. */
static uint32_t sum_pseudo(const uint8_t *frame, uint32_t l4, uint32_t tcp_len)
{
	size_t addresses = l4 == ETH + 40 ? 32 : 8;

	return sum_bytes(frame + ETH + (addresses == 32 ? 8 : 12), addresses,
			 IPPROTO_TCP + tcp_len);
}

static void put_checksum(uint8_t *frame, size_t len, uint32_t l4)
{
	struct tcphdr *tcp = (struct tcphdr *)(frame + l4);
	uint16_t sum;

	tcp->check = 0;
	sum = ~fold(sum_bytes(frame + l4, len - l4, fold(sum_pseudo(frame, l4, len - l4))));
	tcp->check = htons(sum);
}

/* Completes a checksum that was left to the interface. One that is wrong already stays so. */
static void complete_checksum(uint8_t *frame, size_t len, uint32_t l4)
{
	const struct tcphdr *tcp = (const struct tcphdr *)(frame + l4);

	if (ntohs(tcp->check) == fold(sum_pseudo(frame, l4, len - l4)))
		put_checksum(frame, len, l4);
}

static void put_length(uint8_t *frame, size_t len, uint32_t l4, unsigned int index)
{
	struct iphdr *ip4 = (struct iphdr *)(frame + ETH);

	if (ip4->version == 6) {
		((struct ip6_hdr *)ip4)->ip6_plen = htons(len - l4);
		return;
	}
	ip4->tot_len = htons(len - ETH);
	ip4->id = htons(ntohs(ip4->id) + index);
	ip4->check = 0;
	ip4->check = htons(~fold(sum_bytes(frame + ETH, ip4->ihl * 4, 0)));
}

static void flip_bit(uint8_t *frame, size_t len, uint32_t l4, uint64_t random)
{
	uint64_t bit = random % ((len - l4) * 8);

	frame[l4 + bit / 8] ^= 1u << bit % 8;
}

/* One frame of payload bytes done … done + part. */
static size_t make_frame(uint8_t *frame, const struct impair_held *h, const uint8_t *data,
			 uint32_t head, uint32_t done, uint32_t part, unsigned int n)
{
	const struct tcphdr *tcp = (const struct tcphdr *)(data + h->l4);
	struct tcphdr *t = (struct tcphdr *)(frame + h->l4);
	size_t len = head + part;

	memcpy(frame, data, head);
	memcpy(frame + head, data + head + done, part);
	if (len == h->len) {
		if (h->l4)
			complete_checksum(frame, len, h->l4);
		return len;
	}
	put_length(frame, len, h->l4, n);
	t->seq = htonl(ntohl(tcp->seq) + done);
	if (len + done < h->len)
		t->fin = t->psh = 0;
	if (done)
		frame[h->l4 + 13] &= ~0x80; /* CWR is said once */
	put_checksum(frame, len, h->l4);
	return len;
}

unsigned int cut_packet(const struct impair_held *h, const uint8_t *data, uint32_t cut_min,
			uint32_t cut_max, cut_emit emit, void *ctx)
{
	const struct tcphdr *tcp = (const struct tcphdr *)(data + h->l4);
	uint32_t head = h->l4 ? h->l4 + tcp->doff * 4 : h->len, payload, done = 0;
	bool corrupt = h->todo & IMPAIR_DO_CORRUPT;
	uint64_t random = h->random | 1;
	uint8_t frame[IMPAIR_LARGE];
	unsigned int n = 0;

	if (head > h->len)
		return 0;
	payload = h->len - head;
	do {
		uint32_t part = payload - done;
		size_t len;

		if (h->gso_size && part > h->gso_size)
			part = h->gso_size;
		if (h->todo & IMPAIR_DO_CUT) {
			uint32_t want = cut_min + next_random(&random) % (cut_max - cut_min + 1);

			part = want < part ? want : part;
		}
		len = make_frame(frame, h, data, head, done, part, n++);
		done += part;
		/* One of the pieces is damaged, by chance; the last at the latest. */
		if (corrupt && (done == payload || next_random(&random) % 2)) {
			flip_bit(frame, len, h->l4, next_random(&random));
			corrupt = false;
		}
		emit(ctx, frame, len);
	} while (done < payload);
	return n;
}
