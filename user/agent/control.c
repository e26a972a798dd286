// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/listener.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/control.h"
#include "agent/control_call.h"
#include "agent/remover.h"
#include "agent/restart.h"
#include "common/cleanup.h"
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

void control_answer(struct connection *conn, yyjson_mut_doc *doc, yyjson_mut_val *out,
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

struct agent *control_agent(const struct connection *conn)
{
	return conn->control->agent;
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
