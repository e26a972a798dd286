/* SPDX-License-Identifier: BSD-2-Clause */
/* What changes between two configurations: apply does this and nothing else. */
#ifndef KVSTEER_CONFIG_DIFF_H
#define KVSTEER_CONFIG_DIFF_H

#include "common/config.h"

/* Services and backends are the same if their name is. A backend whose address changed, or which
 * moved to another service, is one removed and one added: its cache is not where it was. */
enum kv_change_type {
	KV_CHANGE_INSTANCE, /* a key of the instance; see restart */
	KV_CHANGE_SERVICE_ADDED,
	KV_CHANGE_SERVICE_REMOVED,
	KV_CHANGE_SERVICE, /* one key of a service: listen, policy, floor, affinity,
			      body_limit, answer_header, events, discover */
	KV_CHANGE_BACKEND_ADDED,
	KV_CHANGE_BACKEND_REMOVED,
	KV_CHANGE_BACKEND, /* one key of a backend: capacity, rate, from */
};

struct kv_change {
	enum kv_change_type type;
	bool restart;	 /* takes effect only when the agent is started again */
	const char *key; /* as in the file; NULL for added and removed */
	/* what it is about, in the configuration given; NULL where it is not */
	const struct kv_config_service *old_service;
	const struct kv_config_service *new_service;
	const struct kv_config_backend *old_backend;
	const struct kv_config_backend *new_backend;
	char text[256]; /* "backend a: rate 16000 -> 8000" */
};

struct kv_diff {
	struct kv_change *changes; /* removals first, then additions, then changes */
	size_t n;
};

/* The pointers in *ret live as long as both configurations. -ENOMEM or 0. */
int kv_config_diff(const struct kv_config *old, const struct kv_config *new, struct kv_diff *ret);
void kv_diff_free(struct kv_diff *diff);

#endif
