/* SPDX-License-Identifier: BSD-2-Clause */
/* The gateway's own steering as one of the simulator's routers. */
#ifndef KVSTEER_SIM_STEERING_H
#define KVSTEER_SIM_STEERING_H

#include "sim/sim.h"

struct sim_steering;

struct sim_choice {
	uint32_t backend;
	uint32_t believed; /* tokens that are taken to be cached there */
	bool diverted;
	bool moved;
};

/* When told, the engines' caches are made to report to it. NULL: out of memory. */
struct sim_steering *sim_steering_new(enum kv_policy policy, const struct sim_options *options,
				      struct sim_engine *engines);
void sim_steering_free(struct sim_steering *s);
/* Decides, charges, learns. exclude: KV_NONE, or the backend that has just failed it. -ENOENT:
 * there is no other. */
int sim_steering_choose(struct sim_steering *s, double now, const struct sim_request *request,
			uint32_t exclude, struct sim_choice *ret);
/* The engine has taken the blocks of the request that was chosen last. */
void sim_steering_served(struct sim_steering *s, uint32_t backend);
/* The longest-waiting request of this backend is answered; found: tokens that were in its cache. */
void sim_steering_answered(struct sim_steering *s, uint32_t backend, double now, uint32_t found);
/* A second has passed: rates are looked at. */
void sim_steering_second(struct sim_steering *s, double now);
/* The backend computes so fast from now on. */
void sim_steering_rate(struct sim_steering *s, uint32_t backend, double rate);
/* It is away: what it had in hand has failed; or it is back, another process. */
void sim_steering_away(struct sim_steering *s, uint32_t backend, double now);
void sim_steering_back(struct sim_steering *s, uint32_t backend);
/* Another agent takes over. */
void sim_steering_agent(struct sim_steering *s);
/* Times that affinity was turned down, of a backend, and was back. */
void sim_steering_doubts(const struct sim_steering *s, uint32_t *ret_doubts, uint32_t *ret_backs);
/* Will be asked for soon. */
void sim_steering_prefetch(struct sim_steering *s, const struct sim_request *request);

#endif
