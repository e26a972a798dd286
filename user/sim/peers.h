/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rules of other routers, to compare with: as published, over what they would know. They can be
 * simulated only; the gateway has none of them.
 */
#ifndef KVSTEER_SIM_PEERS_H
#define KVSTEER_SIM_PEERS_H

#include "sim/sim.h"
#include "sim/steering.h"

extern const struct sim_peer_rule sim_peer_llm_d, sim_peer_dynamo, sim_peer_sglang,
	sim_peer_prefix_hash, sim_peer_prefix_hash_bounded, sim_peer_greedy;

struct sim_peer;

struct sim_peer *sim_peer_new(const struct sim_peer_rule *rule, const struct sim_options *options);
void sim_peer_free(struct sim_peer *p);
const char *sim_peer_state(const struct sim_peer *p);
/* requests: in flight, by backend. */
void sim_peer_choose(struct sim_peer *p, double now, const struct sim_request *request,
		     const struct sim_engine *engines, const uint32_t *requests,
		     struct sim_choice *ret);

#endif
