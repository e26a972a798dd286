/* SPDX-License-Identifier: BSD-2-Clause */
/* The gateway's own steering code, run over the pinned maps: asks, and changes nothing. */
#ifndef KVSTEER_CLI_STEERING_H
#define KVSTEER_CLI_STEERING_H

#include "view.h"

/* The backend is up and still has it. */
bool steering_live(__u64 holder, const struct kv_backend *backend);
/* By the engine's own events, which have been heard since. */
bool steering_told(__u64 holder, const struct kv_backend *backend);
/* Tokens that have entered the backend's cache since. */
__u64 steering_age(__u64 holder, const struct kv_backend *backend);
/* Tokens queued before a new request. */
__u64 steering_wait(const struct kv_backend *backend, __u64 now_ns);
/* Uncached tokens dispatched to all backends in the last 30 s, decaying. */
__u64 steering_used(const struct kv_service *service, __u64 now_ns);
/* What would be chosen for query now; -ENOENT: no backend takes requests. */
int steering_decide(const struct view *view, const struct kv_query *query, struct kv_choice *ret);

#endif
