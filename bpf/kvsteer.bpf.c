/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * kvsteer's kernel programs.
 *
 *	kv_ingress	tc ingress of every interface of the gateway
 *	kv_egress	tc egress of the same
 *	kv_agent_call	the agent's way into the same steering code (BPF_PROG_RUN)
 *	kv_agent_entry	the agent's way to a client's entry (BPF_PROG_TEST_RUN)
 *	kv_home_exists	asks whether the kernel still has a socket of a tuple (BPF_PROG_TEST_RUN)
 *
 * One packet's way: packet.bpf.h reads it; a connection of ours is a client's (its local side is a
 * service) or an upstream (its tuple has a slot). If lent, client.bpf.h or backend.bpf.h move the
 * pair on and rewrite.bpf.h sends the segment to the other side. If not, sequence numbers are
 * shifted between wire and home socket and the kernel's TCP does the rest; a client's payload may
 * begin a request, which express.bpf.h looks at first.
 *
 * What is not understood goes to the stack. Nothing is dropped without a counter that says why.
 * docs/design.md has the invariants.
 */
#include "lib/client_home.bpf.h"
#include "lib/backend.bpf.h"
#include "lib/relay.bpf.h"
#include "lib/icmp.bpf.h"
#include "lib/call.bpf.h"
#include "lib/entry.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

/* Service of a local address and port; KV_NONE: none. */
KV_INLINE __u32 kv_service_of(const struct kv_tuple *key)
{
	struct kv_listen at = {.port = key->local_port};
	__u32 *id;

	__builtin_memcpy(at.addr, key->local, 16);
	id = bpf_map_lookup_elem(&kv_service_ids, &at);
	if (!id) {
		__builtin_memset(at.addr, 0, 16);
		id = bpf_map_lookup_elem(&kv_service_ids, &at);
	}
	return id ? *id : KV_NONE;
}

/* ---- upstreams ---- */

static __noinline int kv_upstream_ingress(struct __sk_buff *skb, struct kv_packet *p, __u32 slot)
{
	struct kv_upstream *u = kv_slot(slot);
	int act;

	if (!u)
		return TC_ACT_OK;
	if (p->odd)
		return kv_drop_odd(p);
	if (u->state == KV_UP_LENT)
		return kv_from_backend(skb, p, u, slot);
	if (u->state == KV_UP_RELAY && p->payload_len && !(p->flags & KV_RST)) {
		act = kv_from_backend_relay(skb, p, u, slot);
		if (act != KV_TO_HOME)
			return act;
	}
	if (kv_rewrite_home(skb, p, -u->rx_bypass, -u->tx_bypass, 0)) {
		kv_bump(KV_CNT_drop_rewrite);
		return TC_ACT_SHOT;
	}
	return TC_ACT_OK;
}

/* Not TCP: the path may have something to say about a segment of ours. */
static __noinline int kv_other_ingress(struct __sk_buff *skb, struct kv_packet *p)
{
	__u32 *slot;

	if (kv_quote_parse(skb, p))
		return TC_ACT_OK;
	if (kv_service_of(&p->key) != KV_NONE)
		return kv_quote_client(skb, p);
	slot = bpf_map_lookup_elem(&kv_upstream_ids, &p->key);
	return slot ? kv_quote_upstream(skb, p, *slot) : TC_ACT_OK;
}

SEC("tc")
int kv_ingress(struct __sk_buff *skb)
{
	struct kv_scratch *scratch = kv_scratch_get();
	struct kv_packet *p;
	__u32 service, *slot;
	int act;

	/* Another host's, which this device sees too: tc runs before the stack looks. */
	if (!scratch || skb->pkt_type == KV_PACKET_OTHERHOST)
		return TC_ACT_OK;
	p = &scratch->packet;
	scratch->left = 0;
	if (kv_packet_parse(skb, p, true))
		return kv_other_ingress(skb, p);
	service = kv_service_of(&p->key);
	slot = service == KV_NONE ? bpf_map_lookup_elem(&kv_upstream_ids, &p->key) : NULL;
	if (service == KV_NONE && !slot)
		return TC_ACT_OK;
	if (kv_checksum_bad(skb, p)) {
		kv_bump(KV_CNT_drop_checksum);
		return TC_ACT_SHOT;
	}
	if (!slot) {
		act = kv_client_ingress(skb, p, service);
		return act < 0 ? TC_ACT_OK : act;
	}
	return kv_upstream_ingress(skb, p, *slot);
}

/* ---- egress: home sockets speak, if they may ---- */

static __noinline int kv_home_egress(struct __sk_buff *skb, const struct kv_packet *p, __u32 rx,
				     __u32 tx, __u32 echo)
{
	if (!(tx | rx))
		return TC_ACT_OK;
	if (p->odd)
		return kv_drop_odd(p);
	if (kv_rewrite_home(skb, p, tx, rx, echo)) {
		kv_bump(KV_CNT_drop_rewrite);
		return TC_ACT_SHOT;
	}
	return TC_ACT_OK;
}

SEC("tc")
int kv_egress(struct __sk_buff *skb)
{
	struct kv_scratch *scratch = kv_scratch_get();
	struct kv_shift s = {};
	struct kv_upstream *u;
	struct kv_client *c;
	struct kv_packet *p;
	__u32 *slot;

	if (skb->tc_index == KV_TC_SPLICED) {
		skb->tc_index = 0;
		return TC_ACT_OK;
	}
	if (!scratch)
		return TC_ACT_OK;
	p = &scratch->packet;
	if (kv_packet_parse(skb, p, false))
		return TC_ACT_OK;
	if (kv_service_of(&p->key) != KV_NONE) {
		c = bpf_map_lookup_elem(&kv_clients, &p->key);
		if (!c)
			return TC_ACT_OK;
		/* The stack takes a new connection. When its SYN came the old one may have been
		 * there still, and have ended by an RST on another CPU before the SYN was looked
		 * up: then nothing has been forgotten yet. The client's next segment comes later.
		 */
		if (p->flags & KV_SYN) {
			kv_client_forget(skb, &p->key, c);
			return TC_ACT_OK;
		}
		kv_client_shift(c, &p->key, &s);
		if (s.ends && p->payload_len && p->seq + p->payload_len == s.whole)
			kv_relay_home(c, &p->key, s.slot);
		return s.state == KV_CLIENT_LENT ? kv_lent_client_egress(skb, p, c)
						 : kv_home_egress(skb, p, s.rx, s.tx, s.tsval);
	}
	slot = p->flags & KV_SYN ? NULL : bpf_map_lookup_elem(&kv_upstream_ids, &p->key);
	u = slot ? kv_slot(*slot) : NULL;
	if (!u)
		return TC_ACT_OK;
	return u->state == KV_UP_LENT
		       ? kv_lent_upstream_egress(skb, p, u, *slot)
		       : kv_home_egress(skb, p, u->rx_bypass, u->tx_bypass, u->tsval);
}

/* ---- the agent's question ---- */

/* Test-run with a packet that begins with a struct kv_tuple: 1 if this network namespace has a
 * socket of it, in whatever state, TIME-WAIT included; 0 if none, or only a listener. */
SEC("tc")
int kv_home_exists(struct __sk_buff *skb)
{
	struct kv_tuple key;
	struct bpf_sock *sk;
	int exists;

	if (bpf_skb_load_bytes(skb, 0, &key, sizeof(key)))
		return 0;
	sk = kv_home_find(skb, &key);
	if (!sk)
		return 0;
	exists = sk->state != TCP_LISTEN;
	bpf_sk_release(sk);
	return exists;
}
