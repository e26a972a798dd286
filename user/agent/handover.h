/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Taking over from the agent before, whether it has crashed or ended to be followed
 *(docs/design.md, "Agents come and go"):
 *
 *	handover_maps		pinned maps, if they are of our schema and sizes
 *	handover_state		services and backends, from the maps
 *	handover_sockets	inherited sockets: listeners, upstreams, clients
 *	handover_rest		what has no socket any more, or is not clear yet
 *
 * Nothing is told by the agent before: what counts is what the maps and the sockets say.
 */
#ifndef AGENT_HANDOVER_H
#define AGENT_HANDOVER_H

#include "agent/agent.h"

struct bpf_object;

/* Sockets that came with us; -1 where one has been given to its owner. */
struct handover_sockets {
	int *fd;
	size_t n;
};

/* What a backend's load shows too much (handover_rest.c). */
struct handover_charge {
	__u32 looks;
	__u64 requests;
	__u64 tokens;
};

struct handover {
	struct handover_sockets sockets;
	struct kv_config *file; /* what the file says, where the maps say otherwise */
	struct upstream_list orphans;
	struct client_list died; /* their requests died with the agent before */
	__u64 since_ns;
	__u32 *gen; /* by slot: as seen a second ago, plus 1; NULL: nothing is in doubt any more */
	bool charged; /* loads have been put right */
	struct handover_charge over[KV_MAX_BACKENDS];
};

/* All TCP sockets that this process has. */
int handover_sockets_find(struct handover_sockets *sockets);
/* Finds inherited sockets. */
int handover_open(struct agent *agent);
void handover_close(struct agent *agent);

/* The configuration that the agent before started with, without services; NULL: none has been
 * kept. Only after a crash: the program is then the same. */
struct kv_config *handover_config(struct keeper *keeper);

/* ---- maps ---- */

/* Whether maps are pinned that are of our schema and of the sizes configured. -ENOENT: there are
 * none; -EPROTO: others, as one line has said. */
int handover_maps_meta(const struct kv_config *config);
/* Before loading: object's maps are the pinned ones if all of them fit. On an error the object is
 * of no use any more. */
int handover_maps(struct bpf_object *object, const struct kv_config *config, bool *ret_taken);

/* ---- in agent_open, in this order, once the maps have been taken over ---- */

/* Services, backends, pools; agent.config then says what they are. */
int handover_state(struct agent *agent);
int handover_listen(struct agent *agent);
void handover_sockets(struct agent *agent);
/* Slots without a socket become orphans. */
int handover_slots(struct agent *agent);
/* The file's differences, if the file counts. */
void handover_apply(struct agent *agent);

/* A listening socket for this address; -1: none has come along. */
int handover_listener(struct agent *agent, const struct sockaddr *sa, socklen_t len);
/* All but listeners, where the maps have not been taken over. */
void handover_connections_close(struct agent *agent);
/* All those that nobody wanted. */
void handover_sockets_close(struct agent *agent);

/* Clients in died: 502 where nothing of an answer can have been sent, else the end. */
void handover_died(struct agent *agent);
/* Each tick, and each second. */
void handover_tick(struct agent *agent, __u64 now_ns);
void handover_second(struct agent *agent, __u64 now_ns);

#endif
