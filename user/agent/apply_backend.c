// SPDX-License-Identifier: BSD-2-Clause
/* Single backends, by hand: the same rules as for those of a file. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/apply.h"
#include "agent/service.h"
#include "common/config_read.h"

static struct kv_config_service *config_service(struct agent *agent, const char *name)
{
	for (__u32 i = 0; i < agent->config->n_services; i++)
		if (!strcmp(agent->config->services[i].name, name))
			return &agent->config->services[i];
	return NULL;
}

static int value_ok(const char *key, __u64 value, char *err, size_t errlen)
{
	const struct kv_config_rule *rule = kv_config_rule(key);

	if (value >= rule->min && value <= rule->max)
		return 0;
	apply_say(err, errlen, "%s: found %llu, expected %s", key, (unsigned long long)value,
		  rule->expected);
	return -EINVAL;
}

/* Whom does this address belong to already? */
static int address_ok(const struct kv_config *config, const struct kv_config_backend *backend,
		      char *err, size_t errlen)
{
	char text[KV_ADDR_TEXT];

	kv_addr_format(&backend->address, text, sizeof(text));
	for (__u32 i = 0; i < config->n_services; i++) {
		const struct kv_config_service *service = &config->services[i];

		for (__u32 j = 0; j < service->n_backends; j++)
			if (kv_addr_equal(&service->backends[j].address, &backend->address)) {
				apply_say(err, errlen,
					  "address %s: is that of backend %s of service %s: "
					  "expected each engine once",
					  text, service->backends[j].name, service->name);
				return -EEXIST;
			}
		for (__u32 j = 0; j < service->n_listen; j++)
			if (kv_addr_equal(&service->listen[j], &backend->address)) {
				apply_say(err, errlen,
					  "address %s: service %s listens on it: expected an "
					  "engine's address",
					  text, service->name);
				return -EINVAL;
			}
	}
	return 0;
}

static int backend_ok(struct agent *agent, const struct kv_config_backend *backend, char *err,
		      size_t errlen)
{
	int ret;

	if (!kv_config_name_ok(backend->name)) {
		apply_say(err, errlen, "name %s: expected %s", backend->name,
			  kv_config_expected("name"));
		return -EINVAL;
	}
	if (backend_find(agent, backend->name) != KV_NONE) {
		apply_say(err, errlen, "backend %s: there is one of that name", backend->name);
		return -EEXIST;
	}
	ret = !backend->capacity ? 0 : value_ok("capacity", backend->capacity, err, errlen);
	if (!ret && backend->rate)
		ret = value_ok("rate", backend->rate, err, errlen);
	if (!ret)
		ret = address_ok(agent->config, backend, err, errlen);
	if (ret || backend_free_id(agent) != KV_NONE)
		return ret;
	apply_say(err, errlen,
		  "backend %s: max_backends = %u are in use (one that is removed keeps its place "
		  "until its last request has ended)",
		  backend->name, agent->dp.max_backends);
	return -ENOSPC;
}

int apply_backend_add(struct agent *agent, const char *service, struct kv_config_backend *backend,
		      char *err, size_t errlen)
{
	struct kv_config_service *to = config_service(agent, service);
	struct kv_config_backend *grown;
	int ret;

	if (!to) {
		apply_say(err, errlen, "service %s: there is none of that name", service);
		return -ENOENT;
	}
	ret = backend_ok(agent, backend, err, errlen);
	if (ret)
		return ret;
	grown = realloc(to->backends, (to->n_backends + 1) * sizeof(*grown));
	if (!grown) {
		apply_say(err, errlen, "out of memory");
		return -ENOMEM;
	}
	to->backends = grown;
	ret = backend_add(agent, agent->config, service_find(agent, service), backend);
	if (ret) {
		apply_say(err, errlen, "backend %s: %s (the agent's log says more)", backend->name,
			  strerror(-ret));
		return ret;
	}
	to->backends[to->n_backends++] = *backend;
	return 0;
}

static __u32 backend_of(struct agent *agent, const char *name, char *err, size_t errlen)
{
	__u32 id = backend_find(agent, name);

	if (id == KV_NONE)
		apply_say(err, errlen, "backend %s: there is none of that name", name);
	return id;
}

int apply_backend_drain(struct agent *agent, const char *name, char *err, size_t errlen)
{
	__u32 id = backend_of(agent, name, err, errlen);

	if (id == KV_NONE)
		return -ENOENT;
	backend_drain(agent, id);
	return 0;
}

int apply_backend_undrain(struct agent *agent, const char *name, char *err, size_t errlen)
{
	__u32 id = backend_of(agent, name, err, errlen);

	if (id == KV_NONE)
		return -ENOENT;
	backend_undrain(agent, id);
	return 0;
}

void apply_backend_take(struct agent *agent, const char *name)
{
	__u32 id = backend_find(agent, name);

	if (id == KV_NONE)
		return;
	for (__u32 i = 0; i < agent->config->n_services; i++) {
		struct kv_config_service *service = &agent->config->services[i];

		for (__u32 j = 0; j < service->n_backends; j++) {
			if (strcmp(service->backends[j].name, name))
				continue;
			service->n_backends--;
			memmove(&service->backends[j], &service->backends[j + 1],
				(service->n_backends - j) * sizeof(service->backends[j]));
			break;
		}
	}
	backend_remove(agent, id);
}

/* One that a name stands for would be back within the second. */
int apply_backend_remove(struct agent *agent, const char *name, char *err, size_t errlen)
{
	__u32 id = backend_of(agent, name, err, errlen);
	const struct kv_backend *backend = &agent->dp.backends[id == KV_NONE ? 0 : id];

	if (id == KV_NONE)
		return -ENOENT;
	if (backend->origin == KV_ORIGIN_DNS) {
		apply_say(
			err, errlen,
			"backend %s: the DNS name %s stands for it: take it out there, or drain it",
			name, agent->dp.services[backend->service].discover.name);
		return -EPERM;
	}
	apply_backend_take(agent, name);
	return 0;
}
