/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One connection to a backend, and its slot in kv_upstreams. The agent's part of a slot's life:
 *
 *   CONNECTING ─▶ OPEN ─▶ CLOSING (waits for the backend's FIN) ─▶ CLOSED (fd gone, but the kernel
 *   still has the socket: its last packets need the sequence mapping) ─▶ slot FREE
 */
#ifndef AGENT_UPSTREAM_H
#define AGENT_UPSTREAM_H

#include "agent/agent.h"
#include "agent/probe.h"

enum upstream_phase {
	UPSTREAM_CONNECTING,
	UPSTREAM_OPEN,
	UPSTREAM_CLOSING,
	UPSTREAM_CLOSED,
	UPSTREAM_ORPHAN, /* its socket died with the agent before; the kernel may still need the
			    slot */
};

/* What silent.c knows of a pair, that of generation gen. */
struct silence {
	__u32 gen;
	bool astray;	 /* no entry of a client says that it has this pair */
	__u64 look_ns;	 /* not to be looked at before */
	__u32 passed;	 /* how far request and response had come when looked at … */
	__u64 passed_ns; /* … and since when */
	__u32 sent;	 /* the same of an unfinished request, by steps */
	__u64 sent_ns;
	struct probe client;
	struct probe backend;
};

struct upstream {
	struct agent *agent;
	__u32 slot;
	__u32 backend;
	enum upstream_phase phase;
	int fd;
	bool read_on;	       /* read event is in the loop */
	bool expired;	       /* CLOSING because the backend was about to end it */
	__u32 first_gen;       /* generation of its first claim: later ones reuse it */
	struct client *client; /* whose request it carries, while the agent has it in hand */
	__u64 since_ns;	       /* of CONNECTING, CLOSING, CLOSED */
	struct silence silence;
	struct event read;
	struct event write;	    /* added by connecting and by request.c */
	TAILQ_ENTRY(upstream) link; /* agent.retiring */
};

/* Opens one for a slot that is FREE. 0, or -errno when that failed at once. */
int upstream_open(struct agent *agent, __u32 slot);
/* Of the agent before; fd -1: the slot alone. NULL: no memory. */
struct upstream *upstream_take_over(struct agent *agent, __u32 slot, int fd);
/* connect() has been running for too long: as if it had failed. */
void upstream_connect_timeout(struct upstream *up);

struct kv_upstream *upstream_slot(const struct upstream *up);
/* Raises the generation and makes the slot this client's (state RELAY). Returns the generation. */
__u32 upstream_claim(struct upstream *up, struct client *client, const struct kv_tuple *key,
		     const struct kv_dispatch *dispatch);
/* After a response, connection reusable: to the pool. */
void upstream_release(struct upstream *up);
/* Neither bytes nor an end wait to be read. */
bool upstream_silent(const struct upstream *up);
/* Not used again. The caller owns the slot (cleared its idle bit, or state RELAY or DONE).
 * abort: by RST, so that the engine stops working; else after the backend's FIN. */
void upstream_retire(struct upstream *up, bool abort);
/* Not used again: idle for so long that the backend is about to end it. */
void upstream_expire(struct upstream *up);
/* Frees slots of upstreams that the kernel has forgotten. */
void upstream_sweep(struct agent *agent, __u64 now_ns);
/* Everything at once, when the agent ends. */
void upstream_close_all(struct agent *agent);

void upstream_watch(struct upstream *up, bool on);

/* Between upstream*.c: its events, not yet in the loop; what connect() has come to; bytes or the
 * end of one that is CLOSING. */
void upstream_events(struct upstream *up);
void upstream_connected(struct upstream *up);
void upstream_failed(struct upstream *up, int err);
void upstream_closing(struct upstream *up);
void upstream_free(struct upstream *up);

#endif
