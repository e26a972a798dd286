// SPDX-License-Identifier: BSD-2-Clause
/* Which of a backend's upstreams are idle: bits that the kernel clears and sets, too. */
#include "agent/client.h"
#include "agent/pool.h"
#include "agent/upstream.h"

__u32 pool_count_idle(const struct agent *agent, __u32 id)
{
	const struct kv_backend *backend = &agent->dp.backends[id];
	__u32 n = 0;

	for (__u32 w = 0; w * 64 < agent->dp.upstreams_per_backend; w++)
		n += __builtin_popcountll(kv_read_once(backend->idle[w]));
	return n;
}

__u32 pool_first_idle(const struct agent *agent, __u32 id)
{
	for (__u32 w = 0; w * 64 < agent->dp.upstreams_per_backend; w++) {
		__u64 bits = kv_read_once(agent->dp.backends[id].idle[w]);

		if (bits)
			return pool_first_slot(agent, id) + w * 64 + __builtin_ctzll(bits);
	}
	return KV_NONE;
}

bool pool_take(struct agent *agent, __u32 id, __u32 slot)
{
	__u32 i = slot - pool_first_slot(agent, id);
	__u64 bit = 1ull << (i % 64);

	return kv_atomic_fetch_and(&agent->dp.backends[id].idle[i / 64], ~bit) & bit;
}

struct upstream *pool_claim(struct agent *agent, __u32 id)
{
	struct kv_backend *backend = &agent->dp.backends[id];

	for (__u32 w = 0; w * 64 < agent->dp.upstreams_per_backend; w++) {
		__u64 bits = kv_read_once(backend->idle[w]);

		while (bits) {
			__u32 slot = pool_first_slot(agent, id) + w * 64 + __builtin_ctzll(bits);

			bits &= bits - 1;
			if (!pool_take(agent, id, slot))
				continue;
			/* Not an orphan, nor one with bytes that nobody asked for. */
			if (agent->upstreams[slot]->phase == UPSTREAM_OPEN &&
			    upstream_silent(agent->upstreams[slot]))
				return agent->upstreams[slot];
			upstream_retire(agent->upstreams[slot], true);
		}
	}
	return NULL;
}

void pool_idle(struct agent *agent, __u32 id, __u32 slot)
{
	__u32 i = slot - pool_first_slot(agent, id);

	kv_atomic_fetch_or(&agent->dp.backends[id].idle[i / 64], 1ull << (i % 64));
	if (!TAILQ_EMPTY(&agent->pools[id].waiters))
		client_serve_waiting(agent, id);
}
