// SPDX-License-Identifier: BSD-2-Clause
#include <kvsteer/framing.h>

#include "agent/answer.h"
#include "agent/client.h"
#include "agent/entry.h"
#include "agent/listen.h"
#include "agent/pool.h"
#include "agent/relay.h"
#include "agent/request.h"
#include "agent/silent.h"
#include "agent/steer.h"
#include "agent/upstream.h"
#include "common/log.h"

#define LOOK_MAX (15 * SECOND) /* at least so often is a pair looked at … */
#define LOOK_LENT (3 * SECOND) /* … and a lent one: its end may have got lost (backend_every) */

enum why {
	CLIENT_VANISHED,
	BACKEND_VANISHED,
	NO_ANSWER, /* the backend lives, but its response does not move */
	SLOW_REQUEST,
	AGENT_ENDS,
};

static const char *const why_text[] = {
	[CLIENT_VANISHED] = "client has vanished",
	[BACKEND_VANISHED] = "backend has vanished",
	[NO_ANSWER] = "no byte of a response within timeouts.response",
	[AGENT_ENDS] = "kvsteerd ends, its response has not",
	[SLOW_REQUEST] = "client sends its request too slowly (timeouts.request)",
};

static void silent_count(struct agent *agent, const struct upstream *up, enum why why)
{
	/* Who only wants to fill the log is not helped. */
	if (why == SLOW_REQUEST)
		kv_debug("slot %u: %s", up->slot, why_text[why]);
	else
		kv_info("backend %s: slot %u: %s", agent->dp.backends[up->backend].name, up->slot,
			why_text[why]);
	if (why == CLIENT_VANISHED)
		count(&agent->dp, pairs_dead_client);
	else if (why == BACKEND_VANISHED)
		count(&agent->dp, pairs_dead_backend);
	else if (why == SLOW_REQUEST)
		count(&agent->dp, agent_request_timeout);
}

/* ---- lent ---------------------------------------------------------------------------- */

static struct client *silent_client(struct agent *agent, const struct kv_tuple *key)
{
	struct client *c = client_find(agent, key);

	if (c)
		return c;
	/* The kernel serves connections that we have not accepted yet. */
	listen_accept(agent);
	return client_find(agent, key);
}

static void silent_tell(struct client *c, const struct kv_client *entry, enum why why)
{
	if (entry->state == KV_CLIENT_HOME)
		return;
	if (c->phase == CLIENT_RELAYING)
		relay_let_go(c);
	if (why == CLIENT_VANISHED || why == AGENT_ENDS || entry->pair.seen & KV_SEEN_RESPONSE ||
	    c->phase != CLIENT_IDLE)
		client_reset(c);
	else if (why == SLOW_REQUEST)
		answer_error(c, 408, "request_timeout", "the request did not arrive in time");
	else
		answer_timeout(c);
}

static void silent_trace(struct agent *agent, __u32 slot, const struct kv_client *entry,
			 enum why why)
{
	const struct kv_pair *pair = &entry->pair;
	struct steer_end end = {
		.end = KV_TRACE_FAILED,
		.bytes = pair->resp_next - pair->resp_start + pair->relayed,
		.closed = pair->seen & KV_SEEN_CLIENT_FIN,
	};

	if (why == CLIENT_VANISHED)
		end.end = KV_TRACE_ABORTED;
	else if (pair->seen & KV_SEEN_RESPONSE || why == AGENT_ENDS)
		end.end = KV_TRACE_BROKEN;
	else if (entry->state == KV_CLIENT_HOME)
		return; /* its client sends it again */
	else
		end.status = why == SLOW_REQUEST ? 408 : 504;
	steer_trace_end(&agent->dp, agent->dp.dispatches[slot].trace, &end);
}

/* From the moment the generation is raised the slot is ours: to the backend's packets the pair is
 * an earlier one, and a pair that just ends leaves the settling to whoever has the generation. */
static void silent_end(struct agent *agent, struct upstream *up, __u32 gen, enum why why)
{
	struct kv_upstream *slot = upstream_slot(up);
	const struct kv_tuple key = slot->client;
	struct kv_client entry = {.state = KV_CLIENT_AGENT};
	const struct kv_pair *pair = &entry.pair;
	bool again = why == BACKEND_VANISHED || why == NO_ANSWER;
	__u32 backend = up->backend;
	struct client *c = NULL;

	if (kv_atomic_cas(&slot->gen, gen, gen + 1) != gen)
		return;
	silent_count(agent, up, why);
	if (!entry_end_lent(&agent->dp, &key, up->slot, gen, again, &entry)) {
		c = silent_client(agent, &key);
		/* So that our RST is in its place. */
		slot->tx_bypass += pair->req_sent - pair->req_start;
		slot->rx_bypass += pair->resp_next - pair->resp_start;
	}
	if (pair->seen & KV_SEEN_RESPONSE) {
		steer_settle(&agent->dp, up->slot, KV_CALL_SETTLE_FINISHED);
		count(&agent->dp, broken_response);
	} else {
		steer_settle(&agent->dp, up->slot, KV_CALL_SETTLE_FAILED);
		if (c && entry.state == KV_CLIENT_HOME)
			count(&agent->dp, retry_forgotten);
		else
			count(&agent->dp, broken_before_response);
	}
	silent_trace(agent, up->slot, &entry, why);
	upstream_retire(up, true);
	if (why == BACKEND_VANISHED)
		pool_suspect(agent, backend);
	if (c)
		silent_tell(c, &entry, why);
}

static __u64 later(__u64 a, __u64 b)
{
	return a > b ? a : b;
}

/* The slot says LENT and no client's entry knows of it. For a moment that is so whenever a pair
 * begins or ends; when it stays so the client's home socket is gone, and the entry with it. */
static void silent_astray(struct agent *agent, struct upstream *up, __u32 gen)
{
	if (up->silence.astray)
		silent_end(agent, up, gen, CLIENT_VANISHED);
	up->silence.astray = true;
	up->silence.look_ns = 0;
}

/* As where the agent reads a request: it has timeouts.request for each step, or for the rest. */
static bool silent_slow(const struct agent *agent, struct silence *s, const struct kv_pair *pair,
			__u64 now_ns)
{
	__u64 limit = agent->config->timeouts.request_ms * MS;

	if (pair->req_sent == pair->req_end || pair->seen & KV_SEEN_RESPONSE)
		return false;
	if (!s->sent_ns || pair->req_sent - s->sent >= REQUEST_STEP) {
		s->sent = pair->req_sent;
		s->sent_ns = now_ns;
	}
	if (s->sent_ns + limit < s->look_ns)
		s->look_ns = s->sent_ns + limit;
	return now_ns - s->sent_ns >= limit;
}

static __u64 probe_every(const struct agent *agent)
{
	return agent->config->timeouts.probe_ms * MS;
}

/* The response has passed whole, and the backend has closed. By FIN: it sends again what the client
 * has not got, and answers. By RST (kv_backend_reset): nobody does, and the client waits for
 * nothing. */
static __u64 backend_every(const struct agent *agent, const struct kv_pair *pair)
{
	__u64 every = probe_every(agent);

	return pair->seen & KV_SEEN_BACKEND_FIN && kv_framing_done(&pair->response) &&
			       every > LOOK_LENT
		       ? LOOK_LENT
		       : every;
}

static void silent_lent(struct agent *agent, struct upstream *up, __u32 gen, __u64 now_ns)
{
	__u64 limit = agent->config->timeouts.response_ms * MS;
	const struct kv_upstream *slot = upstream_slot(up);
	struct silence *s = &up->silence;
	const struct client *c;
	struct kv_client entry;
	__u32 passed;

	if (entry_hold(&agent->dp, &slot->client, up->slot, gen, &entry) != ENTRY_LENT) {
		silent_astray(agent, up, gen);
		return;
	}
	s->astray = false;
	passed = entry.pair.resp_next + entry.pair.req_sent;
	if (passed != s->passed) {
		s->passed = passed;
		s->passed_ns = now_ns;
	}
	if (s->passed_ns + limit < s->look_ns)
		s->look_ns = s->passed_ns + limit;
	c = silent_client(agent, &slot->client);
	/* The slot tells when it was claimed. */
	if (up->fd >= 0 && probe_peer(&s->client, c ? c->fd : -1, probe_every(agent),
				      later(entry.last_ns, slot->last_ns), now_ns, &s->look_ns))
		silent_end(agent, up, gen, CLIENT_VANISHED);
	else if (up->fd >= 0 &&
		 probe_peer(&s->backend, up->fd, backend_every(agent, &entry.pair),
			    later(entry.pair.backend_ns, slot->last_ns), now_ns, &s->look_ns))
		silent_end(agent, up, gen, BACKEND_VANISHED);
	else if (now_ns - s->passed_ns >= limit)
		silent_end(agent, up, gen, NO_ANSWER);
	else if (silent_slow(agent, s, &entry.pair, now_ns))
		silent_end(agent, up, gen, SLOW_REQUEST);
}

/* ---- in the agent's hands ------------------------------------------------------------ */

static void silent_relay(struct agent *agent, struct upstream *up, __u64 now_ns)
{
	struct silence *s = &up->silence;
	struct client *c = up->client;
	__u32 backend = up->backend;

	if (!c || c->phase != CLIENT_RELAYING || c->request->up != up || !relay_is_mine(c))
		return;
	if (probe_peer(&s->client, c->fd, probe_every(agent), probe_heard(c->fd, now_ns), now_ns,
		       &s->look_ns)) {
		silent_count(agent, up, CLIENT_VANISHED);
		client_reset(c);
	} else if (probe_peer(&s->backend, up->fd, probe_every(agent), probe_heard(up->fd, now_ns),
			      now_ns, &s->look_ns)) {
		silent_count(agent, up, BACKEND_VANISHED);
		/* First, so that none of its other upstreams is tried next. */
		pool_suspect(agent, backend);
		relay_upstream_ended(c, true);
	}
}

/* That which will be taken next. */
static void silent_idle(struct agent *agent, __u32 id, __u64 now_ns)
{
	struct pool *pool = &agent->pools[id];
	struct upstream *up;
	__u64 heard_ns;
	__u32 slot;

	if (now_ns < pool->ask_ns)
		return;
	slot = pool_first_idle(agent, id);
	up = slot == KV_NONE ? NULL : agent->upstreams[slot];
	if (!up || up->phase != UPSTREAM_OPEN)
		return;
	/* When it was lent last, its home socket has not heard the answer, but the slot came back.
	 */
	heard_ns = later(probe_heard(up->fd, now_ns), upstream_slot(up)->last_ns);
	if (slot != pool->asked_slot)
		pool->asked.n = 0;
	pool->asked_slot = slot;
	pool->ask_ns = now_ns + LOOK_MAX;
	if (!probe_peer(&pool->asked, up->fd, probe_every(agent), heard_ns, now_ns,
			&pool->ask_ns) ||
	    !pool_take(agent, id, slot))
		return;
	kv_info("backend %s: an idle connection is dead", agent->dp.backends[id].name);
	upstream_retire(up, true);
	pool_suspect(agent, id);
}

/* ---- all ----------------------------------------------------------------------------- */

static void silent_look(struct agent *agent, struct upstream *up, __u64 now_ns)
{
	const struct kv_upstream *slot = upstream_slot(up);
	__u32 gen = kv_read_once(slot->gen), state = kv_read_once(slot->state);
	struct silence *s = &up->silence;

	if (state != KV_UP_LENT && state != KV_UP_RELAY)
		return;
	if (s->gen != gen)
		*s = (struct silence){.gen = gen, .passed_ns = now_ns};
	if (now_ns < s->look_ns)
		return;
	s->look_ns = now_ns + (state == KV_UP_LENT ? LOOK_LENT : LOOK_MAX);
	if (state == KV_UP_LENT)
		silent_lent(agent, up, gen, now_ns);
	else
		silent_relay(agent, up, now_ns);
}

/* Lent or not, what the client has got of its response must not look whole. */
static void silent_break(struct agent *agent, struct upstream *up)
{
	const struct kv_upstream *slot = upstream_slot(up);
	struct client *c = up->client;

	if (kv_read_once(slot->state) == KV_UP_LENT) {
		silent_end(agent, up, kv_read_once(slot->gen), AGENT_ENDS);
	} else if (c && c->phase == CLIENT_RELAYING && c->request->up == up) {
		request_trace_end(c, KV_TRACE_BROKEN, 0);
		client_reset(c);
	}
}

void silent_end_all(struct agent *agent)
{
	__u32 n = agent->dp.max_backends * agent->dp.upstreams_per_backend;

	for (__u32 s = 0; agent->upstreams && s < n; s++) {
		struct upstream *up = agent->upstreams[s];

		if (up && (up->phase == UPSTREAM_OPEN || up->phase == UPSTREAM_ORPHAN))
			silent_break(agent, up);
	}
}

void silent_pairs(struct agent *agent, __u64 now_ns)
{
	__u32 per = agent->dp.upstreams_per_backend;

	for (__u32 i = 0; i < agent->dp.max_backends; i++) {
		const struct pool *pool = &agent->pools[i];

		if (!pool->open)
			continue;
		for (__u32 s = i * per; s < i * per + pool->end; s++) {
			struct upstream *up = agent->upstreams[s];

			if (up && (up->phase == UPSTREAM_OPEN || up->phase == UPSTREAM_ORPHAN))
				silent_look(agent, up, now_ns);
		}
		silent_idle(agent, i, now_ns);
	}
}
