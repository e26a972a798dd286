// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/apply.h"
#include "agent/control_call.h"
#include "agent/discover.h"
#include "agent/follow.h"
#include "agent/restart.h"
#include "agent/service.h"
#include "common/cleanup.h"
#include "common/version.h"

static const char *call_text(struct call *call, const char *key)
{
	const char *text = yyjson_get_str(yyjson_obj_get(call->in, key));

	if (!text)
		snprintf(call->err, sizeof(call->err), "%s: missing, expected a string", key);
	return text;
}

static int verb_status(struct call *call)
{
	const struct agent *agent = call->agent;
	yyjson_mut_val *services = yyjson_mut_obj_add_arr(call->doc, call->out, "services");
	char text[KV_ADDR_TEXT], program[PATH_MAX];
	ssize_t n;

	yyjson_mut_obj_add_uint(call->doc, call->out, "pid", getpid());
	yyjson_mut_obj_add_str(call->doc, call->out, "version", kv_version);
	n = readlink("/proc/self/exe", program, sizeof(program) - 1);
	program[n > 0 ? n : 0] = 0;
	if (n > 0)
		yyjson_mut_obj_add_strcpy(call->doc, call->out, "program", program);
	yyjson_mut_obj_add_real(call->doc, call->out, "uptime_s",
				(double)(kv_now_ns() - agent->started_ns) / SECOND);
	yyjson_mut_obj_add_bool(call->doc, call->out, "draining", agent->draining);
	yyjson_mut_obj_add_uint(call->doc, call->out, "clients", agent->n_clients);
	yyjson_mut_obj_add_uint(call->doc, call->out, "memory_bytes", agent->memory.used);
	for (__u32 i = 0; i < KV_MAX_SERVICES; i++) {
		const struct kv_service *service = &agent->dp.services[i];
		yyjson_mut_val *entry, *listens;

		if (!service->flags)
			continue;
		entry = yyjson_mut_arr_add_obj(call->doc, services);
		yyjson_mut_obj_add_strcpy(call->doc, entry, "name", service->name);
		listens = yyjson_mut_obj_add_arr(call->doc, entry, "listen");
		for (__u32 j = 0; j < service->n_listen; j++)
			yyjson_mut_arr_add_strcpy(
				call->doc, listens,
				kv_addr_format((const struct kv_addr *)&service->listen[j], text,
					       sizeof(text)));
	}
	return 0;
}

static int verb_backend_add(struct call *call)
{
	const char *service = call_text(call, "service");
	const char *address = service ? call_text(call, "address") : NULL;
	const char *name = yyjson_get_str(yyjson_obj_get(call->in, "name"));
	yyjson_val *capacity = yyjson_obj_get(call->in, "capacity");
	yyjson_val *rate = yyjson_obj_get(call->in, "rate");
	struct kv_config_backend backend = {
		.capacity = capacity ? yyjson_get_uint(capacity) : 0,
		.rate = rate ? yyjson_get_uint(rate) : 0,
		.origin = KV_ORIGIN_HAND,
	};

	char text[KV_ADDR_TEXT];

	if (!address)
		return -EINVAL;
	if (kv_addr_parse(address, &backend.address) || kv_addr_is_any(&backend.address)) {
		snprintf(call->err, sizeof(call->err), "address %s: expected " KV_ADDR_EXPECTED,
			 address);
		return -EINVAL;
	}
	if (!name)
		name = kv_addr_format(&backend.address, text, sizeof(text));
	if (strlen(name) >= sizeof(backend.name)) {
		snprintf(call->err, sizeof(call->err), "name %.80s: longer than %zu bytes", name,
			 sizeof(backend.name) - 1);
		return -EINVAL;
	}
	strcpy(backend.name, name);
	return apply_backend_add(call->agent, service, &backend, call->err, sizeof(call->err));
}

static int verb_backend_drain(struct call *call)
{
	const char *name = call_text(call, "name");

	return name ? apply_backend_drain(call->agent, name, call->err, sizeof(call->err))
		    : -EINVAL;
}

static int verb_backend_undrain(struct call *call)
{
	const char *name = call_text(call, "name");

	return name ? apply_backend_undrain(call->agent, name, call->err, sizeof(call->err))
		    : -EINVAL;
}

static int verb_backend_remove(struct call *call)
{
	const char *name = call_text(call, "name");

	return name ? apply_backend_remove(call->agent, name, call->err, sizeof(call->err))
		    : -EINVAL;
}

/* Which backends would be asked for this model. */
static int verb_serving(struct call *call)
{
	const char *service = call_text(call, "service");
	const char *model = service ? call_text(call, "model") : NULL;
	struct model_set serving;
	yyjson_mut_val *list;
	__u32 id;

	if (!model)
		return -EINVAL;
	id = service_find(call->agent, service);
	if (id == KV_NONE) {
		snprintf(call->err, sizeof(call->err), "service \"%.80s\": there is none", service);
		return -ENOENT;
	}
	following_serving(call->agent, id, model, strlen(model), &serving);
	list = yyjson_mut_obj_add_arr(call->doc, call->out, "backends");
	for (__u32 i = 0; i < KV_MAX_BACKENDS; i++)
		if (model_set_has(&serving, i))
			yyjson_mut_arr_add_uint(call->doc, list, i);
	return 0;
}

static int verb_backend_show(struct call *call)
{
	const char *name = call_text(call, "name");
	__u32 id = name ? backend_find(call->agent, name) : KV_NONE;

	if (!name)
		return -EINVAL;
	if (id == KV_NONE) {
		snprintf(call->err, sizeof(call->err), "backend %.80s: there is none of that name",
			 name);
		return -ENOENT;
	}
	following_tell(call->agent, id, call->doc, call->out);
	discover_tell(call->agent, id, call->doc, call->out);
	return 0;
}

static int verb_apply(struct call *call)
{
	const char *text = call_text(call, "config");
	const char *file = yyjson_get_str(yyjson_obj_get(call->in, "file"));

	if (!text)
		return -EINVAL;
	return apply_config(call->agent, file ? file : "config", text, strlen(text), call->doc,
			    call->out, call->err, sizeof(call->err));
}

/* What the program that is to follow said; the agent itself is here a while longer. */
static void on_restart(void *context, const char *err, bool new_maps)
{
	_cleanup_json_mut_ yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
	struct connection *conn = context;
	const struct agent *agent = control_agent(conn);
	yyjson_mut_val *out = yyjson_mut_obj(doc);

	if (!doc)
		return;
	yyjson_mut_doc_set_root(doc, out);
	yyjson_mut_obj_add_uint(doc, out, "pid", getpid());
	yyjson_mut_obj_add_bool(doc, out, "new_maps", new_maps);
	yyjson_mut_obj_add_strcpy(doc, out, "program", restart_program(agent));
	yyjson_mut_obj_add_uint(doc, out, "drain_ms", agent->config->timeouts.drain_ms);
	control_answer(conn, doc, out, err);
}

static int verb_restart(struct call *call)
{
	const char *program = yyjson_get_str(yyjson_obj_get(call->in, "program"));
	int err = restart_begin(call->agent, program, on_restart, call->conn, call->err,
				sizeof(call->err));

	call->later = !err;
	return err;
}

static const struct {
	const char *name;
	int (*run)(struct call *call);
} verbs[] = {
	{"status", verb_status},
	{"backend-add", verb_backend_add},
	{"backend-drain", verb_backend_drain},
	{"backend-undrain", verb_backend_undrain},
	{"backend-remove", verb_backend_remove},
	{"serving", verb_serving},
	{"backend-show", verb_backend_show},
	{"apply", verb_apply},
	{"restart", verb_restart},
};

int call_run(struct call *call)
{
	const char *verb = call_text(call, "verb");

	for (size_t i = 0; verb && i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (!strcmp(verbs[i].name, verb))
			return verbs[i].run(call);
	if (verb)
		snprintf(call->err, sizeof(call->err), "verb %s: not known", verb);
	return -EINVAL;
}
