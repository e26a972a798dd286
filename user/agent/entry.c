// SPDX-License-Identifier: BSD-2-Clause
#include <bpf/bpf.h>
#include <errno.h>
#include <net/ethernet.h>

#include "agent/entry.h"
#include "common/log.h"

int entry_read(struct dataplane *dp, const struct kv_tuple *key, struct kv_client *ret)
{
	return bpf_map_lookup_elem_flags(dp->clients_fd, key, ret, BPF_F_LOCK);
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

/* dp->entry_call holds the operation but for these. */
static enum kv_entry_result call(struct dataplane *dp, enum kv_entry_op op,
				 const struct kv_tuple *key, __u32 hold)
{
	static const char packet[ETH_HLEN]; /* it looks at nothing of it */
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = packet, .data_size_in = sizeof(packet));
	int err;

	dp->entry_call->op = op;
	dp->entry_call->key = *key;
	dp->entry_call->hold = hold;
	err = bpf_prog_test_run_opts(dp->entry_fd, &opts);
	if (!err)
		return dp->entry_call->result;
	kv_err("kernel program kv_agent_entry, op %u: %s", op, strerror(-err));
	return KV_ENTRY_NONE;
}

/* The kernel enters a client at its first lend, or with the first bytes that it hands home. */
static int entry_make(struct dataplane *dp, const struct kv_tuple *key, __u32 service)
{
	struct kv_client entry = {
		.state = KV_CLIENT_HOME,
		.key = *key,
		.service = service,
		.pair = {.slot = KV_NONE},
	};
	int err = bpf_map_update_elem(dp->clients_fd, key, &entry, BPF_NOEXIST);

	return err == -EEXIST ? 0 : err;
}

static enum kv_entry_result busy(struct dataplane *dp, const struct kv_tuple *key, __u32 service,
				 __u64 now_ns, __u32 hold)
{
	dp->entry_call->next_hold = ++dp->last_hold ?: ++dp->last_hold;
	dp->entry_call->service = service;
	dp->entry_call->now_ns = now_ns;
	return call(dp, KV_ENTRY_BUSY, key, hold);
}

int entry_set_busy(struct dataplane *dp, const struct kv_tuple *key, __u32 service, __u64 now_ns,
		   __u32 *hold)
{
	enum kv_entry_result result = busy(dp, key, service, now_ns, *hold);
	int err;

	if (result == KV_ENTRY_NONE) {
		err = entry_make(dp, key, service);
		if (err)
			return err;
		result = busy(dp, key, service, now_ns, *hold);
	}
	if (result == KV_ENTRY_NONE)
		return -ENOENT;
	if (result == KV_ENTRY_IS_LENT)
		return -EBUSY;
	*hold = dp->last_hold;
	return 0;
}

int entry_offer(struct dataplane *dp, const struct kv_tuple *key, __u32 hold,
		const struct entry_offer *offer)
{
	dp->entry_call->slot = offer->slot;
	dp->entry_call->gen = offer->gen;
	dp->entry_call->offered = offer->offered;
	dp->entry_call->head_request = offer->head_request;
	dp->entry_call->inserted = offer->inserted;
	return call(dp, KV_ENTRY_OFFER, key, hold) == KV_ENTRY_DONE ? 0 : -ESTALE;
}

int entry_set_home(struct dataplane *dp, const struct kv_tuple *key, __u32 hold, __u64 trace,
		   __u64 bytes)
{
	dp->entry_call->ends = trace;
	dp->entry_call->bytes = bytes;
	return call(dp, KV_ENTRY_HOME, key, hold) == KV_ENTRY_DONE ? 0 : -ESTALE;
}

int entry_end_lent(struct dataplane *dp, const struct kv_tuple *key, __u32 slot, __u32 gen,
		   bool again, struct kv_client *ret)
{
	dp->entry_call->slot = slot;
	dp->entry_call->gen = gen;
	dp->entry_call->again = again;
	if (call(dp, KV_ENTRY_END, key, 0) != KV_ENTRY_DONE)
		return -ENOENT;
	ret->pair = dp->entry_call->pair;
	ret->state = dp->entry_call->state;
	return 0;
}
