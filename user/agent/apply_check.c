// SPDX-License-Identifier: BSD-2-Clause
/* What can fail of a configuration's changes, tried before the first of them is made. */
#include <errno.h>
#include <string.h>

#include "agent/apply.h"
#include "agent/discover_file.h"
#include "agent/follow.h"
#include "agent/listen.h"
#include "agent/service.h"

/* Two addresses that the kernel does not let listen at once. */
static bool collide(const struct kv_addr *a, const struct kv_addr *b)
{
	return a->port == b->port &&
	       (kv_addr_is_any(a) || kv_addr_is_any(b) || kv_addr_equal(a, b));
}

/* In our own hands now, in those of a service that keeps it or gives it up: no one else has it. */
static bool is_ours(const struct agent *agent, const struct kv_addr *address)
{
	for (__u32 i = 0; i < agent->config->n_services; i++)
		for (__u32 j = 0; j < agent->config->services[i].n_listen; j++)
			if (collide(&agent->config->services[i].listen[j], address))
				return true;
	return false;
}

static int check_listen(struct agent *agent, const struct kv_config *to,
			const struct kv_config_service *service, char *err, size_t errlen)
{
	char text[KV_ADDR_TEXT];
	int ret;

	for (__u32 i = 0; i < service->n_listen; i++) {
		const struct kv_addr *address = &service->listen[i];

		ret = attach_listen(&agent->attach, to, address);
		if (!ret && !is_ours(agent, address))
			ret = listen_probe(agent, address);
		if (ret) {
			apply_say(err, errlen,
				  "service %s: listen %s: %s; nothing has been changed (the "
				  "agent's log says more)",
				  service->name, kv_addr_format(address, text, sizeof(text)),
				  strerror(-ret));
			return ret;
		}
	}
	return 0;
}

static int check_backend(struct agent *agent, const struct kv_config *to,
			 const struct kv_config_backend *backend, char *err, size_t errlen)
{
	struct route_info route;
	int ret = attach_backend(&agent->attach, to, backend, &route);

	if (ret)
		apply_say(err, errlen,
			  "backend %s: %s; nothing has been changed (the agent's log says more)",
			  backend->name, strerror(-ret));
	return ret;
}

/* Ids: max_backends of them were made at start. */
static int check_ids(struct agent *agent, const struct kv_diff *diff, char *err, size_t errlen)
{
	__u32 added = 0, free_ids = 0;

	for (__u32 i = 0; i < agent->dp.max_backends; i++)
		free_ids += agent->dp.backends[i].state == KV_BACKEND_FREE;
	for (size_t i = 0; i < diff->n; i++) {
		const struct kv_change *change = &diff->changes[i];
		__u32 id;

		added += change->type == KV_CHANGE_BACKEND_ADDED;
		if (change->type != KV_CHANGE_BACKEND_REMOVED)
			continue;
		id = backend_find(agent, change->old_backend->name);
		free_ids += id != KV_NONE && backend_unused(agent, id);
	}
	if (added <= free_ids)
		return 0;
	apply_say(err, errlen,
		  "services: %u backends to add, room for %u of max_backends = %u (one that is "
		  "removed keeps its place until its last request has ended); nothing has been "
		  "changed",
		  added, free_ids, agent->dp.max_backends);
	return -ENOSPC;
}

int apply_check(struct agent *agent, const struct kv_config *to, const struct kv_diff *diff,
		char *err, size_t errlen)
{
	int ret = check_ids(agent, diff, err, errlen);

	if (!ret)
		ret = following_check(agent, to, err, errlen);
	if (!ret)
		ret = discover_file_check(agent, to, err, errlen);

	for (size_t i = 0; !ret && i < diff->n; i++) {
		const struct kv_change *change = &diff->changes[i];

		if (change->type == KV_CHANGE_BACKEND_ADDED)
			ret = check_backend(agent, to, change->new_backend, err, errlen);
		else if (change->type == KV_CHANGE_SERVICE_ADDED ||
			 (change->type == KV_CHANGE_SERVICE && !strcmp(change->key, "listen")))
			ret = check_listen(agent, to, change->new_service, err, errlen);
	}
	return ret;
}
