/* SPDX-License-Identifier: BSD-2-Clause */
/* Services and backends: from the configuration into the kernel's maps. */
#ifndef AGENT_SERVICE_H
#define AGENT_SERVICE_H

#include "agent/agent.h"

/* Everything of the configuration, listeners included. Prints what fails. */
int service_set_all(struct agent *agent, const struct kv_config *config);

/* id of the service of this name; KV_NONE: there is none */
__u32 service_find(const struct agent *agent, const char *name);
/* id of a backend that is neither FREE nor being removed */
__u32 backend_find(const struct agent *agent, const char *name);

int service_add(struct agent *agent, const struct kv_config *config,
		const struct kv_config_service *from);
/* After an error of service_add. */
void service_undo_add(struct agent *agent, const struct kv_config_service *from);
/* All but its addresses and backends: effective with the next decision. */
void service_update(struct agent *agent, __u32 id, const struct kv_config_service *from);
/* Closes the addresses that are not listed any more; opens those that are new, all or none. */
void service_unlisten_others(struct agent *agent, __u32 id, const struct kv_config_service *from);
int service_listen(struct agent *agent, const struct kv_config *config, __u32 id,
		   const struct kv_config_service *from);
/* Its listeners close; its clients stay until they end. Its backends are to be removed first. */
void service_remove(struct agent *agent, __u32 id);

/* KV_NONE: all max_backends are in use. */
__u32 backend_free_id(const struct agent *agent);
int backend_add(struct agent *agent, const struct kv_config *config, __u32 service,
		const struct kv_config_backend *from);
void backend_update(struct agent *agent, __u32 id, const struct kv_config_backend *from);
/* Gets no new request; those that wait for a connection to it go elsewhere. */
void backend_drain(struct agent *agent, __u32 id);
void backend_undrain(struct agent *agent, __u32 id);
/* DRAINING now, FREE when its last request has ended. */
void backend_remove(struct agent *agent, __u32 id);
/* Whether it would be FREE at once. */
bool backend_unused(const struct agent *agent, __u32 id);
/* Second half of removing, called as time goes by. */
void backend_free_if_empty(struct agent *agent, __u32 id);

#endif
