/* SPDX-License-Identifier: BSD-2-Clause */
/* Tenants apart: the header that names them, and the keys that keep their hashes apart. */
#ifndef AGENT_TENANCY_H
#define AGENT_TENANCY_H

#include <kvsteer/request.h>
#include <kvsteer/shared.h>

#include "agent/agent.h"

/* Completes agent->names, before they are given to the kernel. Prints what fails. */
int tenancy_open(struct agent *agent);
/* A body's hashes become those of the request's tenant, as the parser does with a hint's. */
void tenancy_apply(const struct agent *agent, const struct kv_request *head,
		   struct kv_query *query);

#endif
