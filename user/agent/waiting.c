// SPDX-License-Identifier: BSD-2-Clause
/* Clients that wait: for an upstream, for a backend that comes back, for memory, for the kernel. */
#include <errno.h>

#include "agent/answer.h"
#include "agent/client.h"
#include "agent/clock.h"
#include "agent/pool.h"
#include "agent/relay.h"
#include "agent/request.h"
#include "agent/steer.h"

#define HOPEFUL_MAX 64 /* each is decided again every 20 ms */

void client_serve_waiting(struct agent *agent, __u32 backend)
{
	struct client_list *waiters = &agent->pools[backend].waiters;
	struct upstream *up;
	struct client *c;

	while ((c = TAILQ_FIRST(waiters)) && (up = pool_claim(agent, backend))) {
		TAILQ_REMOVE(waiters, c, wait);
		client_set_phase(c, CLIENT_READING);
		relay_start(c, up);
	}
}

/* Those who wait for an upstream of this backend, decided anew. */
static void client_move(struct agent *agent, __u32 backend, bool failed)
{
	struct client_list movers = TAILQ_HEAD_INITIALIZER(movers);
	struct client *c;

	TAILQ_CONCAT(&movers, &agent->pools[backend].waiters, wait);
	while ((c = TAILQ_FIRST(&movers))) {
		TAILQ_REMOVE(&movers, c, wait);
		client_set_phase(c, CLIENT_READING);
		steer_undo(&agent->dp, &c->request->dispatch);
		if (!failed)
			request_decide(c, KV_NONE);
		else if (++c->request->attempts < CLIENT_ATTEMPTS)
			request_decide(c, backend);
		else
			answer_unavailable(c, "no backend can be reached");
	}
}

void client_fail_waiting(struct agent *agent, __u32 backend)
{
	client_move(agent, backend, true);
}

void client_move_waiting(struct agent *agent, __u32 backend)
{
	client_move(agent, backend, false);
}

void client_waited(struct client *c)
{
	struct request *r = c->request;
	__u32 backend = r->dispatch.backend;

	if (backend == KV_NONE || ++r->attempts >= CLIENT_ATTEMPTS) {
		answer_unavailable(c, "no connection to a backend in time");
		return;
	}
	TAILQ_REMOVE(&c->agent->pools[backend].waiters, c, wait);
	client_set_phase(c, CLIENT_READING);
	steer_undo(&c->agent->dp, &r->dispatch);
	request_decide(c, backend);
}

bool client_hopes(struct client *c)
{
	struct agent *agent = c->agent;

	if (agent->n_hopeful >= HOPEFUL_MAX || !pools_probe(agent, c->service))
		return false;
	client_set_phase(c, CLIENT_WAITING);
	c->deadline_ns = c->last_ns + agent->config->timeouts.connect_ms * MS + SECOND;
	c->request->dispatch.backend = KV_NONE;
	TAILQ_INSERT_TAIL(&agent->hopeful, c, wait);
	agent->n_hopeful++;
	clock_hurry(agent);
	return true;
}

void client_recheck(struct client *c)
{
	client_watch(c, false);
	if (!c->rechecked) {
		c->rechecked = true;
		TAILQ_INSERT_TAIL(&c->agent->rechecks, c, recheck);
		clock_hurry(c->agent);
	}
}

void client_starve(struct client *c, int err)
{
	struct agent *agent = c->agent;

	client_watch(c, false);
	if (c->starving)
		return;
	if (err == -EDQUOT)
		count(&agent->dp, agent_memory_waits_address);
	else
		count(&agent->dp, agent_memory_waits);
	c->starving = true;
	c->deadline_ns = kv_now_ns() + agent->config->timeouts.request_ms * MS;
	TAILQ_INSERT_TAIL(&agent->starved, c, starved);
	clock_hurry(agent);
}

/* In their order: a large one is not to wait for ever behind small ones. */
static void client_feed(struct agent *agent)
{
	struct client *c, *next;

	for (c = TAILQ_FIRST(&agent->starved); c; c = next) {
		int err = request_fits(c);

		next = TAILQ_NEXT(c, starved);
		if (err == -EDQUOT)
			continue;
		if (err)
			return;
		TAILQ_REMOVE(&agent->starved, c, starved);
		c->starving = false;
		c->deadline_ns = kv_now_ns() + agent->config->timeouts.request_ms * MS;
		client_watch(c, true);
		request_read(c);
	}
}

bool clients_waiting(const struct agent *agent)
{
	return !TAILQ_EMPTY(&agent->rechecks) || !TAILQ_EMPTY(&agent->hopeful) ||
	       !TAILQ_EMPTY(&agent->starved);
}

void client_rechecks(struct agent *agent)
{
	struct client_list again = TAILQ_HEAD_INITIALIZER(again);
	struct client *c;

	while ((c = TAILQ_FIRST(&agent->rechecks))) {
		TAILQ_REMOVE(&agent->rechecks, c, recheck);
		c->rechecked = false;
		client_watch(c, true);
	}
	TAILQ_CONCAT(&again, &agent->hopeful, wait);
	agent->n_hopeful = 0;
	while ((c = TAILQ_FIRST(&again))) {
		__u64 deadline_ns = c->deadline_ns;

		TAILQ_REMOVE(&again, c, wait);
		client_set_phase(c, CLIENT_READING);
		request_decide(c, KV_NONE);
		if (c->phase == CLIENT_WAITING && c->request->dispatch.backend == KV_NONE)
			c->deadline_ns = deadline_ns;
	}
	client_feed(agent);
}
