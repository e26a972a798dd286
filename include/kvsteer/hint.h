/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The hint header: KV-Prefix: 1;TOTAL,DEPTH:HASH,DEPTH:HASH,…
 */
#ifndef KVSTEER_HINT_H
#define KVSTEER_HINT_H

#include "shared.h"
#include "source.h"

#define KV_HINT_MAX 800 /* bytes of the value */

enum kv_hint_state {
	KV_HINT_NONE,
	KV_HINT_OK,
	KV_HINT_MALFORMED, /* or of an unknown version */
};

struct kv_hint {
	__u32 total; /* tokens */
	__u32 n;
	struct kv_rung rungs[KV_MAX_RUNGS];
};

#endif /* KVSTEER_HINT_H */
