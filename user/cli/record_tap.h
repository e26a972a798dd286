/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a recording hears with: a ring buffer that the gateway's programs fill while a lease runs
 * (bpf/lib/record.bpf.h). It ends with this process, however that ends: what is not renewed runs
 * out.
 */
#ifndef KVSTEER_CLI_RECORD_TAP_H
#define KVSTEER_CLI_RECORD_TAP_H

#include "common/pins.h"

#define TAP_ERROR_LEN 512

struct record_tap;

/* Each dispatch that the gateway makes or takes back, cut behind query.n_rungs rungs;
 * charged_request 0: taken back. -errno ends the call to tap_hear. */
typedef int (*tap_fn)(const struct kv_dispatch *dispatch, void *context);

struct tap_options {
	const char *dir; /* where the gateway is pinned */
	__u32 service;	 /* of this one only; KV_NONE: all */
	__u32 buffer;	 /* bytes: a power of two of pages */
	tap_fn fn;
	void *context;
};

/* 0, or -errno and why in err (TAP_ERROR_LEN). */
int tap_open(const struct tap_options *options, const struct kv_pins *pins, struct record_tap **ret,
	     char *err);
/* All that is there now: 0, or -errno, fn's or its own. */
int tap_hear(struct record_tap *tap);
/* To be called every second. -ESTALE: it was not for so long that another one records now;
 * -ENOLINK: the gateway has other maps now. */
int tap_renew(struct record_tap *tap);
/* Nothing new is put in from here on; what is in there can still be heard. */
void tap_shut(struct record_tap *tap);
/* Dispatches that found no room. */
__u64 tap_lost(const struct record_tap *tap);
/* For so long nothing was put in, for it was not renewed in time. */
__u64 tap_deaf_ns(const struct record_tap *tap);
void tap_close(struct record_tap *tap);

static inline void tap_cleanup(struct record_tap **tap)
{
	tap_close(*tap);
}

#endif
