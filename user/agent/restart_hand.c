// SPDX-License-Identifier: BSD-2-Clause
/* What a restart waits for: requests that die with the agent. */
#include "agent/client.h"
#include "agent/clock.h"
#include "agent/entry.h"
#include "agent/relay.h"
#include "agent/restart_parts.h"
#include "common/log.h"

#define STALLED_TIME (5 * SECOND)
#define LATE_LINES 8 /* of requests that did not end in time */

/* Its client may have vanished (a RST that is lost is not sent again). All others that need the
 * agent are waiting meanwhile. */
static bool stalled(const struct client *c, __u64 now_ns)
{
	return c->phase == CLIENT_READING && c->in.len && !c->starving &&
	       clock_since(c->last_ns, now_ns) > STALLED_TIME;
}

static bool in_hand(const struct client *c)
{
	switch (c->phase) {
	case CLIENT_READING:
		return c->in.len > 0;
	case CLIENT_HASHING:
	case CLIENT_WAITING:
	case CLIENT_ANSWERING:
		return true;
	case CLIENT_RELAYING:
		return relay_is_mine(c);
	case CLIENT_IDLE:
		return c->died;
	default:
		return false;
	}
}

/* A request of which nothing has come yet is nobody's. */
static void let_go(struct client *c)
{
	if (c->phase != CLIENT_READING || c->in.len ||
	    entry_set_home(&c->agent->dp, &c->key, c->hold, 0, 0))
		return;
	client_drop_request(c, false);
	client_watch(c, false);
}

static const char *where(const struct client *c)
{
	switch (c->phase) {
	case CLIENT_READING:
		return "it has not come whole";
	case CLIENT_HASHING:
		return "its prompt is being hashed";
	case CLIENT_WAITING:
		return "it waits for a connection to a backend";
	case CLIENT_ANSWERING:
		return "its client does not take the answer";
	case CLIENT_RELAYING:
		return !c->request->answered ? "its backend has not answered"
		       : c->out.len	     ? "its client does not take the answer"
					     : "its answer is not whole";
	default:
		return "the agent before had it";
	}
}

static void say_late(const struct client *c)
{
	struct kv_addr address = {.port = c->key.peer_port};
	char text[KV_ADDR_TEXT];

	memcpy(address.addr, c->key.peer, sizeof(address.addr));
	kv_info("restart: request of %s: %s", kv_addr_format(&address, text, sizeof(text)),
		where(c));
}

void restart_say_late(const struct agent *agent)
{
	const struct client *c;
	__u32 n = 0;

	TAILQ_FOREACH (c, &agent->clients, link)
		if (in_hand(c) && n++ < LATE_LINES)
			say_late(c);
	if (n)
		kv_warn("restart: %u requests in hand are not waited for any longer", n);
}

__u32 restart_in_hand(struct agent *agent, __u64 now_ns)
{
	struct client *c;
	__u32 n = 0;

	TAILQ_FOREACH (c, &agent->clients, link) {
		let_go(c);
		n += in_hand(c) && !stalled(c, now_ns);
	}
	return n;
}
