// SPDX-License-Identifier: BSD-2-Clause
#include "agent/clock.h"
#include "agent/expiry.h"
#include "agent/pool.h"
#include "agent/upstream.h"
#include "common/log.h"

#define EXPIRY_MIN (500 * MS) /* sooner is no idle time-out */
#define EXPIRY_MARGIN SECOND  /* two of the clock's slow ticks, or half the time */

static __u64 *expiry_of(const struct upstream *up)
{
	struct expiry *e = &up->agent->pools[up->backend].expiry;

	return upstream_slot(up)->gen + 1 == up->first_gen ? &e->fresh_ns : &e->used_ns;
}

void expiry_learn(const struct upstream *up, __u64 now_ns)
{
	__u64 age = clock_since(upstream_slot(up)->last_ns, now_ns), *known = expiry_of(up);

	if (age < EXPIRY_MIN || (*known && age >= *known))
		return;
	kv_debug("backend %s: ends connections that have been idle for %llu ms",
		 up->agent->dp.backends[up->backend].name, (unsigned long long)(age / MS));
	*known = age;
}

void expiry_forget(const struct upstream *up)
{
	*expiry_of(up) = 0;
}

bool expiry_due(const struct upstream *up, __u64 now_ns)
{
	__u64 known = *expiry_of(up);
	__u64 margin = known / 2 < EXPIRY_MARGIN ? known / 2 : EXPIRY_MARGIN;

	return known && clock_since(upstream_slot(up)->last_ns, now_ns) > known - margin;
}
