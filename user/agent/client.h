/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One client connection and what the agent does with it:
 *
 *   IDLE ─ readable ─▶ READING ─ request whole, decided ─▶ WAITING ─ upstream ─▶ RELAYING ─▶ IDLE
 *                         └── refused ──▶ ANSWERING ─▶ LINGERING ─▶ DEAD
 *
 * Most clients are IDLE most of the time, also while the kernel serves their requests.
 */
#ifndef AGENT_CLIENT_H
#define AGENT_CLIENT_H

#include <kvsteer/request.h>

#include "agent/agent.h"
#include "agent/answer_header.h"
#include "agent/buffer.h"
#include "agent/entry.h"
#include "engines/models.h"

#define CLIENT_ATTEMPTS 3		 /* upstreams tried for one request */
#define CLIENT_ANSWER_TIME (30 * SECOND) /* for a client to take more of what it is sent */

enum client_phase {
	CLIENT_IDLE,	  /* between requests, as far as the agent knows */
	CLIENT_READING,	  /* a request is coming in */
	CLIENT_HASHING,	  /* the request is whole; a thread hashes its prompt */
	CLIENT_WAITING,	  /* decided; in its backend's list of those who wait for an upstream */
	CLIENT_RELAYING,  /* has an upstream; the kernel may have taken over */
	CLIENT_ANSWERING, /* the agent's own answer, or the rest of a response, goes out; then … */
	CLIENT_LINGERING, /* … FIN is sent, and what still comes is read away */
	CLIENT_DEAD,	  /* closed; freed at the end of this turn of the loop */
};

/* A request in hand. */
struct request {
	struct kv_request head;
	struct kv_dispatch dispatch;
	struct kv_framing body;	    /* chunked: where it ends */
	struct kv_framing response; /* where that ends */
	size_t framed;		    /* chunked: bytes the framing has seen */
	size_t timed;		    /* bytes that were here when the deadline was set */
	size_t len;		    /* head and body as forwarded: the first bytes of client.in */
	size_t sent;		    /* of them, to the upstream */
	bool have_head;
	bool text;		  /* its prompt was hashed as text */
	bool answered;		  /* a response byte has come */
	bool held;		  /* its last bytes are held back (MSG_MORE) */
	bool broken;		  /* the response cannot be framed or came with too many bytes */
	__u8 attempts;		  /* upstreams tried */
	bool masked;		  /* not all of its service's backends serve its model … */
	struct model_set serving; /* … but these */
	struct model_set avoid; /* have failed it, or had no room: asked when nobody else is left */
	__u32 matched;		/* tokens that counted as cached there */
	__u32 total;		/* … of so many */
	char header[ANSWER_HEADER_MAX]; /* line of ours for the answer's head */
	__u32 header_len;		/* 0: none, or it has been put there */
	__u8 class;			/* enum proof_class */
	bool traced;			/* its record has ended */
	struct kv_trace_from from;	/* of its record */
	__u64 answer_len;		/* bytes of the response that came to us */
	struct upstream *up;
	__u32 gen;
	struct hasher_job *job; /* HASHING */
};

struct client {
	struct agent *agent;
	int fd;
	__u32 service;
	struct kv_tuple key;
	__u32 hold; /* of its entry, for the request in hand */
	struct address *address;
	enum client_phase phase;
	bool read_on;	   /* read event is in the loop */
	bool eof;	   /* the client has sent its FIN */
	bool close_after;  /* no further request on this connection */
	bool rechecked;	   /* in agent.rechecks */
	bool starving;	   /* in agent.starved */
	bool died;	   /* in handover.died */
	__u64 last_ns;	   /* last sign of life */
	__u64 deadline_ns; /* of this phase; 0: none */
	__u32 discarded;   /* LINGERING: bytes read away */
	struct event read;
	struct event write;
	struct buffer in;  /* the request, and what the client has sent behind it */
	struct buffer out; /* not yet taken by the client's socket */
	struct request *request;
	TAILQ_ENTRY(client) link;    /* agent.clients */
	TAILQ_ENTRY(client) wait;    /* pool.waiters, agent.hopeful, handover.died or agent.dead */
	TAILQ_ENTRY(client) recheck; /* agent.rechecks */
	TAILQ_ENTRY(client) starved; /* agent.starved */
};

/* Takes over fd, also when it fails. */
void client_accept(struct agent *agent, __u32 service, int fd, const struct sockaddr *peer);
/* One that the agent before had; NULL, and fd is not taken over: no memory. */
struct client *client_take_over(struct agent *agent, __u32 service, int fd,
				const struct sockaddr *peer);
struct client *client_find(struct agent *agent, const struct kv_tuple *key);
void client_watch(struct client *c, bool on);
void client_set_phase(struct client *c, enum client_phase phase);
/* A response has been relayed whole: next request, or close. */
void client_finished(struct client *c);
/* The kernel has finished, or has, this client's pair: the agent has nothing in hand. */
void client_idle(struct client *c);
void client_close(struct client *c);
void client_reset(struct client *c);
/* Sends what is in out, then FIN, and reads the client's rest away, so that no RST overtakes
 * the answer (RFC 9112, section 9.6). */
void client_close_gently(struct client *c);
/* Drops the request, whatever its phase; undoes or settles what was charged. */
void client_drop_request(struct client *c, bool abort);
void client_free_request(struct client *c);

/* Writes to the client; what its socket does not take is kept in out. -errno: it is gone.
 * flags: MSG_MORE holds the end back until client_flush. */
int client_send(struct client *c, const char *data, size_t len, int flags);
void client_flush(struct client *c);

/* Those who wait for an upstream of this backend: it has an idle one; it has failed; it is to get
 * no further request. */
void client_serve_waiting(struct agent *agent, __u32 backend);
void client_fail_waiting(struct agent *agent, __u32 backend);
void client_move_waiting(struct agent *agent, __u32 backend);
/* This one has waited for long enough: another backend may have an upstream. */
void client_waited(struct client *c);

/* Each tick: those above once more, and read events taken out while the kernel had the pair or for
 * want of memory. */
void client_rechecks(struct agent *agent);
bool clients_waiting(const struct agent *agent);
/* No backend takes requests: waits if a connection to one that is down is being tried. False:
 * there is nothing to wait for. */
bool client_hopes(struct client *c);
void client_recheck(struct client *c);
/* err: of request_fits */
void client_starve(struct client *c, int err);
void clients_close_all(struct agent *agent);
/* Frees the DEAD ones. */
void clients_reap(struct agent *agent);

/* Between client*.c: found by its tuple from here on (false: no memory), or no longer; what is in
 * hand of it ends, its socket is gone or about to be; FIN, and what comes after it. */
bool client_enter(struct client *c);
void client_forget(struct client *c);
void client_give_up(struct client *c, bool gone);
void client_linger(struct client *c);
void client_lingering(struct client *c);

#endif
