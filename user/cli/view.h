/* SPDX-License-Identifier: BSD-2-Clause */
/* One look at the pinned maps: what status, service, backend and top tell. */
#ifndef KVSTEER_CLI_VIEW_H
#define KVSTEER_CLI_VIEW_H

#include "cli.h"

struct view_pool {
	__u32 idle;
	__u32 relay;
	__u32 lent;
	__u32 done;
};

struct view_fill {
	const char *name;
	__u64 used;
	__u64 max;
	__u64 evicted; /* entries that made room for newer ones */
	bool crowded;  /* most new entries need that */
};

enum {
	VIEW_CLIENTS,
	VIEW_UPSTREAMS,
	VIEW_PREFIXES,
	VIEW_SESSIONS,
	VIEW_FILLS,
};

struct view {
	const struct kv_pins *pins;
	struct kv_meta meta;
	__u64 now_ns;
	bool alive;
	__u64 counters[KV_CNT_MAX];
	struct {
		__u64 home;
		__u64 agent;
		__u64 lent;
	} clients;
	struct view_pool pool[KV_MAX_BACKENDS];
	struct view_fill fill[VIEW_FILLS];
};

/* 0, or an exit code after the error was told. tables: also count entries of prefixes and
 * sessions, which takes a fraction of a second where there are millions. */
int view_take(struct cli *cli, const struct kv_pins *pins, bool tables, struct view *ret);

struct view_totals {
	__u64 express;
	__u64 agent;
	__u64 refused;
	__u64 all;
	__u64 requests; /* of the backends */
	struct view_pool pool;
	__u32 backends;
	__u32 backends_up;
};
/* service: its id, or KV_NONE for all. */
void view_total(const struct view *view, __u32 service, struct view_totals *ret);

/* NULL: the id is not in use. */
const struct kv_service *view_service(const struct view *view, __u32 id);
const struct kv_backend *view_backend(const struct view *view, __u32 id);
/* By whole name; KV_NONE: there is none. */
__u32 view_service_id(const struct view *view, const char *name);
/* The same, or without a name the first; 0, or an exit code after the error was told. */
int view_pick_service(struct cli *cli, const struct view *view, const char *name, __u32 *ret);

/* Names in the maps are written by the agent meanwhile: copied, always ended. */
const char *view_name(const char *name, char buf[KV_NAME_LEN]);
const char *view_backend_state(__u32 state);
/* The same for people: also ejected, and on trial. */
const char *view_backend_standing(const struct kv_backend *backend);
const char *view_health(__u32 health);
/* enum kv_told: what is known of its cache from its own events */
const char *view_told(__u32 told);
const char *view_service_state(const struct kv_service *service);
__u32 view_listens(const struct kv_service *service);
char *view_listen(const struct kv_service *service, __u32 i, char *buf, size_t size);
char *view_address(const struct kv_backend *backend, char *buf, size_t size);
double view_wait(const struct view *view, const struct kv_backend *backend); /* s */

#endif
