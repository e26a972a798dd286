/* SPDX-License-Identifier: BSD-2-Clause */
/* Engines that a DNS name stands for: what a service says of them (docs/following.md). */
#ifndef KVSTEER_CONFIG_DISCOVER_H
#define KVSTEER_CONFIG_DISCOVER_H

#include "common/config.h"
#include "common/config_tree.h"

#define KV_CONFIG_DNS_SERVERS 4

static inline bool kv_discovers(const struct kv_service_discover *discover)
{
	return *discover->name;
}

/* "llm.test port 8000", "_llm._tcp.test SRV", "off"; returns buf. */
char *kv_discover_format(const struct kv_service_discover *discover, char *buf, size_t size);
/* Whether engines are sought in the same way; what those found are taken for may differ. */
bool kv_discover_same_source(const struct kv_service_discover *a,
			     const struct kv_service_discover *b);
/* "config", "hand", "dns" */
const char *kv_origin_name(__u32 origin);

/* A name that two services have. */
int kv_config_verify_discover(const struct kv_config *config, struct kv_tree *tree);

#endif
