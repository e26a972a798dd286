/* SPDX-License-Identifier: BSD-2-Clause */
/* Client hosts: where connections come from, and the kept ones of each host. */
#ifndef REPLAY_CLIENTS_H
#define REPLAY_CLIENTS_H

#include <event2/http.h>
#include <stdint.h>
#include <sys/queue.h>

#define MAX_SOURCES 64

/* A network namespace, or a source address, or (both NULL) simply this host. */
struct source {
	const char *netns;
	const char *address;
};

struct connection {
	SLIST_ENTRY(connection) idle;
	SLIST_ENTRY(connection) all;
	struct evhttp_connection *http;
	unsigned int source;
};

SLIST_HEAD(connections, connection);

struct clients {
	struct event_base *base;
	const struct source *sources;
	unsigned int n_sources;
	int timeout_s;
	char host[64];
	uint16_t port;
	int home_ns;
	int ns[MAX_SOURCES];
	struct connections idle[MAX_SOURCES]; /* between two requests, kept alive */
	struct connections all;
	unsigned int n_connections;
};

/* to: ADDRESS:PORT or [ADDRESS]:PORT, numeric. Prints what is wrong itself. */
int clients_open(struct clients *c, const char *to, const struct source *sources,
		 unsigned int n_sources, int timeout_s, struct event_base *base);
void clients_close(struct clients *c);

/* An idle connection of that source, or a new one that connects with its first request. */
struct connection *clients_take(struct clients *c, unsigned int source);
void clients_give(struct clients *c, struct connection *connection);

/* POSTs req on the connection; req is libevent's from here on, also after an error. */
int clients_post(struct clients *c, struct connection *connection, struct evhttp_request *req,
		 const char *path);

#endif
