// SPDX-License-Identifier: BSD-2-Clause
/*
 * A configuration applied while running: all of it or nothing. What can fail is tried first
 * (apply_check); what fails nevertheless, because something changed in between, ends the walk, and
 * then the running configuration is made to say what is in force.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/apply.h"
#include "agent/discover.h"
#include "agent/discover_file.h"
#include "agent/follow.h"
#include "agent/service.h"
#include "common/cleanup.h"
#include "common/config_diff.h"
#include "common/log.h"

void apply_say(char *err, size_t errlen, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(err, errlen, format, args);
	va_end(args);
}

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
		if (!strcmp(change->key, "listen"))
			return service_listen(agent, to, id, change->new_service);
		service_update(agent, id, change->new_service);
		return 0;
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
	memcpy(to->user, from->user, sizeof(to->user));
	memcpy(to->tenant_header, from->tenant_header, sizeof(to->tenant_header));
	to->max_backends = from->max_backends;
	to->upstreams_per_backend = from->upstreams_per_backend;
	to->max_clients = from->max_clients;
	to->max_prefixes = from->max_prefixes;
	to->max_sessions = from->max_sessions;
	to->limits.events = from->limits.events;
	to->trace.requests = from->trace.requests;
}

/* ---- after a failure: to says what is in force --------------------------------------- */

static void keep_service_value(struct agent *agent, const struct kv_change *change)
{
	struct kv_config_service *service = (struct kv_config_service *)change->new_service;
	const struct kv_service *real;

	if (strcmp(change->key, "listen")) {
		service->policy = change->old_service->policy;
		service->floor = change->old_service->floor;
		service->affinity = change->old_service->affinity;
		service->body_limit = change->old_service->body_limit;
		service->answer_header = change->old_service->answer_header;
		service->events = change->old_service->events;
		service->discover = change->old_service->discover;
		return;
	}
	real = &agent->dp.services[service_find(agent, service->name)];
	service->n_listen = real->n_listen;
	for (__u32 i = 0; i < real->n_listen; i++)
		memcpy(&service->listen[i], &real->listen[i], sizeof(service->listen[i]));
}

/* Takes out of to what was not added; a name of no length marks it. */
static void drop_marked(struct kv_config *to)
{
	__u32 n_services = 0;

	for (__u32 i = 0; i < to->n_services; i++) {
		struct kv_config_service *service = &to->services[i];
		__u32 n = 0;

		for (__u32 j = 0; j < service->n_backends; j++)
			if (*service->backends[j].name)
				service->backends[n++] = service->backends[j];
		service->n_backends = n;
		if (*service->name)
			to->services[n_services++] = *service;
		else
			free(service->backends);
	}
	to->n_services = n_services;
}

/* Removals come first in a diff and cannot fail; instance keys are in force as they are read. */
static void keep_unapplied(struct agent *agent, struct kv_config *to, const struct kv_diff *diff,
			   size_t applied)
{
	for (size_t i = applied; i < diff->n; i++) {
		const struct kv_change *change = &diff->changes[i];

		if (change->type == KV_CHANGE_SERVICE) {
			keep_service_value(agent, change);
		} else if (change->type == KV_CHANGE_BACKEND) {
			struct kv_config_backend *backend =
				(struct kv_config_backend *)change->new_backend;

			backend->capacity = change->old_backend->capacity;
			backend->rate = change->old_backend->rate;
			backend->events_port = change->old_backend->events_port;
			backend->replay_port = change->old_backend->replay_port;
			backend->origin = change->old_backend->origin;
		} else if (change->type == KV_CHANGE_BACKEND_ADDED && change->old_service) {
			*((struct kv_config_backend *)change->new_backend)->name = 0;
		} else if (change->type == KV_CHANGE_SERVICE_ADDED) {
			*((struct kv_config_service *)change->new_service)->name = 0;
		}
	}
	drop_marked(to);
}

/* ---- all of it ----------------------------------------------------------------------- */

/* What waits for the next start is told once, not at every apply. */
static bool told_before(const struct agent *agent, const struct kv_change *change)
{
	const char *at = agent->told;
	size_t len = strlen(change->text);

	while (at && *at) {
		if (!strncmp(at, change->text, len) && at[len] == '\n')
			return true;
		at = strchr(at, '\n') + 1;
	}
	return false;
}

static void remember_told(struct agent *agent, const struct kv_diff *diff)
{
	char *told = calloc(diff->n + 1, sizeof(diff->changes->text) + 1), *end = told;

	for (size_t i = 0; told && i < diff->n; i++)
		if (diff->changes[i].restart)
			end += sprintf(end, "%s\n", diff->changes[i].text);
	free(agent->told);
	agent->told = told;
}

static void tell(yyjson_mut_doc *doc, yyjson_mut_val *changes, const struct kv_change *change)
{
	char line[sizeof(change->text) + 32];

	snprintf(line, sizeof(line), "%s%s", change->text,
		 change->restart ? " (at the next start)" : "");
	yyjson_mut_arr_add_strcpy(doc, changes, line);
	kv_info("apply: %s", line);
}

static void say_failed(const struct kv_diff *diff, size_t applied, int ret, char *err,
		       size_t errlen)
{
	size_t n;

	apply_say(err, errlen, "%s: %s (the agent's log says more)", diff->changes[applied].text,
		  strerror(-ret));
	for (size_t i = 0; i < applied; i++) {
		n = strlen(err);
		if (!diff->changes[i].restart)
			apply_say(err + n, errlen - n, "; applied: %s", diff->changes[i].text);
	}
}

static int apply_diff(struct agent *agent, struct kv_config *to, const struct kv_diff *diff,
		      yyjson_mut_doc *doc, yyjson_mut_val *changes, char *err, size_t errlen)
{
	/* An address may move between services: first all that go, then all that come. */
	for (size_t i = 0; i < diff->n; i++)
		if (diff->changes[i].type == KV_CHANGE_SERVICE)
			service_unlisten_others(
				agent, service_find(agent, diff->changes[i].new_service->name),
				diff->changes[i].new_service);
	for (size_t i = 0; i < diff->n; i++) {
		const struct kv_change *change = &diff->changes[i];
		int ret = change->restart ? 0 : apply_change(agent, to, change);

		if (ret) {
			say_failed(diff, i, ret, err, errlen);
			keep_unapplied(agent, to, diff, i);
			return ret;
		}
		if (!change->restart || !told_before(agent, change))
			tell(doc, changes, change);
	}
	remember_told(agent, diff);
	return 0;
}

/* Takes to over, also when it fails. */
static int apply_to(struct agent *agent, struct kv_config *to, yyjson_mut_doc *doc,
		    yyjson_mut_val *changes, char *err, size_t errlen)
{
	struct kv_config *from = agent->config;
	struct kv_diff diff;
	int ret = discover_keep(agent, to) ?: kv_config_diff(from, to, &diff);

	if (ret) {
		apply_say(err, errlen, "%s", strerror(-ret));
		kv_config_free(to);
		return ret;
	}
	keep_made(to, from);
	ret = apply_check(agent, to, &diff, err, errlen);
	if (!ret) {
		ret = apply_diff(agent, to, &diff, doc, changes, err, errlen);
		agent->config = to;
		dataplane_trace(&agent->dp, to->trace.sample);
		following_apply(agent, from);
		discover_apply(agent);
		/* not yet while the agent starts: what it may read then, it may not later */
		if (agent->discovery) {
			discover_file_apply(agent);
			discover_file_note(agent);
		}
		to = from;
	}
	kv_diff_free(&diff);
	kv_config_free(to);
	return ret;
}

int apply_config(struct agent *agent, const char *name, const char *text, size_t len,
		 yyjson_mut_doc *doc, yyjson_mut_val *out, char *err, size_t errlen)
{
	yyjson_mut_val *changes = yyjson_mut_obj_add_arr(doc, out, "changes");
	struct kv_config *to = NULL;
	int ret = kv_config_load_text(name, text, len, &to, err, errlen);

	return ret ? ret : apply_to(agent, to, doc, changes, err, errlen);
}

int apply_file(struct agent *agent, struct kv_config *to, char *err, size_t errlen)
{
	_cleanup_json_mut_ yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);

	return apply_to(agent, to, doc, yyjson_mut_arr(doc), err, errlen);
}
