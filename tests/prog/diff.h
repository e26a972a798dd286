/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the differential tests' two sides share. */
#ifndef KVSTEER_TESTS_DIFF_H
#define KVSTEER_TESTS_DIFF_H

#include <kvsteer/request.h>
#include <kvsteer/seq.h>
#include <kvsteer/steer.h>

#define DIFF_BASE 16 /* of a frame: an Ethernet header, then two bytes, then the input */
#define DIFF_SLOTS 16
#define DIFF_SETS 12 /* few, so that the tables fill up */
#define DIFF_KEY 0x9e3779b97f4a7c15ull
#define DIFF_SESSIONS 12

struct diff_hint {
	struct kv_hint hint;
	struct kv_window w;
	__s32 ret;
};

struct diff_options {
	__u8 opt[64]; /* 40 bytes of options, and what must stay as it is */
	struct kv_tcp_options found;
	__u32 len;
	__u32 tsval;
	__u32 tsecr;
	__u32 delta;
};

enum diff_op {
	DIFF_DECIDE,
	DIFF_COMMIT,
	DIFF_ANSWERED,
	DIFF_FINISHED,
	DIFF_FAILED,
	DIFF_OPS,
};

/* The steering's world but for its tables, which are maps of their own. */
struct diff_world {
	__u64 now;
	__u64 random;
	__u64 counters[KV_CNT_MAX];
	__u32 op;
	__u32 slot;
	__s32 ret;
	__u32 zero;
	struct kv_steer st;
	struct kv_dispatch slots[DIFF_SLOTS];
};

#endif /* KVSTEER_TESTS_DIFF_H */
