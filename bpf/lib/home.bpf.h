/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Home sockets: the kernel's own TCP sockets of this host. They are the truth about a connection
 * that is not lent; we read them at the moment of lending and keep no copy of what they know.
 */
#ifndef KVSTEER_HOME_BPF_H
#define KVSTEER_HOME_BPF_H

#include "compat.bpf.h"
#include "maps.bpf.h"
#include "packet.bpf.h"

struct kv_home {
	__u32 rcv_nxt;
	__u32 copied_seq;
	__u32 snd_una;
	__u32 snd_nxt;
	__u32 write_seq;
	__u32 snd_wnd; /* bytes that the peer takes from snd_una on */
	__u32 tsoffset;
	__u32 ts_recent;
	__u16 peer_mss;	 /* the longest segment that may be sent to the peer … */
	__u16 local_mss; /* … and that the peer may send */
	__u8 snd_wscale;
	__u8 rcv_wscale;
	__u8 options; /* KV_OPT_* */
	__u8 established;
	__u8 out_of_order; /* segments beyond a hole wait in its queue */
};

/* Any socket of that tuple in this network namespace, listeners included; to be released. */
KV_INLINE struct bpf_sock *kv_home_find(struct __sk_buff *skb, const struct kv_tuple *key)
{
	struct bpf_sock_tuple t;

	if (kv_is_mapped(key->local)) {
		t.ipv4.saddr = key->peer[3];
		t.ipv4.daddr = key->local[3];
		t.ipv4.sport = key->peer_port;
		t.ipv4.dport = key->local_port;
		return bpf_skc_lookup_tcp(skb, &t, sizeof(t.ipv4), BPF_F_CURRENT_NETNS, 0);
	}
	__builtin_memcpy(t.ipv6.saddr, key->peer, 16);
	__builtin_memcpy(t.ipv6.daddr, key->local, 16);
	t.ipv6.sport = key->peer_port;
	t.ipv6.dport = key->local_port;
	return bpf_skc_lookup_tcp(skb, &t, sizeof(t.ipv6), BPF_F_CURRENT_NETNS, 0);
}

/* 0: h filled from a full TCP socket (any state but LISTEN); -1: there is none. */
KV_GLOBAL int kv_home_read(struct __sk_buff *skb, const struct kv_tuple *key, struct kv_home *h)
{
	struct bpf_sock *sk;
	struct tcp_sock *tp;
	int err = -1;

	if (!key || !h)
		return -1;
	sk = kv_home_find(skb, key);
	if (!sk)
		return -1;
	tp = bpf_skc_to_tcp_sock(sk);
	if (tp) {
		__u8 state = tp->inet_conn.icsk_inet.sk.__sk_common.skc_state;

		h->rcv_nxt = tp->rcv_nxt;
		h->copied_seq = tp->copied_seq;
		h->snd_una = tp->snd_una;
		h->snd_nxt = tp->snd_nxt;
		h->write_seq = tp->write_seq;
		h->snd_wnd = tp->snd_wnd;
		h->tsoffset = tp->tsoffset;
		h->ts_recent = tp->rx_opt.ts_recent;
		h->peer_mss = tp->rx_opt.mss_clamp;
		h->local_mss = tp->advmss;
		h->snd_wscale = BPF_CORE_READ_BITFIELD(tp, rx_opt.snd_wscale);
		h->rcv_wscale = BPF_CORE_READ_BITFIELD(tp, rx_opt.rcv_wscale);
		h->options =
			(BPF_CORE_READ_BITFIELD(tp, rx_opt.tstamp_ok) ? KV_OPT_TIMESTAMPS : 0) |
			(BPF_CORE_READ_BITFIELD(tp, rx_opt.sack_ok) ? KV_OPT_SACK : 0) |
			(tp->ecn_flags & 1 ? KV_OPT_ECN : 0) |
			(kv_compat_usec_ts(tp) ? KV_OPT_USEC : 0);
		h->established = state == TCP_ESTABLISHED;
		h->out_of_order = tp->out_of_order_queue.rb_node != NULL;
		err = state == TCP_LISTEN ? -1 : 0;
	}
	bpf_sk_release(sk);
	return err;
}

/* Nothing unread, no hole, nothing unsent. What is unacknowledged is the caller's to judge. */
KV_INLINE bool kv_home_quiescent(const struct kv_home *h)
{
	return h->established && h->copied_seq == h->rcv_nxt && !h->out_of_order &&
	       h->write_seq == h->snd_nxt;
}

KV_INLINE bool kv_home_all_acked(const struct kv_home *h)
{
	return h->snd_una == h->write_seq;
}

#endif /* KVSTEER_HOME_BPF_H */
