// SPDX-License-Identifier: BSD-2-Clause
/*
 * Services and backends as the maps have them: with their ids, which slots and holders name, their
 * epochs, clocks and sums. The configuration is made to say the same, so that what differs from the
 * file can be applied like any other change.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/apply.h"
#include "agent/handover.h"
#include "agent/listen.h"
#include "agent/pool.h"
#include "common/log.h"

static bool is_listed(const struct kv_service *service, __u32 backend)
{
	for (__u32 i = 0; i < service->n_backends; i++)
		if (service->backends[i] == backend)
			return true;
	return false;
}

/* One that is being removed has left its service's list. */
static bool is_removing(const struct agent *agent, __u32 id)
{
	const struct kv_backend *backend = &agent->dp.backends[id];

	return !is_listed(&agent->dp.services[backend->service], id);
}

/* ---- the configuration --------------------------------------------------------------- */

static void backend_to_config(const struct kv_backend *from, struct kv_config_backend *to)
{
	memcpy(to->name, from->name, sizeof(to->name));
	memcpy(to->address.addr, from->addr, sizeof(to->address.addr));
	to->address.port = from->port;
	to->capacity = from->capacity_set;
	to->rate = from->rate_set;
	to->events_port = from->events_port;
	to->replay_port = from->replay_port;
	to->origin = from->origin;
}

static int service_to_config(const struct agent *agent, const struct kv_service *from,
			     struct kv_config_service *to)
{
	memcpy(to->name, from->name, sizeof(to->name));
	memcpy(to->listen, from->listen, sizeof(to->listen));
	to->n_listen = from->n_listen;
	to->policy = from->policy;
	to->floor = from->floor;
	to->affinity = from->affinity;
	to->body_limit = from->body_limit;
	to->answer_header = from->flags & KV_SERVICE_HEADER;
	to->events = from->events;
	to->discover = from->discover;
	to->backends = calloc(from->n_backends + 1, sizeof(*to->backends));
	if (!to->backends)
		return -ENOMEM;
	for (__u32 i = 0; i < from->n_backends; i++)
		backend_to_config(&agent->dp.backends[from->backends[i]], &to->backends[i]);
	to->n_backends = from->n_backends;
	return 0;
}

/* What the file says of services waits in handover.file; what is in force takes its place. */
static int state_to_config(struct agent *agent)
{
	struct kv_config *config = agent->config;
	int err = 0;

	if (config->n_services) {
		agent->handover->file = malloc(sizeof(*config));
		if (!agent->handover->file)
			return -ENOMEM;
		*agent->handover->file = *config;
	}
	config->n_services = 0;
	config->services = calloc(KV_MAX_SERVICES, sizeof(*config->services));
	if (!config->services)
		return -ENOMEM;
	for (__u32 i = 0; !err && i < KV_MAX_SERVICES; i++)
		if (agent->dp.services[i].flags)
			err = service_to_config(agent, &agent->dp.services[i],
						&config->services[config->n_services++]);
	return err;
}

/* ---- the maps ------------------------------------------------------------------------ */

static void state_backend(struct agent *agent, __u32 id)
{
	struct kv_backend *backend = &agent->dp.backends[id];
	struct route_info route;

	if (backend->service >= KV_MAX_SERVICES) {
		kv_write_once(backend->state, KV_BACKEND_FREE);
		return;
	}
	pool_take_over(agent, id);
	agent->pools[id].removing = is_removing(agent, id);
	/* Interfaces may have been made anew. */
	if (route_get(agent->attach.routes, backend->addr, &route))
		return;
	kv_write_once(backend->ifindex, route.ifindex);
	kv_write_once(backend->path, route.local ? KV_PATH_LOCAL : 0);
}

int handover_state(struct agent *agent)
{
	int err = state_to_config(agent);

	if (err) {
		kv_err("out of memory");
		return err;
	}
	for (__u32 i = 0; i < KV_MAX_SERVICES; i++)
		kv_atomic_fetch_and(&agent->dp.services[i].flags, ~KV_SERVICE_DRAINING);
	for (__u32 i = 0; i < agent->dp.max_backends; i++)
		if (agent->dp.backends[i].state != KV_BACKEND_FREE)
			state_backend(agent, i);
	return 0;
}

int handover_listen(struct agent *agent)
{
	int err = 0;

	for (__u32 i = 0; !err && i < KV_MAX_SERVICES; i++) {
		const struct kv_service *service = &agent->dp.services[i];

		for (__u32 j = 0; !err && service->flags && j < service->n_listen; j++)
			err = listen_open(agent, i, (const struct kv_addr *)&service->listen[j]);
	}
	return err;
}

void handover_apply(struct agent *agent)
{
	struct kv_config *file = agent->handover->file;
	char err[KV_CONFIG_ERROR_LEN];

	agent->handover->file = NULL;
	if (file && apply_file(agent, file, err, sizeof(err)))
		kv_warn("the configuration's changes are not in force: %s", err);
}
