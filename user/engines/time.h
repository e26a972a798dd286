/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef ENGINES_TIME_H
#define ENGINES_TIME_H

#include <event2/util.h>
#include <stdint.h>

#include "common/clock.h"

#define MS_NS 1000000ull

static inline struct timeval ms_timeval(uint64_t ms)
{
	return (struct timeval){ms / 1000, ms % 1000 * 1000};
}

/* A random number below n, not 0. */
static inline uint32_t random_below(uint32_t n)
{
	uint32_t value;

	evutil_secure_rng_get_bytes(&value, sizeof(value));
	return value % n;
}

/* ms, 10 % more or less: what begins together drifts apart. */
static inline uint32_t jittered(uint32_t ms)
{
	return ms - ms / 10 + random_below(ms / 5 + 1);
}

/* Milliseconds. The interval is from start to start, unless what was started takes longer than
 * that. */
static inline uint64_t until_next(uint64_t began_ns, uint32_t interval_ms, uint64_t now_ns)
{
	uint64_t next_ns = began_ns + jittered(interval_ms) * MS_NS;

	return next_ns > now_ns ? (next_ns - now_ns) / MS_NS : 0;
}

#endif
