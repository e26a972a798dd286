/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * kvsteer's kernel programs.
 *
 *	kv_ingress	tc ingress of every interface of the gateway
 *	kv_egress	tc egress of the same
 *	kv_agent_call	the agent's way into the same steering code (BPF_PROG_RUN)
 *	kv_home_exists	asks whether the kernel still has a socket of a tuple (BPF_PROG_TEST_RUN)
 *
 * One packet's way: packet.bpf.h reads it; a connection of ours is a client's (its local side is a
 *service) or an upstream (its tuple has a slot). If lent, client.bpf.h or backend.bpf.h move the
 *pair on and rewrite.bpf.h sends the segment to the other side. If not, sequence numbers are
 *shifted between wire and home socket and the kernel's TCP does the rest; a client's payload may
 *begin a request, which express.bpf.h looks at first.
 *
 * What is not understood goes to the stack. Nothing is dropped without a counter that says why.
 * docs/design.md has the invariants.
 */
#include "lib/express.bpf.h"
#include "lib/client.bpf.h"
#include "lib/backend.bpf.h"
#include "lib/relay.bpf.h"
#include "lib/icmp.bpf.h"

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

/* ---- clients ---- */

/* What a connection that is not lent is shifted by. */
struct kv_shift {
	__u32 rx;
	__u32 tx;
	__u32 state;
	__u32 fin_seq;
	__u32 tsval;
	bool fin; /* the client's FIN went to a backend, the home socket has not seen it */
};

KV_INLINE void kv_client_shift(struct kv_client *c, const struct kv_tuple *key, struct kv_shift *s)
{
	bpf_spin_lock(&c->lock);
	if (kv_tuple_equal(&c->key, key)) {
		s->rx = c->rx_bypass;
		s->tx = c->tx_bypass;
		s->state = c->state;
		s->fin = c->pair.seen & KV_SEEN_CLIENT_FIN;
		s->fin_seq = c->pair.fin_seq;
		s->tsval = c->pair.client_tsval;
	}
	bpf_spin_unlock(&c->lock);
}

/* A segment that cannot be rewritten, of a connection whose numbers may be shifted. */
static __noinline int kv_drop_odd(const struct kv_packet *p)
{
	kv_bump(p->odd & KV_ODD_FRAGMENT ? KV_CNT_drop_fragment : KV_CNT_drop_ip_options);
	return TC_ACT_SHOT;
}

/* A new connection of the same tuple. While the old home socket lives it answers for itself (RFC
 * 5961, section 4), of a lent one the pair does; when it is gone, so are its shifts and its pair.
 */
static __noinline bool kv_client_forget(struct __sk_buff *skb, const struct kv_tuple *key,
					struct kv_client *c)
{
	struct kv_home h = {};

	if (!kv_home_read(skb, key, &h))
		return false;
	if (kv_read_once(c->state) == KV_CLIENT_LENT)
		kv_client_orphaned(c, key);
	bpf_map_delete_elem(&kv_clients, key);
	return true;
}

/* The client's FIN went to a backend. Its home socket learns of it from the client's next empty
 * segment, which stands right behind the FIN: that is made the FIN's retransmission. */
static __noinline void kv_client_fin_again(struct __sk_buff *skb, struct kv_packet *p,
					   const struct kv_shift *s)
{
	struct kv_home h = {};

	if (p->payload_len || p->flags & (KV_FIN | KV_RST) || p->seq != s->fin_seq + 1)
		return;
	if (kv_home_read(skb, &p->key, &h) || h.rcv_nxt + s->rx != s->fin_seq)
		return;
	p->seq--;
	p->flags |= KV_FIN;
}

static __noinline int kv_client_home(struct __sk_buff *skb, struct kv_packet *p,
				     const struct kv_shift *s)
{
	struct kv_rewrite r = {.seq_delta = -s->rx, .ack_delta = -s->tx, .window = p->window};
	__u32 seq = p->seq;

	if (s->fin)
		kv_client_fin_again(skb, p, s);
	r.flags = p->flags;
	if (!(r.seq_delta | r.ack_delta) && p->seq == seq)
		return TC_ACT_OK;
	if (kv_rewrite_apply(skb, p, &r)) {
		kv_bump(KV_CNT_drop_rewrite);
		return TC_ACT_SHOT;
	}
	return TC_ACT_OK;
}

/* The ack of a segment whose payload is a lent request's: for the home socket its payload becomes
 * an old one, which TCP acknowledges (muted) and ignores. */
static __noinline int kv_client_ack_copy(struct __sk_buff *skb, struct kv_packet *p,
					 const struct kv_shift *s)
{
	struct kv_rewrite r = {
		.seq_delta = -s->rx - p->payload_len,
		.ack_delta = -s->tx,
		.window = p->window,
		.flags = p->flags & ~KV_FIN,
	};

	skb->tc_index = 0;
	return kv_rewrite_apply(skb, p, &r) ? TC_ACT_SHOT : TC_ACT_OK;
}

/* Responses go where the client's segments come from: so a segment that comes by another interface
 * has to be the very next one. Who only pretends to be the client does not know which that is.
 * Its ack against write_seq: over a veth it may come before the home socket's transmission returns
 * and moves snd_nxt. */
static __noinline void kv_client_moved(struct __sk_buff *skb, const struct kv_packet *p,
				       struct kv_client *c, const struct kv_shift *s)
{
	struct kv_home h = {};

	if (kv_home_read(skb, &p->key, &h) || p->seq != h.rcv_nxt + s->rx ||
	    !kv_seq_acks(p->ack, h.snd_una + s->tx, h.write_seq + s->tx))
		return;
	c->ifindex = skb->ifindex;
	c->path = kv_path_by(skb->ifindex);
}

/* A connection that has no entry yet gets one when it has a home socket: what nobody has opened
 * must not fill the table. */
KV_INLINE int kv_client_first(struct __sk_buff *skb, struct kv_packet *p, __u32 service)
{
	struct kv_scratch *scratch = kv_scratch_get();
	struct kv_client *c;
	int act;

	if (!scratch || !p->payload_len || p->odd)
		return KV_TO_HOME;
	act = kv_express(skb, service, 0, 0);
	if (act != KV_TO_HOME || p->flags & KV_RST)
		return act;
	c = kv_client_get(scratch, &p->key);
	return c ? kv_hand_home(c, p, 0) : KV_TO_HOME; /* nor can it be lent then */
}

static __noinline int kv_client_ingress(struct __sk_buff *skb, struct kv_packet *p, __u32 service)
{
	struct kv_client *c = bpf_map_lookup_elem(&kv_clients, &p->key);
	struct kv_shift s = {};
	int act;

	if (!c)
		return kv_client_first(skb, p, service);
	if (p->odd)
		return kv_drop_odd(p);
	if (p->flags & KV_SYN && kv_client_forget(skb, &p->key, c))
		return TC_ACT_OK;
	/* A first look without the lock; kv_from_client looks again under it. */
	if (kv_read_once(c->state) == KV_CLIENT_LENT && skb->tc_index != KV_TC_HOME_ACK) {
		act = kv_from_client(skb, p, c);
		if (act != KV_TO_HOME)
			return act;
	}
	/* Whoever answers it does not ask for its number; a listener has to see that as it is. */
	if (p->flags & KV_SYN)
		return TC_ACT_OK;
	kv_client_shift(c, &p->key, &s);
	if (skb->tc_index == KV_TC_HOME_ACK)
		return kv_client_ack_copy(skb, p, &s);
	if (s.state == KV_CLIENT_LENT) {
		kv_bump(KV_CNT_drop_race); /* lent by another CPU meanwhile */
		return TC_ACT_SHOT;
	}
	if (c->ifindex != skb->ifindex)
		kv_client_moved(skb, p, c, &s);
	if (p->payload_len && !(p->flags & KV_RST)) {
		act = s.state == KV_CLIENT_HOME ? kv_express(skb, service, s.rx, s.tx) : KV_TO_HOME;
		if (act == KV_TO_HOME)
			act = kv_hand_home(c, p, s.rx);
		if (act >= 0)
			return act;
	}
	return kv_client_home(skb, p, &s);
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

/* ---- the agent's ---- */

KV_MAP(kv_agent_steer, BPF_MAP_TYPE_ARRAY, 1, __u32, struct kv_steer, 0);

SEC("syscall")
int kv_agent_call(void *ctx)
{
	__u32 zero = 0, slot;
	struct kv_call *call = bpf_map_lookup_elem(&kv_call, &zero);
	struct kv_steer *steer = bpf_map_lookup_elem(&kv_agent_steer, &zero);
	struct kv_dispatch *d;

	if (!call || !steer)
		return 1;
	if (call->op == KV_CALL_DECIDE) {
		steer->query = call->dispatch.query;
		steer->masked = call->masked;
		__builtin_memcpy(steer->mask, call->mask, sizeof(steer->mask));
		if (!kv_steer_decide(steer))
			kv_steer_commit(steer, &call->dispatch);
		call->choice = steer->choice;
		return 0;
	}
	if (call->op == KV_CALL_UNDO) {
		kv_dispatch_failed(&call->dispatch);
		return 0;
	}
	slot = call->slot;
	d = bpf_map_lookup_elem(&kv_dispatches, &slot);
	if (!d)
		return 1;
	if (call->op == KV_CALL_SETTLE_ANSWERED)
		kv_dispatch_answered(d);
	else if (call->op == KV_CALL_SETTLE_FINISHED)
		kv_dispatch_finished(d);
	else
		kv_dispatch_failed(d);
	return 0;
}

/* Scratch of its own: engines may be heard by another thread than the one that decides. */
KV_MAP(kv_tell_steer, BPF_MAP_TYPE_ARRAY, 1, __u32, struct kv_steer, 0);

SEC("syscall")
int kv_agent_tell(void *ctx)
{
	__u32 zero = 0;
	struct kv_telling *telling = bpf_map_lookup_elem(&kv_telling, &zero);
	struct kv_steer *steer = bpf_map_lookup_elem(&kv_tell_steer, &zero);

	return telling && steer ? kv_tell(steer, telling) : 1;
}

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
