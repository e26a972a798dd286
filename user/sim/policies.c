// SPDX-License-Identifier: BSD-2-Clause
#include <string.h>

#include "sim/peers.h"
#include "sim/sim.h"

const struct sim_policy sim_policies[] = {
	{"price", "waiting and own work, own work dearer as the fleet fills", KV_POLICY_PRICE,
	 NULL},
	{"sticky", "holders of most of the prompt, until their queue leads by too much",
	 KV_POLICY_STICKY, NULL},
	{"ttft", "the soonest first token", KV_POLICY_TTFT, NULL},
	{"p2c", "of two at random the less loaded", KV_POLICY_P2C, NULL},
	{"least", "the least loaded", KV_POLICY_LEAST, NULL},
	{"hash", "by the shallowest rung, with bounded load", KV_POLICY_HASH, NULL},
	{"round-robin", "one after the other", KV_POLICY_ROUND_ROBIN, NULL},
	{"llm-d", "holders of 80 %, then least token load; knows the caches", -1, &sim_peer_llm_d},
	{"dynamo", "least queue and own prefill; knows the caches", -1, &sim_peer_dynamo},
	{"sglang", "cache_aware: best match unless out of balance; a picture of its own", -1,
	 &sim_peer_sglang},
	{"greedy", "best match among those not overloaded; a picture of its own", -1,
	 &sim_peer_greedy},
	{"prefix-hash", "by the first four blocks", -1, &sim_peer_prefix_hash},
	{"prefix-hash-bounded", "by the first four blocks, among those not overloaded", -1,
	 &sim_peer_prefix_hash_bounded},
	{0},
};

const struct sim_policy *sim_policy_find(const char *name)
{
	for (const struct sim_policy *p = sim_policies; p->name; p++)
		if (!strcmp(p->name, name))
			return p;
	return NULL;
}
