/* SPDX-License-Identifier: BSD-2-Clause */
/* The kernel programs as the agent holds them: loaded, mapped into memory, pinned. */
#ifndef AGENT_DATAPLANE_H
#define AGENT_DATAPLANE_H

#include <kvsteer/counters.h>
#include <kvsteer/fields.h>
#include <kvsteer/shared.h>

#include "common/config.h"

struct kvsteer_bpf;

struct dataplane {
	struct kvsteer_bpf *skel;
	__u32 max_backends;
	__u32 upstreams_per_backend;
	__u32 max_prefixes;
	__u64 prefix_key;
	/* mapped arrays */
	struct kv_service *services;
	struct kv_backend *backends;
	struct kv_upstream *upstreams;
	struct kv_dispatch *dispatches;
	struct kv_offer *offers;
	struct kv_call *call;
	struct kv_entry_call *entry_call;
	struct kv_tracing *tracing;
	__u64 *counters;   /* the agent's own; readers add the kernel's */
	__u64 no_upstream; /* the kernel's agent_no_upstream when looked at last */
	/* maps reached by system calls */
	int meta_fd;
	int service_ids_fd;
	int upstream_ids_fd;
	int clients_fd;
	int events_fd;
	/* programs */
	int ingress_fd;
	int egress_fd;
	int call_fd;
	int entry_fd;
	int home_exists_fd;
	__u32 last_hold;	      /* kv_client.hold: no other agent's */
	bool taken_over;	      /* the maps are those of an agent before */
	char pin[KV_CONFIG_PATH_LEN]; /* empty: not pinned */
};

#define count(dp, name) ((void)(dp)->counters[KV_CNT_##name]++)

/* Each prints one line saying what failed and what to do, and returns -errno. Maps that are pinned
 * already are taken over if they fit. */
int dataplane_load(struct dataplane *dp, const struct kv_config *config);
/* Traces one request in so many; 0: none. */
void dataplane_trace(struct dataplane *dp, __u32 sample);
int dataplane_set_names(struct dataplane *dp, const struct kv_names *names);
int dataplane_pin(struct dataplane *dp, const char *dir);
/* Takes the pins away, unmaps, unloads. For a dataplane of zeros it does nothing. */
void dataplane_close(struct dataplane *dp);

int dataplane_write_meta(struct dataplane *dp, __u64 started_ns, __u64 now_ns);
/* How many events did not fit into the ring buffer, ever. */
__u64 dataplane_events_lost(struct dataplane *dp);
/* Whether the kernel has found no idle upstream since it was asked last. */
bool dataplane_no_upstream(struct dataplane *dp);
/* Whether the kernel still has a socket of this tuple, in whatever state but LISTEN. */
bool dataplane_home_exists(struct dataplane *dp, const struct kv_tuple *tuple);

#endif
