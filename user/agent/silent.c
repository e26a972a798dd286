// SPDX-License-Identifier: BSD-2-Clause
#include "agent/client.h"
#include "agent/entry.h"
#include "agent/pool.h"
#include "agent/silent.h"
#include "agent/steer.h"
#include "agent/upstream.h"
#include "common/log.h"

/* From the moment the generation is raised the slot is ours: to the backend's packets the pair is
 * an earlier one, and a pair that just ends leaves the settling to whoever has the generation. */
static void silent_end(struct agent *agent, struct upstream *up, __u32 gen)
{
	struct kv_upstream *slot = upstream_slot(up);
	const struct kv_tuple key = slot->client;
	struct kv_client entry = {};
	const struct kv_pair *pair = &entry.pair;
	struct client *c = NULL;
	bool answered;

	if (kv_atomic_cas(&slot->gen, gen, gen + 1) != gen)
		return;
	if (!entry_end_lent(&agent->dp, &key, up->slot, gen, &entry)) {
		c = client_find(agent, &key);
		/* So that our RST is in its place. */
		slot->tx_bypass += pair->req_sent - pair->req_start;
		slot->rx_bypass += pair->resp_next - pair->resp_start;
	}
	kv_debug("backend %s: slot %u: client and backend silent for too long: both reset",
		 agent->dp.backends[up->backend].name, up->slot);
	answered = pair->seen & KV_SEEN_RESPONSE;
	steer_settle(&agent->dp, up->slot,
		     answered ? KV_CALL_SETTLE_FINISHED : KV_CALL_SETTLE_FAILED);
	if (answered)
		count(&agent->dp, broken_response);
	else
		count(&agent->dp, broken_before_response);
	upstream_retire(up, true);
	if (c)
		client_reset(c);
}

static bool silent_since(struct agent *agent, const struct upstream *up, __u64 before_ns)
{
	const struct kv_upstream *slot = upstream_slot(up);
	struct kv_client entry;

	/* The slot tells when it was claimed, the client's entry when that last sent anything: a
	 * client that takes a stream acknowledges it. */
	return slot->last_ns < before_ns &&
	       (entry_read(&agent->dp, &slot->client, &entry) || entry.last_ns < before_ns);
}

void silent_pairs(struct agent *agent, __u64 now_ns)
{
	__u64 limit = agent->config->timeouts.response_ms * MS;
	__u32 per = agent->dp.upstreams_per_backend;

	for (__u32 i = 0; i < agent->dp.max_backends; i++) {
		if (!agent->pools[i].open || !agent->pools[i].n_open)
			continue;
		for (__u32 s = i * per; s < (i + 1) * per; s++) {
			struct upstream *up = agent->upstreams[s];
			__u32 gen = kv_read_once(agent->dp.upstreams[s].gen);

			if (up && up->phase == UPSTREAM_OPEN && now_ns > limit &&
			    kv_read_once(upstream_slot(up)->state) == KV_UP_LENT &&
			    silent_since(agent, up, now_ns - limit))
				silent_end(agent, up, gen);
		}
	}
}
