// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * An impaired network, for one direction of one interface. All decisions are taken here: they
 * follow from the seed and the packet's number alone. Loss, duplicates and closed windows are done
 * here too; what has to wait, to be cut or to be damaged is copied into a ring, and the carrier
 * (carry.c) sends it on.
 */
#include <kvsteer/types.h>

#include "../tests/impair/impair.h"

char _license[] SEC("license") = "Dual BSD/GPL";

#define OK 0 /* TC_ACT_OK */
#define SHOT 2
#define STOLEN 4
#define TCP 6

const volatile struct impair_config cfg;
const volatile __u32 ingress;
const volatile __u32 device; /* where impair_back puts its packets */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct impair_state);
} state SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} ring SEC(".maps");

struct small {
	struct impair_held held;
	__u8 data[IMPAIR_SMALL];
};

struct large {
	struct impair_held held;
	__u8 data[IMPAIR_LARGE];
};

struct packet {
	__u32 l4; /* 0: not TCP */
	__u32 payload;
	__u8 flags;
	__u16 window;
};

KV_INLINE void count(struct impair_state *s, enum impair_kind kind, __u64 n)
{
	kv_atomic_add(&s->counts[kind], n);
}

/* splitmix64 (Steele, Lea, Flood 2014): any two numbers give unrelated values */
KV_INLINE __u64 mix(__u64 z)
{
	z += 0x9e3779b97f4a7c15ull;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

KV_INLINE __u32 draw(__u64 n, __u32 what)
{
	return mix(mix(cfg.seed + what) ^ n) >> 32;
}

KV_INLINE bool hit(__u64 n, __u32 what, __u32 chance)
{
	return chance && draw(n, what) < chance;
}

static __noinline int packet_read(struct __sk_buff *skb, struct packet *p)
{
	struct tcphdr tcp;
	__u32 off = 0;

	if (!p)
		return -1;
	if (skb->protocol == kv_htons(0x0800)) {
		struct iphdr ip;

		if (bpf_skb_load_bytes(skb, 14, &ip, sizeof(ip)) || ip.protocol != TCP ||
		    ip.frag_off & kv_htons(0x3fff))
			return -1;
		off = 14 + ip.ihl * 4;
	} else if (skb->protocol == kv_htons(0x86dd)) {
		struct ipv6hdr ip;

		if (bpf_skb_load_bytes(skb, 14, &ip, sizeof(ip)) || ip.nexthdr != TCP)
			return -1;
		off = 14 + sizeof(ip);
	} else {
		return -1;
	}
	if (bpf_skb_load_bytes(skb, off, &tcp, sizeof(tcp)))
		return -1;
	p->l4 = off;
	off += tcp.doff * 4;
	p->payload = skb->len > off ? skb->len - off : 0;
	p->flags = ((__u8 *)&tcp)[13];
	p->window = tcp.window;
	return 0;
}

/* A receiver that takes nothing more for a while. */
KV_INLINE void close_window(struct __sk_buff *skb, const struct packet *p, struct impair_state *s)
{
	__u64 period = (cfg.closed_ms + cfg.open_ms) * 1000000ull;
	__u16 zero = 0;

	if (!cfg.closed_ms || p->flags & (2 | 4) || !p->window) /* SYN, RST */
		return;
	if (bpf_ktime_get_ns() % period >= cfg.closed_ms * 1000000ull)
		return;
	bpf_l4_csum_replace(skb, p->l4 + offsetof(struct tcphdr, check), p->window, zero, 2);
	bpf_skb_store_bytes(skb, p->l4 + offsetof(struct tcphdr, window), &zero, sizeof(zero), 0);
	count(s, IMPAIR_ZERO_WINDOW, 1);
}

KV_INLINE void held_fill(struct impair_held *h, struct __sk_buff *skb, const struct packet *p,
			 __u64 n, __u32 todo)
{
	__u64 wait = cfg.delay_us;

	if (cfg.jitter_us)
		wait += draw(n, 10) % cfg.jitter_us;
	if (todo & IMPAIR_DO_REORDER)
		wait += cfg.hold_us / 8 + draw(n, 11) % (cfg.hold_us + 1);
	h->due_ns = bpf_ktime_get_ns() + wait * 1000;
	h->random = mix(mix(cfg.seed + 12) ^ n);
	h->len = skb->len;
	h->todo = todo;
	h->gso_size = skb->gso_size;
	h->l4 = p->l4;
}

/* Into the ring; -1: no room. */
static __noinline int hand_over(struct __sk_buff *skb, const struct packet *p, __u64 n, __u32 todo)
{
	__u32 len = skb->len;

	if (!p)
		return -1;
	if (len <= IMPAIR_SMALL) {
		struct small *r = bpf_ringbuf_reserve(&ring, sizeof(*r), 0);

		if (!r)
			return -1;
		held_fill(&r->held, skb, p, n, todo);
		asm volatile("" : "+r"(len));
		if (len < 14 || len > IMPAIR_SMALL || bpf_skb_load_bytes(skb, 0, r->data, len)) {
			bpf_ringbuf_discard(r, 0);
			return -1;
		}
		bpf_ringbuf_submit(r, 0);
	} else {
		struct large *r = bpf_ringbuf_reserve(&ring, sizeof(*r), 0);

		if (!r)
			return -1;
		held_fill(&r->held, skb, p, n, todo);
		asm volatile("" : "+r"(len));
		if (len < 14 || len > IMPAIR_LARGE || bpf_skb_load_bytes(skb, 0, r->data, len)) {
			bpf_ringbuf_discard(r, 0);
			return -1;
		}
		bpf_ringbuf_submit(r, 0);
	}
	return 0;
}

KV_INLINE __u32 decide(struct impair_state *s, const struct packet *p, __u64 n)
{
	__u32 todo = 0;

	if (p->l4 && hit(n, 2, cfg.corrupt)) {
		todo |= IMPAIR_DO_CORRUPT;
		count(s, IMPAIR_CORRUPTED, 1);
	}
	if (hit(n, 3, cfg.duplicate)) {
		todo |= IMPAIR_DO_DUPLICATE;
		count(s, IMPAIR_DUPLICATED, 1);
	}
	if (hit(n, 4, cfg.reorder)) {
		todo |= IMPAIR_DO_REORDER;
		count(s, IMPAIR_REORDERED, 1);
	}
	if (cfg.cut_min && p->l4 && p->payload > cfg.cut_min) {
		todo |= IMPAIR_DO_CUT;
		count(s, IMPAIR_CUT, 1);
	}
	return todo;
}

SEC("tc")
int impair(struct __sk_buff *skb)
{
	struct impair_state *s = bpf_map_lookup_elem(&state, &(__u32){0});
	struct packet p = {};
	__u32 todo;
	__u64 n;

	if (skb->mark == IMPAIR_MARK) {
		skb->mark = 0;
		return OK;
	}
	if (!s || (packet_read(skb, &p) && cfg.tcp_only) || (p.flags & 2 && cfg.spare_syn))
		return OK;
	n = kv_atomic_fetch_add(&s->counts[IMPAIR_PACKETS], 1);
	count(s, IMPAIR_BYTES, skb->len);
	if (hit(n, 1, cfg.loss)) {
		count(s, IMPAIR_LOST, 1);
		/* On the way out SHOT would tell the sender's TCP: no network does. */
		return ingress ? SHOT : STOLEN;
	}
	if (p.l4)
		close_window(skb, &p, s);
	todo = decide(s, &p, n);
	if (cfg.delay_us || cfg.jitter_us)
		count(s, IMPAIR_DELAYED, 1);
	/* With cutting all go by the carrier, so that the order stays. */
	if (cfg.delay_us || cfg.jitter_us || cfg.cut_min || todo & ~IMPAIR_DO_DUPLICATE) {
		count(s, IMPAIR_CARRIED, 1);
		if (hand_over(skb, &p, n, todo))
			count(s, IMPAIR_OVERFLOW, 1);
		return STOLEN;
	}
	if (todo & IMPAIR_DO_DUPLICATE) {
		__u32 mark = skb->mark;

		skb->mark = IMPAIR_MARK;
		bpf_clone_redirect(skb, skb->ifindex, ingress ? BPF_F_INGRESS : 0);
		skb->mark = mark;
	}
	return OK;
}

/* On the carrier's own interface: its packets enter the stack as the device's. */
SEC("tc")
int impair_back(struct __sk_buff *skb)
{
	skb->mark = IMPAIR_MARK;
	return bpf_redirect(device, BPF_F_INGRESS);
}
