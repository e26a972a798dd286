// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "clients.h"

static int read_target(struct clients *c, const char *to)
{
	struct sockaddr_storage ss;
	int len = sizeof(ss);
	const char *host = *to == '[' ? to + 1 : to;
	const char *port = strrchr(to, ':');

	if (!port || atoi(port + 1) <= 0 ||
	    evutil_parse_sockaddr_port(to, (struct sockaddr *)&ss, &len)) {
		fprintf(stderr, "kv-replay: --to %s: want ADDRESS:PORT or [ADDRESS]:PORT\n", to);
		return -EINVAL;
	}
	snprintf(c->host, sizeof(c->host), "%.*s",
		 (int)(*to == '[' ? strcspn(host, "]") : (size_t)(port - host)), host);
	c->port = atoi(port + 1);
	return 0;
}

static int open_namespace(struct clients *c, unsigned int source)
{
	const char *name = c->sources[source].netns;
	char path[256];
	int err;

	snprintf(path, sizeof(path), "/run/netns/%s", name);
	c->ns[source] = open(path, O_RDONLY | O_CLOEXEC);
	if (c->ns[source] >= 0 && !setns(c->ns[source], CLONE_NEWNET) &&
	    !setns(c->home_ns, CLONE_NEWNET))
		return 0;
	err = -errno;
	fprintf(stderr, "kv-replay: cannot enter network namespace %s: %s\n", name,
		strerror(errno));
	return err;
}

int clients_open(struct clients *c, const char *to, const struct source *sources,
		 unsigned int n_sources, int timeout_s, struct event_base *base)
{
	int err;

	*c = (struct clients){
		.base = base,
		.sources = sources,
		.n_sources = n_sources,
		.timeout_s = timeout_s,
		.home_ns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC),
	};
	for (unsigned int i = 0; i < MAX_SOURCES; i++)
		c->ns[i] = -1;
	err = read_target(c, to);
	for (unsigned int i = 0; !err && i < n_sources; i++)
		if (sources[i].netns)
			err = open_namespace(c, i);
	if (err)
		clients_close(c);
	return err;
}

void clients_close(struct clients *c)
{
	struct connection *connection;

	while ((connection = SLIST_FIRST(&c->all))) {
		SLIST_REMOVE_HEAD(&c->all, all);
		evhttp_connection_free(connection->http);
		free(connection);
	}
	for (unsigned int i = 0; i < MAX_SOURCES; i++)
		if (c->ns[i] >= 0)
			close(c->ns[i]);
	if (c->home_ns >= 0)
		close(c->home_ns);
}

struct connection *clients_take(struct clients *c, unsigned int source)
{
	const char *address = c->sources[source].address;
	struct connection *connection = SLIST_FIRST(&c->idle[source]);

	if (connection) {
		SLIST_REMOVE_HEAD(&c->idle[source], idle);
		return connection;
	}
	connection = calloc(1, sizeof(*connection));
	if (!connection)
		return NULL;
	connection->source = source;
	connection->http = evhttp_connection_base_new(c->base, NULL, c->host, c->port);
	if (!connection->http) {
		free(connection);
		return NULL;
	}
	evhttp_connection_set_timeout(connection->http, c->timeout_s);
	if (address)
		evhttp_connection_set_local_address(connection->http, address);
	SLIST_INSERT_HEAD(&c->all, connection, all);
	c->n_connections++;
	return connection;
}

void clients_give(struct clients *c, struct connection *connection)
{
	SLIST_INSERT_HEAD(&c->idle[connection->source], connection, idle);
}

int clients_post(struct clients *c, struct connection *connection, struct evhttp_request *req,
		 const char *path)
{
	int ns = c->ns[connection->source], err;

	/* A socket belongs to the namespace that its thread was in when it was made. */
	if (ns >= 0 && setns(ns, CLONE_NEWNET)) {
		evhttp_request_free(req);
		return -errno;
	}
	err = evhttp_make_request(connection->http, req, EVHTTP_REQ_POST, path);
	if (ns >= 0 && setns(c->home_ns, CLONE_NEWNET))
		return -errno;
	return err ? -ECONNREFUSED : 0;
}
