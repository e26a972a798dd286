// SPDX-License-Identifier: BSD-2-Clause
#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>

#include "agent/client.h"
#include "agent/follow.h"
#include "agent/listen.h"
#include "agent/pool.h"
#include "agent/service.h"
#include "agent/told.h"
#include "common/log.h"

__u32 service_find(const struct agent *agent, const char *name)
{
	for (__u32 i = 0; i < KV_MAX_SERVICES; i++)
		if (agent->dp.services[i].flags && !strcmp(agent->dp.services[i].name, name))
			return i;
	return KV_NONE;
}

__u32 backend_find(const struct agent *agent, const char *name)
{
	for (__u32 i = 0; i < agent->dp.max_backends; i++)
		if (agent->dp.backends[i].state != KV_BACKEND_FREE && !agent->pools[i].removing &&
		    !strcmp(agent->dp.backends[i].name, name))
			return i;
	return KV_NONE;
}

void service_update(struct agent *agent, __u32 id, const struct kv_config_service *from)
{
	struct kv_service *service = &agent->dp.services[id];

	kv_write_once(service->policy, from->policy);
	kv_write_once(service->floor, from->floor);
	kv_write_once(service->affinity, from->affinity);
	kv_write_once(service->body_limit, from->body_limit);
	if (from->answer_header)
		kv_atomic_fetch_or(&service->flags, KV_SERVICE_HEADER);
	else
		kv_atomic_fetch_and(&service->flags, ~KV_SERVICE_HEADER);
	service->events = from->events;
	if (memcmp(&service->discover, &from->discover, sizeof(from->discover)))
		memset(&service->found, 0, sizeof(service->found));
	service->discover = from->discover;
}

static bool listens_on(const struct kv_service *service, const struct kv_addr *address)
{
	for (__u32 i = 0; i < service->n_listen; i++)
		if (!memcmp(&service->listen[i], address, sizeof(*address)))
			return true;
	return false;
}

static void service_unlisten(struct agent *agent, __u32 id, const struct kv_addr *address)
{
	bpf_map_delete_elem(agent->dp.service_ids_fd, address);
	listen_close(agent, id, address);
}

void service_unlisten_others(struct agent *agent, __u32 id, const struct kv_config_service *from)
{
	struct kv_service *service = &agent->dp.services[id];
	__u32 kept = 0;

	for (__u32 i = 0; i < service->n_listen; i++) {
		struct kv_addr old;
		bool keep = false;

		memcpy(&old, &service->listen[i], sizeof(old));
		for (__u32 j = 0; j < from->n_listen; j++)
			keep |= kv_addr_equal(&old, &from->listen[j]);
		if (keep)
			service->listen[kept++] = service->listen[i];
		else
			service_unlisten(agent, id, &old);
	}
	kv_write_once(service->n_listen, kept);
}

static int service_listen_one(struct agent *agent, const struct kv_config *config, __u32 id,
			      const struct kv_addr *address)
{
	int err = attach_listen(&agent->attach, config, address);

	if (!err)
		err = listen_open(agent, id, address);
	/* From here on the kernel serves it. */
	if (!err && bpf_map_update_elem(agent->dp.service_ids_fd, address, &id, BPF_ANY)) {
		err = -errno;
		kv_err("service %s: cannot enter its address: %s", agent->dp.services[id].name,
		       strerror(-err));
	}
	if (err)
		listen_close(agent, id, address);
	return err;
}

int service_listen(struct agent *agent, const struct kv_config *config, __u32 id,
		   const struct kv_config_service *from)
{
	struct kv_service *service = &agent->dp.services[id];

	for (__u32 i = 0; i < from->n_listen; i++) {
		int err;

		if (listens_on(service, &from->listen[i]))
			continue;
		err = service_listen_one(agent, config, id, &from->listen[i]);
		if (!err)
			continue;
		while (i--)
			if (!listens_on(service, &from->listen[i]))
				service_unlisten(agent, id, &from->listen[i]);
		return err;
	}
	memcpy(service->listen, from->listen, sizeof(from->listen[0]) * from->n_listen);
	kv_write_once(service->n_listen, from->n_listen);
	return 0;
}

int service_add(struct agent *agent, const struct kv_config *config,
		const struct kv_config_service *from)
{
	struct kv_service *service;
	__u32 id = 0;
	int err = 0;

	while (id < KV_MAX_SERVICES && agent->dp.services[id].flags)
		id++;
	if (id == KV_MAX_SERVICES) {
		kv_err("service %s: more than %d services", from->name, KV_MAX_SERVICES);
		return -E2BIG;
	}
	service = &agent->dp.services[id];
	memset(service, 0, sizeof(*service));
	memcpy(service->name, from->name, sizeof(service->name));
	service_update(agent, id, from);
	kv_atomic_fetch_or(&service->flags, KV_SERVICE_UP);
	for (__u32 i = 0; !err && i < from->n_backends; i++)
		err = backend_add(agent, config, id, &from->backends[i]);
	if (!err)
		err = service_listen(agent, config, id, from);
	return err;
}

void service_undo_add(struct agent *agent, const struct kv_config_service *from)
{
	__u32 id = service_find(agent, from->name);

	if (id != KV_NONE)
		service_remove(agent, id);
	for (__u32 i = 0; i < from->n_backends; i++) {
		id = backend_find(agent, from->backends[i].name);
		if (id != KV_NONE)
			backend_remove(agent, id);
	}
}

void service_remove(struct agent *agent, __u32 id)
{
	struct kv_service *service = &agent->dp.services[id];
	struct kv_addr address;

	for (__u32 i = 0; i < service->n_listen; i++) {
		memcpy(&address, &service->listen[i], sizeof(address));
		service_unlisten(agent, id, &address);
	}
	kv_write_once(service->flags, 0);
}

/* Ids leave the service's list by closing the gap: a decision that reads it meanwhile may see one
 * backend twice, which costs nothing. */
static void service_forget_backend(struct kv_service *service, __u32 id)
{
	for (__u32 i = 0; i < service->n_backends; i++) {
		if (service->backends[i] != id)
			continue;
		for (__u32 j = i + 1; j < service->n_backends; j++)
			kv_write_once(service->backends[j - 1], service->backends[j]);
		kv_write_once(service->n_backends, service->n_backends - 1);
		return;
	}
}

void backend_update(struct agent *agent, __u32 id, const struct kv_config_backend *from)
{
	struct kv_backend *backend = &agent->dp.backends[id];

	kv_write_once(backend->capacity_set, from->capacity);
	kv_write_once(backend->rate_set, from->rate);
	kv_write_once(backend->rate, from->rate ?: backend->rate ?: KV_DEFAULT_RATE);
	kv_write_once(backend->events_port, from->events_port);
	kv_write_once(backend->replay_port, from->replay_port);
	kv_write_once(backend->origin, from->origin);
	following_reckon(agent, id);
}

/* The one that has been free for longest: a decision may still be under way that took its former
 * owner, and would find the new one's upstreams. */
__u32 backend_free_id(const struct agent *agent)
{
	__u32 best = KV_NONE;

	for (__u32 i = 0; i < agent->dp.max_backends; i++)
		if (agent->dp.backends[i].state == KV_BACKEND_FREE &&
		    (best == KV_NONE || agent->pools[i].closed_ns < agent->pools[best].closed_ns))
			best = i;
	return best;
}

int backend_add(struct agent *agent, const struct kv_config *config, __u32 service,
		const struct kv_config_backend *from)
{
	struct kv_service *to = &agent->dp.services[service];
	struct kv_backend *backend;
	struct route_info route;
	__u32 id = backend_free_id(agent), epoch;
	int err;

	if (id == KV_NONE) {
		kv_err("backend %s: more than max_backends = %u", from->name,
		       agent->dp.max_backends);
		return -E2BIG;
	}
	err = attach_backend(&agent->attach, config, from, &route);
	if (err)
		return err;

	backend = &agent->dp.backends[id];
	/* Holders of the id's former owner die with the epoch. */
	epoch = backend->epoch + 1;
	memset(backend, 0, sizeof(*backend));
	memcpy(backend->name, from->name, sizeof(backend->name));
	memcpy(backend->addr, from->address.addr, sizeof(backend->addr));
	backend->port = from->address.port;
	backend->path = route.local ? KV_PATH_LOCAL : 0;
	backend->ifindex = route.ifindex;
	backend->service = service;
	backend->epoch = epoch;
	backend_update(agent, id, from);
	kv_write_once(backend->state, KV_BACKEND_UP);
	pool_open(agent, id);

	to->backends[to->n_backends] = id;
	kv_write_once(to->n_backends, to->n_backends + 1);
	return 0;
}

void backend_drain(struct agent *agent, __u32 id)
{
	kv_write_once(agent->dp.backends[id].state, KV_BACKEND_DRAINING);
	kv_info("backend %s: draining", agent->dp.backends[id].name);
	client_move_waiting(agent, id);
}

void backend_undrain(struct agent *agent, __u32 id)
{
	struct kv_backend *backend = &agent->dp.backends[id];

	if (backend->state != KV_BACKEND_DRAINING)
		return;
	kv_write_once(backend->state, agent->pools[id].away ? KV_BACKEND_DOWN : KV_BACKEND_UP);
	following_look(agent, id);
	kv_info("backend %s: takes requests again", backend->name);
}

void backend_remove(struct agent *agent, __u32 id)
{
	backend_drain(agent, id);
	agent->pools[id].removing = true;
	service_forget_backend(&agent->dp.services[agent->dp.backends[id].service], id);
	backend_free_if_empty(agent, id);
}

bool backend_unused(const struct agent *agent, __u32 id)
{
	const struct pool *pool = &agent->pools[id];

	return !kv_read_once(agent->dp.backends[id].inflight_requests) && !pool->n_connecting &&
	       pool->n_open == pool_count_idle(agent, id);
}

void backend_free_if_empty(struct agent *agent, __u32 id)
{
	struct kv_backend *backend = &agent->dp.backends[id];

	if (kv_read_once(backend->inflight_requests) || !pool_close_idle(agent, id))
		return;
	kv_info("backend %s: removed", backend->name);
	pool_close(agent, id);
	kv_write_once(backend->state, KV_BACKEND_FREE);
	/* Now, not at their next look: the id may be another engine's by then. */
	following_look(agent, id);
	told_removed(agent, id);
}

int service_set_all(struct agent *agent, const struct kv_config *config)
{
	int err = 0;

	for (__u32 i = 0; !err && i < config->n_services; i++)
		err = service_add(agent, config, &config->services[i]);
	return err;
}
