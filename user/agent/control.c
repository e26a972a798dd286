// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <limits.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/listener.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/apply.h"
#include "agent/control.h"
#include "agent/remover.h"
#include "agent/restart.h"
#include "agent/service.h"
#include "common/cleanup.h"
#include "common/json.h"
#include "common/log.h"

#define CONTROL_LINE_MAX (4u << 20) /* a configuration fits well */

struct connection {
	TAILQ_ENTRY(connection) link;
	struct control *control;
	struct bufferevent *bev;
};

struct control {
	struct agent *agent;
	struct evconnlistener *listener;
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	TAILQ_HEAD(, connection) connections;
};

static void control_answer(struct connection *conn, yyjson_mut_doc *doc, yyjson_mut_val *out,
			   const char *err)
{
	_cleanup_free_ char *text = NULL;
	size_t len;

	yyjson_mut_obj_add_bool(doc, out, "ok", !err);
	if (err)
		yyjson_mut_obj_add_str(doc, out, "error", err);
	text = kv_json_line(doc, &len);
	if (text)
		bufferevent_write(conn->bev, text, len);
}

/* ---- verbs --------------------------------------------------------------------------- */

struct call {
	struct agent *agent;
	struct connection *conn;
	bool later; /* the answer is not known yet */
	yyjson_val *in;
	yyjson_mut_doc *doc;
	yyjson_mut_val *out;
	char err[KV_CONFIG_ERROR_LEN];
};

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
	yyjson_mut_obj_add_str(call->doc, call->out, "version", KVSTEER_VERSION);
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
		.rate = rate ? yyjson_get_uint(rate) : KV_DEFAULT_RATE,
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
	yyjson_mut_val *out = yyjson_mut_obj(doc);

	if (!doc)
		return;
	yyjson_mut_doc_set_root(doc, out);
	yyjson_mut_obj_add_uint(doc, out, "pid", getpid());
	yyjson_mut_obj_add_bool(doc, out, "new_maps", new_maps);
	yyjson_mut_obj_add_strcpy(doc, out, "program", restart_program(conn->control->agent));
	yyjson_mut_obj_add_uint(doc, out, "drain_ms",
				conn->control->agent->config->timeouts.drain_ms);
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
	{"apply", verb_apply},
	{"restart", verb_restart},
};

static int call_run(struct call *call)
{
	const char *verb = call_text(call, "verb");

	for (size_t i = 0; verb && i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (!strcmp(verbs[i].name, verb))
			return verbs[i].run(call);
	if (verb)
		snprintf(call->err, sizeof(call->err), "verb %s: not known", verb);
	return -EINVAL;
}

/* ---- lines --------------------------------------------------------------------------- */

static void control_line(struct connection *conn, const char *line, size_t len)
{
	_cleanup_json_ yyjson_doc *in = yyjson_read(line, len, 0);
	_cleanup_json_mut_ yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
	struct call call = {
		.agent = conn->control->agent,
		.conn = conn,
		.in = yyjson_doc_get_root(in),
	};
	int err = -EINVAL;

	if (!doc)
		return;
	call.doc = doc;
	call.out = yyjson_mut_obj(doc);
	yyjson_mut_doc_set_root(doc, call.out);
	if (!yyjson_is_obj(call.in))
		snprintf(call.err, sizeof(call.err), "expected one JSON object per line");
	else
		err = call_run(&call);
	if (!call.later)
		control_answer(conn, doc, call.out, err ? call.err : NULL);
}

static void connection_free(struct connection *conn)
{
	restart_forget(conn->control->agent, conn);
	TAILQ_REMOVE(&conn->control->connections, conn, link);
	bufferevent_free(conn->bev);
	free(conn);
}

static void on_read(struct bufferevent *bev, void *arg)
{
	struct evbuffer *input = bufferevent_get_input(bev);
	struct connection *conn = arg;
	char *line;
	size_t len;

	while ((line = evbuffer_readln(input, &len, EVBUFFER_EOL_LF))) {
		control_line(conn, line, len);
		free(line);
	}
	if (evbuffer_get_length(input) > CONTROL_LINE_MAX)
		connection_free(conn);
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
	(void)bev;
	if (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR))
		connection_free(arg);
}

static void on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *sa,
		      int len, void *arg)
{
	struct control *control = arg;
	struct connection *conn = calloc(1, sizeof(*conn));

	(void)listener, (void)sa, (void)len;
	if (conn)
		conn->bev = bufferevent_socket_new(control->agent->base, fd, BEV_OPT_CLOSE_ON_FREE);
	if (!conn || !conn->bev) {
		free(conn);
		close(fd);
		return;
	}
	conn->control = control;
	TAILQ_INSERT_TAIL(&control->connections, conn, link);
	bufferevent_setcb(conn->bev, on_read, NULL, on_event, conn);
	bufferevent_enable(conn->bev, EV_READ | EV_WRITE);
}

/* ---- the socket ---------------------------------------------------------------------- */

int control_open(struct agent *agent, const char *path)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	struct control *control = calloc(1, sizeof(*control));
	char dir[sizeof(sa.sun_path)];
	struct stat st;
	char *slash;
	mode_t mask;
	int err;

	if (!control)
		return -ENOMEM;
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", path);
	snprintf(control->path, sizeof(control->path), "%s", path);
	snprintf(dir, sizeof(dir), "%s", path);
	slash = strrchr(dir, '/');
	if (slash && slash != dir) {
		*slash = 0;
		mkdir(dir, 0755);
	}
	/* We hold the lock of this instance: a socket that is there is a dead agent's. */
	if (!lstat(path, &st) && S_ISSOCK(st.st_mode))
		unlink(path);
	mask = umask(0077);
	control->listener = evconnlistener_new_bind(agent->base, on_accept, control,
						    LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC,
						    8, (struct sockaddr *)&sa, sizeof(sa));
	err = -errno;
	umask(mask);
	if (!control->listener) {
		kv_err("control socket %s: %s: choose another path with --control", path,
		       strerror(-err));
		free(control);
		return err;
	}
	control->agent = agent;
	TAILQ_INIT(&control->connections);
	agent->control = control;
	return 0;
}

void control_close(struct agent *agent)
{
	struct control *control = agent->control;
	struct connection *conn;

	if (!control)
		return;
	while ((conn = TAILQ_FIRST(&control->connections)))
		connection_free(conn);
	evconnlistener_free(control->listener);
	if (!remover_control())
		unlink(control->path);
	free(control);
	agent->control = NULL;
}
