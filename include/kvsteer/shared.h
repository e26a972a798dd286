/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the kernel programs, the agent and the CLI share: the layout of the pinned maps.
 *
 * A change of any layout here is a new KV_SCHEMA: the pin directory carries the number, and
 * a reader that meets another one refuses.
 *
 * Words: docs/design.md, section 1. All addresses are IPv6, IPv4 ones mapped (::ffff:a.b.c.d).
 */
#ifndef KVSTEER_SHARED_H
#define KVSTEER_SHARED_H

#include "types.h"
#include "framing.h"
#include "trace.h"

#define KV_SCHEMA 8
#define KV_MAGIC 0x6b767374 /* "kvst" */

#define KV_MAX_SERVICES 16
#define KV_MAX_BACKENDS 256   /* per instance; ids 0 … 255 */
#define KV_MAX_UPSTREAMS 1024 /* per backend, bound of the pool bitmap */
#define KV_POOL_WORDS (KV_MAX_UPSTREAMS / 64)
#define KV_MAX_RUNGS 32
#define KV_HOLDERS 8
#define KV_NAME_LEN 64

#define KV_NONE 0xffffffffu /* no backend, no slot */

/* One TCP connection as this host sees it: also the key of the flow maps. */
struct kv_tuple {
	__u32 local[4]; /* network byte order */
	__u32 peer[4];
	__u16 local_port; /* network byte order */
	__u16 peer_port;
};
_Static_assert(sizeof(struct kv_tuple) == 36, "kv_tuple is a map key: no padding");

struct kv_meta {
	__u32 magic;
	__u32 schema;
	__u32 upstreams_per_backend;
	__u32 max_backends;
	__u32 max_clients;
	__u32 max_prefixes;
	__u32 max_sessions;
	__u32 agent_pid;
	__u64 started_ns;   /* CLOCK_MONOTONIC */
	__u64 heartbeat_ns; /* the agent lives while this moves (1 s) */
	__u64 prefix_key;   /* secret: which set of kv_prefixes a hash is in */
	char version[32];
};

#include "prompt.h"
#include "backend.h"
#include "connection.h"
#include "call.h"

#endif /* KVSTEER_SHARED_H */
