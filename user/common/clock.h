/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef KVSTEER_CLOCK_H
#define KVSTEER_CLOCK_H

#include <linux/types.h>
#include <time.h>

/* CLOCK_MONOTONIC, as bpf_ktime_get_ns */
static inline __u64 kv_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

#endif
