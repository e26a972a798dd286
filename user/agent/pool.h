/* SPDX-License-Identifier: BSD-2-Clause */
/* A backend's pool of idle upstreams: follows demand, notices when the backend is gone. */
#ifndef AGENT_POOL_H
#define AGENT_POOL_H

#include "agent/agent.h"
#include "agent/expiry.h"
#include "agent/probe.h"

#define POOL_MIN_IDLE 2u

struct pool {
	bool open;
	bool removing;
	bool known; /* the first connection has succeeded or failed */
	bool away;  /* the last one failed, and none was left: DOWN, unless DRAINING */
	__u32 n_open;
	__u32 n_connecting;
	__u32 closing; /* slots whose connections wait for the backend's FIN */
	__u32 end;     /* one past the highest slot in use, counted from the backend's first */
	__u32 peak;    /* in use at a time, decaying */
	__u64 peak_at_ns;
	__u64 retry_at_ns; /* no connection before; 0: any time */
	__u64 backoff_ns;
	__u64 tried_at_ns;
	__u64 short_ns; /* when a shortage of this host's was told */
	struct expiry expiry;
	struct probe asked; /* an idle upstream: does the backend's host live? */
	__u32 asked_slot;
	__u64 ask_ns; /* not before */
	__u64 asked_all_ns;
	__u64 closed_ns;
	struct client_list waiters; /* decided for this backend, no upstream yet */
};

void pool_open(struct agent *agent, __u32 id);
/* As pool_open, for a backend that has upstreams already: connects nothing. */
void pool_take_over(struct agent *agent, __u32 id);
/* One of its slots is in use. */
void pool_has(struct agent *agent, __u32 id, __u32 slot);
void pool_close(struct agent *agent, __u32 id);
/* Closes idle upstreams; true when there is no upstream left, or only ones that are closing. */
bool pool_close_idle(struct agent *agent, __u32 id);
/* No file is left for a client: idle upstreams beyond the least give theirs back. */
void pools_spare(struct agent *agent);
/* Opens, closes, serves those who wait. */
void pool_tick(struct agent *agent, __u64 now_ns);
/* Whether the next tick should come soon. */
bool pools_busy(const struct agent *agent);
/* Every pool has tried to connect. */
bool pools_known(const struct agent *agent);

/* Lowest idle upstream, its bit cleared; NULL: none. */
struct upstream *pool_claim(struct agent *agent, __u32 id);
/* Somebody waits: opens more, if the limit allows. */
void pool_want(struct agent *agent, __u32 id);
/* The kernel has found none idle. */
void pool_short(struct agent *agent, __u32 id);

/* All backends of a service are down: tries those now that have not been tried just before. Whether
 * any connection is on its way. */
bool pools_probe(struct agent *agent, __u32 service);

/* Told by upstream.c. */
void pool_idle(struct agent *agent, __u32 id, __u32 slot); /* slot's state is IDLE */
void pool_connected(struct agent *agent, __u32 id);
void pool_connect_failed(struct agent *agent, __u32 id, int err);
/* An idle upstream was ended by the backend. */
void pool_lost(struct agent *agent, __u32 id);
/* The backend may have vanished: its idle upstreams are closed, and a new connection will tell. */
void pool_suspect(struct agent *agent, __u32 id);
/* A connection of it was not known there any more: all idle ones are asked whether they are, so
 * that those that are not end before they are taken. */
void pool_ask(struct agent *agent, __u32 id);
/* Lowest idle slot; KV_NONE: none. It may be taken by the time this returns. */
__u32 pool_first_idle(const struct agent *agent, __u32 id);
/* Clears the slot's idle bit; whether it was set, that is, whether the slot is now the caller's. */
bool pool_take(struct agent *agent, __u32 id, __u32 slot);
__u32 pool_count_idle(const struct agent *agent, __u32 id);
__u32 pool_first_slot(const struct agent *agent, __u32 id);
/* One connection more. False: no slot is free, or it has failed at once. */
bool pool_connect(struct agent *agent, __u32 id);

#endif
