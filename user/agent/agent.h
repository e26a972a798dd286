/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kvsteerd: one process, one libevent loop. This is what its parts share.
 *
 *	dataplane, pin		kernel programs and maps
 *	attach, route, lock	interfaces; who runs
 *	service, listen		services and backends; accepting
 *	pool*, upstream*, expiry	connections to backends; how long those leave them open
 *	client*, waiting	connections of clients, and for what they wait
 *	address, buffer		what each client address has of them, and of memory
 *	hasher			the thread that hashes large bodies
 *	request, head, relay	the agent lane: request in and decided; request out, response back
 *	entry, steer		what agent and kernel do together, per client and per decision
 *	tenancy			tenants' hashes apart
 *	answer			answers of our own
 *	answer_header		what is added to engines' answers
 *	told*			what engines tell of their caches
 *	events, sweep		what the kernel tells; what time does
 *	silent, probe		peers that say nothing
 *	discover*		backends of a DNS name; the configuration's file watched
 *	follow*			engines: load, health, models; our own pages
 *	clock			the timers
 *	control*, apply*	the CLI's requests
 *	privileges, remover	what we may do, and who does what we may not
 *	restart*		ending in order to be followed
 *	supervisor, keeper	the two processes beside it, so that its death is not the gateway's
 *	handover*		taking over from the agent before
 */
#ifndef AGENT_AGENT_H
#define AGENT_AGENT_H

#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "agent/attach.h"
#include "agent/buffer.h"
#include "agent/dataplane.h"
#include "agent/keeper.h"
#include "agent/lock.h"
#include "common/config.h"
#include "common/pins.h"
#include "common/timer.h"

#define SECOND 1000000000ull
#define MS 1000000ull
#define SCRATCH_SIZE (256u << 10) /* what one read from an upstream can bring */

struct client;
struct discovery;
struct following;
struct hasher;
struct control;
struct handover;
struct listener;
struct restart;
struct pool;
struct told;
struct upstream;
struct watched;
struct ring_buffer;

TAILQ_HEAD(client_list, client);
TAILQ_HEAD(upstream_list, upstream);

struct agent {
	struct event_base *base;
	struct kv_config *config;
	struct dataplane dp;
	struct attach attach;
	struct lock lock;
	struct keeper keeper;
	struct handover *handover;
	struct kv_names names;
	__u64 started_ns;

	struct listener *listeners;
	struct pool *pools;	     /* by backend id */
	struct upstream **upstreams; /* by slot */
	struct upstream_list retiring;

	void *client_tree; /* tsearch(3), by tuple */
	struct client_list clients;
	struct client_list dead;     /* freed when the handlers of this turn have returned */
	struct client_list rechecks; /* read event taken out for a moment */
	__u32 n_clients;
	__u32 file_clients;	    /* as many as open files allow */
	struct account memory;	    /* of requests and responses held */
	void *address_tree;	    /* tsearch(3), by address */
	bool missed;		    /* events of clients that could not be accepted */
	struct client_list hopeful; /* all backends down: wait for what a new try brings */
	__u32 n_hopeful;
	struct client_list starved; /* not read: limits.memory is reached */
	struct event reap;

	struct hasher *hasher; /* NULL: no large body has come */
	struct sweep *sweep;
	struct told *telling;
	struct ring_buffer *ring;
	struct control *control;
	char *told; /* changes that wait for the next start and have been reported, a line each */
	struct event ring_event;
	struct kv_timer tick; /* pools */
	bool tick_fast;
	__u64 tick_fast_until;
	struct kv_timer second; /* heartbeat, deadlines, sweeping */
	struct event terminate[2];
	struct event child;
	struct event hangup;
	struct restart *restart;
	struct following *following;
	struct discovery *discovery;
	struct watched *watched;
	const char *file; /* of the configuration; NULL: by options */

	bool draining;
	__u64 drain_since;
	__u64 drain_until;
	bool ready;

	char scratch[SCRATCH_SIZE];
};

/* Everything up to the loop; prints what fails. To be followed by agent_close in any case. */
int agent_open(struct agent *agent, struct kv_config *config);
int agent_run(struct agent *agent);
void agent_close(struct agent *agent);
/* No further request is taken; the loop ends when those in progress have. */
void agent_drain(struct agent *agent);

#endif
