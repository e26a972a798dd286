// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/address.h"
#include "agent/client.h"
#include "agent/handover.h"
#include "agent/sweep.h"

#define LINGER_TIME (2 * SECOND)
#define LINGER_BYTES (8u << 20)

static __u8 tcp_state(int fd)
{
	struct tcp_info info = {.tcpi_state = TCP_CLOSE};
	socklen_t len = sizeof(info);

	getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len);
	return info.tcpi_state;
}

/* Ends what is in hand for a connection that has ended or is about to. The entry was made busy for
 * it. If its socket had gone by then, that was another connection's entry, of the same tuple, which
 * would wait for us for ever. Else the entry ends with it. */
void client_give_up(struct client *c, bool gone)
{
	bool busy = c->request != NULL && gone;

	client_drop_request(c, true);
	if (busy)
		entry_set_home(&c->agent->dp, &c->key, c->hold, 0, 0);
}

static void client_end(struct client *c, bool reset)
{
	struct linger linger = {.l_onoff = 1, .l_linger = 0};
	struct agent *agent = c->agent;
	__u8 state;

	if (c->phase == CLIENT_DEAD)
		return;
	if (c->died)
		TAILQ_REMOVE(&agent->handover->died, c, wait);
	event_del(&c->read);
	event_del(&c->write);
	if (c->rechecked)
		TAILQ_REMOVE(&agent->rechecks, c, recheck);
	if (reset)
		setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	state = tcp_state(c->fd);
	/* It will send nothing more, and while our socket lives the tuple is nobody else's. */
	if (state == TCP_CLOSE_WAIT)
		sweep_unshifted(agent, &c->key);
	close(c->fd);
	client_give_up(c, state == TCP_CLOSE);
	buffer_free(&c->in, &c->address->memory);
	buffer_free(&c->out, &c->address->memory);
	client_forget(c);
	agent->n_clients--;
	address_release(agent, c->address);
	sweep_tuple(agent, &c->key);
	/* Handlers further up may still hold c. */
	c->phase = CLIENT_DEAD;
	TAILQ_INSERT_TAIL(&agent->dead, c, wait);
	event_active(&agent->reap, EV_TIMEOUT, 0);
}

void client_close(struct client *c)
{
	client_end(c, false);
}

void client_reset(struct client *c)
{
	client_end(c, true);
}

void client_linger(struct client *c)
{
	if (c->eof || shutdown(c->fd, SHUT_WR) < 0) {
		client_close(c);
		return;
	}
	client_set_phase(c, CLIENT_LINGERING);
	c->deadline_ns = kv_now_ns() + LINGER_TIME;
	client_watch(c, true);
}

void client_close_gently(struct client *c)
{
	client_drop_request(c, true);
	client_set_phase(c, CLIENT_ANSWERING);
	if (!c->out.len) {
		client_linger(c);
		return;
	}
	c->deadline_ns = kv_now_ns() + CLIENT_ANSWER_TIME;
	client_watch(c, false);
}

void client_lingering(struct client *c)
{
	ssize_t n = recv(c->fd, c->agent->scratch, SCRATCH_SIZE, 0);

	if (n < 0 && errno == EAGAIN)
		return;
	if (n > 0)
		c->discarded += n;
	if (n <= 0 || c->discarded > LINGER_BYTES)
		client_close(c);
}

void clients_close_all(struct agent *agent)
{
	struct client *c;

	TAILQ_FOREACH (c, &agent->clients, link)
		client_close(c);
	clients_reap(agent);
}

void clients_reap(struct agent *agent)
{
	struct client *c;

	while ((c = TAILQ_FIRST(&agent->dead))) {
		TAILQ_REMOVE(&agent->dead, c, wait);
		TAILQ_REMOVE(&agent->clients, c, link);
		free(c);
	}
}
