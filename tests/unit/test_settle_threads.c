/* SPDX-License-Identifier: BSD-2-Clause */
/* Learning and settling by many threads at once: exactly once, and nothing is left. */
#include <pthread.h>
#include <sched.h>

#include "check.h"
#include "steer_cases.h"

#define THREADS 4
#define ROUNDS 4000
#define SHARED 64

static struct kv_dispatch shared[SHARED];
static __u64 entered[4]; /* by all threads, per backend */

/* Every thread sends on dispatches of its own and settles everybody's, in every way. */
static void *storm(void *arg)
{
	__u64 seed = (size_t)arg + 1;
	struct kv_steer *own = calloc(1, sizeof(*own));
	struct kv_dispatch *mine = calloc(1, sizeof(*mine));

	if (!own || !mine)
		abort();
	for (int i = 0; i < ROUNDS; i++) {
		seed = kv_mix(seed + i);
		memset(&own->query, 0, sizeof(own->query));
		own->query.exclude = KV_NONE;
		own->query.total = 100 * (1 + seed % 8);
		own->query.session = 1 + seed % 13;
		own->query.n_rungs = 1 + seed % 8;
		for (__u32 k = 0; k < own->query.n_rungs; k++) {
			own->query.rungs[k].depth = 100 * (k + 1);
			own->query.rungs[k].hash = kv_mix(1 + k + 16 * (seed >> 8 & 3));
		}
		if (kv_steer_decide(own))
			abort();
		kv_steer_commit(own, mine);
		kv_atomic_add(&entered[mine->backend & 3], own->entered);
		for (int k = 0; k < 3; k++) {
			struct kv_dispatch *d = &shared[(seed >> (16 + 6 * k)) % SHARED];

			if (seed >> 40 & 1)
				kv_dispatch_answered(d);
			if (seed >> 41 & 1)
				kv_dispatch_finished(d);
			if (seed >> 42 & 1)
				kv_dispatch_failed(d);
		}
		if (seed >> 43 & 1)
			kv_dispatch_failed(mine);
		kv_dispatch_finished(mine);
	}
	free(own);
	free(mine);
	return NULL;
}

/* Two threads settle the same fresh dispatch at the same moment, again and again. */
static struct kv_dispatch contested;
static int gate, arrived, over;

static void *settle_together(void *arg)
{
	for (int round = 1;; round++) {
		for (int spins = 1; kv_read_once(gate) < round; spins++)
			if (!(spins % 10000)) /* fewer CPUs than threads */
				sched_yield();
		if (kv_read_once(over))
			break;
		if (arg)
			kv_dispatch_finished(&contested);
		else
			kv_dispatch_failed(&contested);
		kv_atomic_add(&arrived, 1);
	}
	return NULL;
}

static void test_threads(void)
{
	TEST("exactly once, with two settling one dispatch at the same moment")
	{
		time_t end = time(NULL) + 5; /* fewer rounds where the CPUs have other work */
		pthread_t threads[2];

		world_reset(KV_POLICY_PRICE, 1, 1000000, 1000);
		ask(2);
		for (size_t i = 0; i < 2; i++)
			CHECK_EQ(pthread_create(&threads[i], NULL, settle_together, (void *)i), 0);
		for (int round = 1; round <= 5 * ROUNDS && time(NULL) <= end; round++) {
			st.query.rungs[1].hash = 0x10000 + round; /* always something new */
			kv_steer_decide(&st);
			kv_steer_commit(&st, &contested);
			kv_write_once(arrived, 0);
			kv_atomic_add(&gate, 1);
			for (int spins = 1; kv_read_once(arrived) < 2; spins++)
				if (!(spins % 10000))
					sched_yield();
			CHECK_EQ(world.backends[0].inflight_tokens, 0);
			CHECK_EQ(world.backends[0].inflight_requests, 0);
		}
		kv_write_once(over, 1);
		kv_atomic_add(&gate, 1);
		for (int i = 0; i < 2; i++)
			pthread_join(threads[i], NULL);
	}

	TEST("exactly once, with many settling the same dispatches at once")
	{
		pthread_t threads[THREADS];
		__u64 requests = 0, holders = 0;

		world_reset(KV_POLICY_PRICE, 4, 1000000, 1000);
		for (int i = 0; i < SHARED; i++) {
			ask(1 + i % 20);
			decide();
			kv_steer_commit(&st, &shared[i]);
			entered[shared[i].backend & 3] += st.entered;
		}
		for (size_t i = 0; i < THREADS; i++)
			CHECK_EQ(pthread_create(&threads[i], NULL, storm, (void *)i), 0);
		for (int i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
		for (int i = 0; i < SHARED; i++)
			kv_dispatch_finished(&shared[i]);
		for (int i = 0; i < 4; i++) {
			CHECK_EQ(world.backends[i].inflight_tokens, 0);
			CHECK_EQ(world.backends[i].inflight_requests, 0);
			CHECK_EQ(world.backends[i].clock, entered[i]);
			requests += world.backends[i].requests;
		}
		CHECK_EQ(requests, SHARED + THREADS * ROUNDS);
		/* no entry is left tentative, and none names anything but a backend of ours */
		for (__u32 i = 0; i < WORLD_SLOTS; i++)
			for (int j = 0; j < KV_HOLDERS; j++) {
				__u64 h = world_holder(i, j);

				holders += h != 0;
				CHECK(!(h & KV_HOLDER_TENTATIVE) && kv_holder_backend(h) < 4);
			}
		CHECK(holders > 0);
	}
}

int main(void)
{
	test_threads();
	world_free();
	return check_done();
}
