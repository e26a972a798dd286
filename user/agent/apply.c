// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/apply.h"
#include "agent/service.h"
#include "common/config_diff.h"
#include "common/log.h"

#define DEFAULT_CAPACITY 262144 /* as for a file that does not say */
#define DEFAULT_RATE 16000

static void __attribute__((format(printf, 3, 4)))
say(char *err, size_t errlen, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(err, errlen, format, args);
	va_end(args);
}

/* ---- single backends ----------------------------------------------------------------- */

static struct kv_config_service *config_service(struct agent *agent, const char *name)
{
	for (__u32 i = 0; i < agent->config->n_services; i++)
		if (!strcmp(agent->config->services[i].name, name))
			return &agent->config->services[i];
	return NULL;
}

int apply_backend_add(struct agent *agent, const char *service, struct kv_config_backend *backend,
		      char *err, size_t errlen)
{
	struct kv_config_service *to = config_service(agent, service);
	struct kv_config_backend *grown;
	int ret;

	if (!to) {
		say(err, errlen, "service %s: there is none of that name", service);
		return -ENOENT;
	}
	if (backend_find(agent, backend->name) != KV_NONE) {
		say(err, errlen, "backend %s: there is one of that name", backend->name);
		return -EEXIST;
	}
	for (__u32 i = 0; i < to->n_backends; i++)
		if (kv_addr_equal(&to->backends[i].address, &backend->address)) {
			say(err, errlen, "backend %s: service %s has one of that address",
			    backend->name, service);
			return -EEXIST;
		}
	if (!backend->capacity)
		backend->capacity = DEFAULT_CAPACITY;
	if (!backend->rate)
		backend->rate = DEFAULT_RATE;
	grown = realloc(to->backends, (to->n_backends + 1) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	to->backends = grown;
	ret = backend_add(agent, agent->config, service_find(agent, service), backend);
	if (ret) {
		say(err, errlen, "backend %s: %s (the agent's log says more)", backend->name,
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
		say(err, errlen, "backend %s: there is none of that name", name);
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

int apply_backend_remove(struct agent *agent, const char *name, char *err, size_t errlen)
{
	__u32 id = backend_of(agent, name, err, errlen);

	if (id == KV_NONE)
		return -ENOENT;
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
	return 0;
}

/* ---- a whole configuration ----------------------------------------------------------- */

static int apply_change(struct agent *agent, const struct kv_config *to,
			const struct kv_change *change)
{
	const struct kv_config_service *service =
		change->new_service ? change->new_service : change->old_service;
	__u32 id = service ? service_find(agent, service->name) : KV_NONE;
	int err;

	switch (change->type) {
	case KV_CHANGE_INSTANCE:
		return 0; /* read from the configuration wherever it is used */
	case KV_CHANGE_SERVICE_ADDED:
		err = service_add(agent, to, change->new_service);
		if (err)
			service_undo_add(agent, change->new_service);
		return err;
	case KV_CHANGE_SERVICE_REMOVED:
		service_remove(agent, id);
		return 0;
	case KV_CHANGE_SERVICE:
		service_update(agent, id, change->new_service);
		return service_listen(agent, to, id, change->new_service);
	case KV_CHANGE_BACKEND_ADDED:
		/* A new service comes with its backends. */
		return change->old_service ? backend_add(agent, to, id, change->new_backend) : 0;
	case KV_CHANGE_BACKEND_REMOVED:
		backend_remove(agent, backend_find(agent, change->old_backend->name));
		return 0;
	case KV_CHANGE_BACKEND:
		backend_update(agent, backend_find(agent, change->new_backend->name),
			       change->new_backend);
		return 0;
	}
	return 0;
}

/* What was made at start stays as it was made: the next difference will name it again. */
static void keep_made(struct kv_config *to, const struct kv_config *from)
{
	memcpy(to->pin, from->pin, sizeof(to->pin));
	memcpy(to->control, from->control, sizeof(to->control));
	memcpy(to->interfaces, from->interfaces, sizeof(to->interfaces));
	to->n_interfaces = from->n_interfaces;
	memcpy(to->session_headers, from->session_headers, sizeof(to->session_headers));
	to->n_session_headers = from->n_session_headers;
	to->max_backends = from->max_backends;
	to->upstreams_per_backend = from->upstreams_per_backend;
	to->max_clients = from->max_clients;
	to->max_prefixes = from->max_prefixes;
	to->max_sessions = from->max_sessions;
}

int apply_config(struct agent *agent, const char *name, const char *text, size_t len,
		 yyjson_mut_doc *doc, yyjson_mut_val *out, char *err, size_t errlen)
{
	yyjson_mut_val *changes = yyjson_mut_obj_add_arr(doc, out, "changes");
	char line[sizeof(((struct kv_change *)0)->text) + 32];
	struct kv_config *to;
	struct kv_diff diff;
	int ret = kv_config_load_text(name, text, len, &to, err, errlen);

	if (ret)
		return ret;
	ret = kv_config_diff(agent->config, to, &diff);
	if (ret) {
		say(err, errlen, "%s", strerror(-ret));
		kv_config_free(to);
		return ret;
	}
	keep_made(to, agent->config);
	for (size_t i = 0; i < diff.n; i++) {
		const struct kv_change *change = &diff.changes[i];

		snprintf(line, sizeof(line), "%s%s", change->text,
			 change->restart ? " (at the next start)" : "");
		yyjson_mut_arr_add_strcpy(doc, changes, line);
		kv_info("apply: %s", line);
		if (change->restart)
			continue;
		ret = apply_change(agent, to, change);
		if (ret) {
			say(err, errlen, "%s: %s (the agent's log says more)", change->text,
			    strerror(-ret));
			break;
		}
	}
	kv_diff_free(&diff);
	kv_config_free(agent->config);
	agent->config = to;
	return ret;
}
