/* SPDX-License-Identifier: BSD-2-Clause */
/* The keys of following engines: http, follow, health (docs/following.md). */
#ifndef KVSTEER_CONFIG_FOLLOW_H
#define KVSTEER_CONFIG_FOLLOW_H

#include <linux/types.h>
#include <stdbool.h>

#include "common/addr.h"

#define KV_CONFIG_HEALTH_PATH_LEN 128

/* Times in ms; 0 of the first three: not asked. */
struct kv_config_follow {
	char health_path[KV_CONFIG_HEALTH_PATH_LEN];
	__u64 health;
	__u64 models;
	__u64 metrics;
	__u64 health_timeout;
	__u64 metrics_timeout;
	__u64 stale;
};

struct kv_config_health {
	__u64 fall;
	__u64 eject_percent;
	__u64 eject_least;
	__u64 eject_share; /* percent */
	__u64 eject_time;  /* ms */
	__u64 slow_start;  /* ms */
	__u64 trial_successes;
};

struct kv_config;

/* Calls differs for each key that is another now; values as text. */
void kv_config_diff_follow(const struct kv_config *old, const struct kv_config *new,
			   void (*differs)(void *arg, const char *key, const char *old,
					   const char *new),
			   void *arg);
/* Whether any of them is. */
bool kv_config_follow_differs(const struct kv_config *old, const struct kv_config *new);

#endif
