// SPDX-License-Identifier: BSD-2-Clause
#include <bpf/bpf.h>
#include <errno.h>
#include <kvsteer/framing.h>
#include <kvsteer/seq.h>

#include "agent/entry.h"

int entry_read(struct dataplane *dp, const struct kv_tuple *key, struct kv_client *ret)
{
	return bpf_map_lookup_elem_flags(dp->clients_fd, key, ret, BPF_F_LOCK);
}

static int entry_write(struct dataplane *dp, const struct kv_tuple *key,
		       const struct kv_client *entry)
{
	return bpf_map_update_elem(dp->clients_fd, key, entry, BPF_EXIST | BPF_F_LOCK);
}

enum entry_hold entry_hold(struct dataplane *dp, const struct kv_tuple *key, __u32 slot, __u32 gen,
			   struct kv_client *ret)
{
	if (entry_read(dp, key, ret))
		return ENTRY_NONE;
	if (ret->state == KV_CLIENT_HOME)
		return ENTRY_HOME;
	if (ret->pair.slot != slot || ret->pair.gen != gen)
		return ENTRY_OTHER;
	return ret->state == KV_CLIENT_LENT ? ENTRY_LENT : ENTRY_MINE;
}

int entry_set_busy(struct dataplane *dp, const struct kv_tuple *key, __u32 service, __u64 now_ns,
		   bool held, struct entry_copy *copy)
{
	struct kv_client *entry = &copy->value;
	int err;

	if (entry_read(dp, key, entry)) {
		*entry = (struct kv_client){
			.state = KV_CLIENT_AGENT,
			.key = *key,
			.service = service,
			.last_ns = now_ns,
			.pair = {.slot = KV_NONE, .note = KV_NOTE_READING},
		};
		/* The kernel enters a client at its first lend: it may be first by now. */
		err = bpf_map_update_elem(dp->clients_fd, key, entry, BPF_NOEXIST);
		if (err != -EEXIST)
			return err;
		err = entry_read(dp, key, entry);
		if (err)
			return err;
	}
	if (entry->state == KV_CLIENT_LENT || (entry->state == KV_CLIENT_AGENT && !held))
		return -EBUSY;
	/* Where the kernel made the entry and then found no upstream, it is all zeros. */
	entry->key = *key;
	entry->service = service;
	entry->state = KV_CLIENT_AGENT;
	entry->pair.offered = 0;
	entry->pair.note = KV_NOTE_READING;
	entry->last_ns = now_ns;
	return entry_write(dp, key, entry);
}

/* Is it still what this copy was read from? Takes over what the kernel has written since. */
static int entry_look(struct dataplane *dp, struct entry_copy *copy)
{
	const struct kv_client *was = &copy->value;
	struct kv_client now;
	int err = entry_read(dp, &was->key, &now);

	if (err)
		return err;
	if (now.state != KV_CLIENT_AGENT || now.pair.slot != was->pair.slot ||
	    now.pair.gen != was->pair.gen || now.rx_bypass != was->rx_bypass ||
	    now.tx_bypass != was->tx_bypass)
		return -ESTALE;
	copy->value = now;
	return 0;
}

int entry_offer(struct dataplane *dp, __u32 slot, __u32 gen, bool offered, bool head_request,
		struct entry_copy *copy)
{
	struct kv_client *entry = &copy->value;
	int err = entry_look(dp, copy);

	if (err)
		return err;
	entry->pair.slot = slot;
	entry->pair.gen = gen;
	entry->pair.offered = offered;
	entry->pair.note = offered ? KV_NOTE_NONE : KV_NOTE_RELAYED;
	entry->pair.seen = 0;
	kv_framing_init(&entry->pair.response, head_request);
	return entry_write(dp, &entry->key, entry);
}

int entry_set_home(struct dataplane *dp, struct entry_copy *copy)
{
	int err = entry_look(dp, copy);

	if (err)
		return err;
	copy->value.state = KV_CLIENT_HOME;
	copy->value.pair.offered = 0;
	copy->value.pair.note = KV_NOTE_NONE;
	return entry_write(dp, &copy->value.key, &copy->value);
}

int entry_end_lent(struct dataplane *dp, const struct kv_tuple *key, __u32 slot, __u32 gen,
		   bool again, struct kv_client *ret)
{
	const struct kv_pair *pair = &ret->pair;
	__u32 resp;

	if (entry_hold(dp, key, slot, gen, ret) != ENTRY_LENT)
		return -ENOENT;
	/* As kv_pair_reset_at has it; but in a silence the client has acknowledged all that it has,
	 * and its window may be less than it was. */
	resp = again ? pair->resp_acked
		     : kv_seq_min(pair->resp_sent, pair->resp_acked + pair->client_window);
	again = again && pair->head_len && pair->req_acked == pair->req_start &&
		!(pair->seen & KV_SEEN_RESPONSE);
	ret->rx_bypass += pair->req_acked - pair->req_start;
	ret->tx_bypass += resp - pair->resp_start;
	ret->state = again ? KV_CLIENT_HOME : KV_CLIENT_AGENT;
	return entry_write(dp, key, ret);
}
