// SPDX-License-Identifier: BSD-2-Clause
/* Connections that come, or are taken over: let in, or refused. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/address.h"
#include "agent/client.h"
#include "agent/sweep.h"

static struct client *client_new(struct agent *agent, int fd, const struct sockaddr *peer)
{
	struct sockaddr_storage local;
	socklen_t len = sizeof(local);
	struct kv_addr a, b;
	struct client *c;

	if (getsockname(fd, (struct sockaddr *)&local, &len) < 0 ||
	    kv_addr_from_sockaddr((struct sockaddr *)&local, &a) || kv_addr_from_sockaddr(peer, &b))
		return NULL;
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->agent = agent;
	c->fd = fd;
	memcpy(c->key.local, a.addr, sizeof(c->key.local));
	memcpy(c->key.peer, b.addr, sizeof(c->key.peer));
	c->key.local_port = a.port;
	c->key.peer_port = b.port;
	c->address = address_take(agent, c->key.peer);
	if (!c->address) {
		free(c);
		return NULL;
	}
	return c;
}

static void client_delete(struct client *c)
{
	address_release(c->agent, c->address);
	free(c);
}

/* By RST: at once, without anything kept of it, and nobody takes it for an answer. */
static void refuse(int fd)
{
	struct linger linger = {.l_onoff = 1, .l_linger = 0};

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	close(fd);
}

static void client_refuse(struct client *c)
{
	struct kv_client entry;

	/* The kernel has served it: a RST could overtake the answer on its way to the program. */
	if (!entry_read(&c->agent->dp, &c->key, &entry))
		close(c->fd);
	else
		refuse(c->fd);
	sweep_tuple(c->agent, &c->key);
	client_delete(c);
}

/* Over a limit; each has its counter. */
static bool client_too_many(struct client *c)
{
	struct agent *agent = c->agent;
	bool crowded = address_crowded(agent, c->address);
	struct kv_client entry;

	if (!crowded && agent->n_clients < agent->config->limits.clients &&
	    agent->n_clients < agent->file_clients)
		return false;
	/* The kernel serves its first request already: that one has been let in. */
	if (!entry_read(&agent->dp, &c->key, &entry) && entry.state == KV_CLIENT_LENT)
		return false;
	if (crowded)
		count(&agent->dp, clients_refused_address);
	else if (agent->n_clients >= agent->config->limits.clients)
		count(&agent->dp, clients_refused);
	else
		count(&agent->dp, clients_out_of_files);
	return true;
}

/* Its tuple is another connection's now, as are the kernel's entry and its events. The end of this
 * one has not been read yet. */
static void client_replaced(struct client *c)
{
	client_give_up(c, true);
	client_forget(c);
	memset(&c->key, 0, sizeof(c->key));
	client_reset(c);
}

struct client *client_take_over(struct agent *agent, __u32 service, int fd,
				const struct sockaddr *peer)
{
	struct client *c = client_new(agent, fd, peer);

	if (!c)
		return NULL;
	c->service = service;
	if (client_enter(c)) {
		client_flush(c); /* what was written with MSG_MORE */
		return c;
	}
	client_delete(c);
	return NULL;
}

void client_accept(struct agent *agent, __u32 service, int fd, const struct sockaddr *peer)
{
	struct client *c = client_new(agent, fd, peer), *old;
	struct kv_client entry;

	if (!c) {
		count(&agent->dp, clients_refused);
		refuse(fd);
		return;
	}
	old = client_find(agent, &c->key);
	if (old)
		client_replaced(old);
	c->service = service;
	if (client_too_many(c)) {
		client_refuse(c);
		return;
	}
	if (!client_enter(c)) {
		count(&agent->dp, clients_refused);
		client_refuse(c);
		return;
	}
	count(&agent->dp, clients_accepted);
	/* The kernel may have served it, and told us of its end, when it could not be accepted. */
	if (agent->missed && !entry_read(&agent->dp, &c->key, &entry) &&
	    entry.state == KV_CLIENT_AGENT)
		sweep_ended(c, &entry.pair);
}
