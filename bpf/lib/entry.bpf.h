/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the agent does to a client's entry, each under the entry's lock: the kernel may be changing
 * it at the same time, or have made it anew for the next connection of the tuple. So the agent
 * names the request that has it (kv_client.hold), which ends with the entry.
 */
#ifndef KVSTEER_ENTRY_BPF_H
#define KVSTEER_ENTRY_BPF_H

#include "pair.bpf.h"

KV_INLINE bool kv_entry_held(const struct kv_client *c, const struct kv_entry_call *e)
{
	return c->state == KV_CLIENT_AGENT && e->hold && c->hold == e->hold;
}

KV_INLINE __u32 kv_entry_busy(struct kv_client *c, struct kv_entry_call *e)
{
	/* In state AGENT and not held: its pair has ended, and the client is to be closed. What
	 * still comes may be the rest of that request. */
	if (c->state != KV_CLIENT_HOME && !kv_entry_held(c, e))
		return KV_ENTRY_IS_LENT;
	c->service = e->service;
	c->state = KV_CLIENT_AGENT;
	c->hold = e->next_hold;
	c->pair.offered = 0;
	c->pair.note = KV_NOTE_READING;
	e->left = c->left;
	e->trace = c->trace;
	c->left = 0;
	c->trace = 0;
	c->last_ns = e->now_ns;
	return KV_ENTRY_DONE;
}

KV_INLINE __u32 kv_entry_offer(struct kv_client *c, const struct kv_entry_call *e)
{
	if (!kv_entry_held(c, e))
		return KV_ENTRY_NONE;
	kv_pair_offer(&c->pair, e->slot, e->gen, e->inserted, e->head_request);
	c->pair.offered = e->offered;
	if (!e->offered)
		c->pair.note = KV_NOTE_RELAYED;
	return KV_ENTRY_DONE;
}

KV_INLINE __u32 kv_entry_home(struct kv_client *c, const struct kv_entry_call *e)
{
	if (!kv_entry_held(c, e))
		return KV_ENTRY_NONE;
	kv_pair_home(c);
	return KV_ENTRY_DONE;
}

/* In a silence the client has acknowledged all that it has, and its window may be less than it was:
 * where the request is to be served again, kv_pair_reset_at() is too far. */
KV_INLINE __u32 kv_entry_end(struct kv_client *c, struct kv_entry_call *e)
{
	struct kv_pair *pair = &c->pair;
	bool again = e->again && pair->head_len && pair->req_acked == pair->req_start &&
		     !(pair->seen & KV_SEEN_RESPONSE);
	struct kv_ended end;

	if (!kv_pair_is(c, &e->key, e->slot, e->gen))
		return KV_ENTRY_NONE;
	e->pair = *pair;
	kv_pair_end(c, &end, pair->req_acked, e->again ? pair->resp_acked : kv_pair_reset_at(pair),
		    again ? KV_CLIENT_HOME : KV_CLIENT_AGENT);
	e->state = c->state;
	return KV_ENTRY_DONE;
}

KV_INLINE __u32 kv_entry_do(struct kv_client *c, struct kv_entry_call *e)
{
	if (!kv_tuple_equal(&c->key, &e->key))
		return KV_ENTRY_NONE;
	switch (e->op) {
	case KV_ENTRY_BUSY:
		return kv_entry_busy(c, e);
	case KV_ENTRY_OFFER:
		return kv_entry_offer(c, e);
	case KV_ENTRY_HOME:
		return kv_entry_home(c, e);
	case KV_ENTRY_END:
		return kv_entry_end(c, e);
	}
	return KV_ENTRY_NONE;
}

/* Never attached, only test-run. Before 6.7 a SEC("syscall") program may not take a lock; of the
 * others this type has the leanest test run: it makes up no packet, and nothing that only RCU may
 * free. */
SEC("flow_dissector")
int kv_agent_entry(struct __sk_buff *ctx)
{
	__u32 zero = 0, result;
	struct kv_entry_call *e = bpf_map_lookup_elem(&kv_entry_call, &zero);
	struct kv_client *c;

	if (!e)
		return 0;
	e->result = KV_ENTRY_NONE;
	c = bpf_map_lookup_elem(&kv_clients, &e->key);
	if (!c)
		return 0;
	bpf_spin_lock(&c->lock);
	result = kv_entry_do(c, e);
	bpf_spin_unlock(&c->lock);
	if (e->op == KV_ENTRY_HOME && result == KV_ENTRY_DONE && e->ends)
		kv_trace_ended(e->ends, KV_TRACE_DONE, 0, e->bytes, false);
	e->result = result;
	return 0;
}

#endif /* KVSTEER_ENTRY_BPF_H */
