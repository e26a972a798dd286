/* SPDX-License-Identifier: BSD-2-Clause */
/* Learning and settling: the clock, liveness, holders, tentative entries, exact charges. */
#include <pthread.h>
#include <sched.h>

#include "check.h"
#include "steer_cases.h"

static __u64 clock_of(__u32 backend)
{
	return world.backends[backend].clock;
}

static void test_clock(void)
{
	TEST("generation clock: an example by hand")
	{
		world_reset(KV_POLICY_PRICE, 1, 1000, 1000);
		ask(4);
		decide();
		commit();
		CHECK_EQ(clock_of(0), 400); /* all new */
		decide();
		CHECK_EQ(st.choice.matched, 400);
		commit();
		CHECK_EQ(clock_of(0), 400); /* all known in this generation */
		ask(6);
		decide();
		CHECK_EQ(st.choice.matched, 400);
		commit();
		CHECK_EQ(clock_of(0), 600); /* two new */
		world.backends[0].clock = 1100;
		CHECK_EQ(kv_holder_clock(holder(0, 6)), 1); /* 599 tokens in front of its last */
		ask(6);
		decide();
		/* alive is what 500 of 1,000 that have entered since have left … */
		CHECK_EQ(st.choice.matched, 500);
		commit();
		CHECK_EQ(clock_of(0), 1700); /* … but first touched in this generation */
		for (__u32 rung = 1; rung <= 6; rung++)
			CHECK_EQ(kv_holder_clock(holder(0, rung)), 1701 - 100 * rung);
	}

	TEST("liveness: capacity, epoch, and entries that were told")
	{
		world_reset(KV_POLICY_PRICE, 1, 1000, 1000);
		hold(0, 4, 0);
		ask(4);
		world.backends[0].clock = 999;
		decide();
		CHECK_EQ(st.choice.matched, 400);
		world.backends[0].clock = 1000;
		decide();
		CHECK_EQ(st.choice.matched, 0);
		set_word(4, 0, word(4, 0) | KV_HOLDER_TOLD);
		decide();
		CHECK_EQ(st.choice.matched, 400);
		world.backends[0].epoch++;
		decide();
		CHECK_EQ(st.choice.matched, 0);
		world.backends[0].epoch += 4095; /* only 12 bits of it are kept */
		decide();
		CHECK_EQ(st.choice.matched, 400);
	}

	TEST("the clock's 40 bits wrap; entries newer than our reading of it are alive")
	{
		const __u64 top = 1ull << 40;

		world_reset(KV_POLICY_PRICE, 1, 1000, 1000);
		world.backends[0].clock = top - 100;
		hold(0, 4, 0);
		world.backends[0].clock = top + 899;
		ask(4);
		decide();
		CHECK_EQ(st.choice.matched, 400);
		world.backends[0].clock = top + 900;
		decide();
		CHECK_EQ(st.choice.matched, 0);
		world.backends[0].clock = top - 500;
		decide();
		CHECK_EQ(st.choice.matched, 400);
		/* the generation before the wrap is an earlier one */
		world.backends[0].clock = top + 300;
		decide();
		commit();
		CHECK_EQ(clock_of(0), top + 700);
		decide();
		commit();
		CHECK_EQ(clock_of(0), top + 700);
		/* an entry from beyond the clock's beginning says nothing */
		for (__u32 rung = 1; rung <= 4; rung++)
			set_word(rung, 0, kv_holder_make(0, 1, top / 2, 0));
		world.backends[0].clock = 100;
		decide();
		commit();
		CHECK_EQ(clock_of(0), 500);
	}

	TEST("without rungs the prompt enters whole, a session's by what it has grown")
	{
		world_reset(KV_POLICY_PRICE, 1, 100000, 1000);
		ask(0);
		st.query.total = 70;
		decide();
		commit();
		CHECK_EQ(clock_of(0), 70);
		st.query.session = 5;
		st.query.total = 1000;
		decide();
		commit();
		CHECK_EQ(clock_of(0), 1070);
		st.query.total = 1200;
		decide();
		commit();
		CHECK_EQ(clock_of(0), 1270);
		CHECK_EQ(kv_world_session(5)->total, 1200);
		world.backends[0].clock = 100001; /* another generation */
		decide();
		CHECK_EQ(st.choice.own, 0);
		commit();
		CHECK_EQ(clock_of(0), 101201);
	}
}

static void test_holders(void)
{
	TEST("places: free, then dead, then the one furthest through its cache")
	{
		world_reset(KV_POLICY_PRICE, 12, 1000, 1000);
		for (__u32 i = 0; i < 8; i++) {
			world.backends[i].clock = 500;
			hold(i, 1, 0);
		}
		ask(1);
		/* backend 8 is new here; 3 has taken in most since */
		for (__u32 i = 0; i < 12; i++)
			world.backends[i].state = KV_BACKEND_UP;
		world.backends[2].clock += 700;
		world.backends[3].clock += 900;
		world.backends[4].clock += 1800;
		world.backends[4].capacity = 4000;
		for (__u32 k = 8; k < 11; k++) {
			decide();
			st.choice.backend = k;
			commit();
			CHECK(holder(k, 1) != 0);
			CHECK_EQ(world.counters[KV_CNT_holder_evicted], k - 7);
		}
		CHECK_EQ(holder(3, 1), 0);
		CHECK_EQ(holder(2, 1), 0);
		CHECK_EQ(holder(4, 1), 0);
		world.backends[6].epoch++;
		decide();
		st.choice.backend = 11;
		commit();
		CHECK_EQ(holder(6, 1), 0);
		CHECK_EQ(world.counters[KV_CNT_holder_evicted], 3);
		/* its own place, when it has one */
		st.choice.backend = 0;
		commit();
		CHECK_EQ(world.counters[KV_CNT_holder_evicted], 3);
	}

	TEST("full tables: counted, and the request is served")
	{
		world_reset(KV_POLICY_PRICE, 2, 100000, 1000);
		world.prefix_sets = 1;
		world.max_sessions = 0;
		hold(0, 9, 0);
		world.now += SECOND;
		ask(KV_WAYS + 1);
		st.query.n_rungs = KV_WAYS;
		st.query.session = 9;
		decide();
		commit();
		CHECK_EQ(world.counters[KV_CNT_prefix_inserted], KV_WAYS);
		CHECK_EQ(world.counters[KV_CNT_prefix_evicted], 1);
		CHECK_EQ(world.counters[KV_CNT_session_full], 1);
		CHECK(!known(9));
		decide();
		CHECK_EQ(st.choice.best, 100 * KV_WAYS);
		/* another CPU at work there: not stored, and served */
		world.prefixes[0].busy = 1;
		st.query.rungs[0].hash = HASH(20);
		st.query.n_rungs = 1;
		decide();
		commit();
		CHECK_EQ(world.counters[KV_CNT_prefix_busy], 1);
		CHECK_EQ(world.counters[KV_CNT_prefix_inserted], KV_WAYS);
	}

	TEST("a session's home outlives a diverted request under sticky, and moves under price")
	{
		world_reset(KV_POLICY_STICKY, 2, 100000, 1000);
		in_session(1, 7, 900, 0);
		busy(1, 20000);
		ask(0);
		st.query.session = 7;
		st.query.total = 1000;
		CHECK_EQ(decide(), 0);
		commit();
		CHECK_EQ(kv_holder_backend(kv_world_session(7)->holder), 1);
		CHECK_EQ(kv_world_session(7)->total, 900);
		world.services[0].policy = KV_POLICY_PRICE;
		CHECK_EQ(decide(), 0);
		commit();
		CHECK_EQ(kv_holder_backend(kv_world_session(7)->holder), 0);
		CHECK_EQ(kv_world_session(7)->total, 1000);
	}

	TEST("a diverted request's prefix is learned where it is served")
	{
		world_reset(KV_POLICY_STICKY, 2, 100000, 1000);
		hold(1, 10, 0);
		busy(1, 20000);
		ask(10);
		CHECK_EQ(decide(), 0);
		CHECK_EQ(st.choice.intended, 1);
		commit();
		CHECK(holder(0, 10) && holder(1, 10));
		CHECK_EQ(world.counters[KV_CNT_diverted], 1);
	}
}

static void test_tentative(void)
{
	static struct kv_dispatch one, two;

	TEST("tentative until answered; siblings go together meanwhile")
	{
		world_reset(KV_POLICY_PRICE, 4, 100000, 1000);
		world.services[0].used_tokens = 4 * 1000 * 15; /* p > 0: no tie with an idle one */
		world.services[0].used_at = world.now;
		ask(5);
		st.query.session = 3;
		CHECK_EQ(decide(), 0);
		kv_steer_commit(&st, &one);
		CHECK(holder(0, 5) & KV_HOLDER_TENTATIVE);
		CHECK(kv_world_session(3)->holder & KV_HOLDER_TENTATIVE);
		CHECK_EQ(decide(), 0);
		CHECK_EQ(st.choice.matched, 500);
		kv_dispatch_answered(&one);
		CHECK_EQ(one.unconfirmed, 0);
		for (__u32 rung = 1; rung <= 5; rung++)
			CHECK(holder(0, rung) && !(holder(0, rung) & KV_HOLDER_TENTATIVE));
		CHECK(!(kv_world_session(3)->holder & KV_HOLDER_TENTATIVE));
		kv_dispatch_failed(
			&one); /* after an answer: nothing to take back but the request */
		CHECK(holder(0, 5) != 0);
		CHECK_EQ(world.backends[0].inflight_requests, 0);
	}

	TEST("failed: what it taught is taken back, what was there before stays")
	{
		world_reset(KV_POLICY_PRICE, 4, 100000, 1000);
		ask(3);
		decide();
		kv_steer_commit(&st, &one);
		kv_dispatch_finished(&one);
		ask(5);
		st.query.session = 3;
		decide();
		kv_steer_commit(&st, &two);
		CHECK_EQ(two.backend, 0);
		kv_dispatch_failed(&two);
		CHECK(holder(0, 3) && !holder(0, 4) && !holder(0, 5));
		CHECK_EQ(kv_world_session(3)->holder, 0);
		CHECK_EQ(world.counters[KV_CNT_unlearned], 3);
		hold(1, 5, KV_HOLDER_TENTATIVE); /* another backend's request */
		kv_steer_commit(&st, &two);
		kv_dispatch_failed(&two);
		CHECK(!holder(0, 5) && holder(1, 5) & KV_HOLDER_TENTATIVE);
		kv_steer_commit(&st, &two);
		kv_dispatch_finished(&two);
		CHECK(holder(0, 5) && holder(1, 5) & KV_HOLDER_TENTATIVE);
		CHECK_EQ(world.backends[0].inflight_tokens, 0);
		CHECK_EQ(world.backends[0].inflight_requests, 0);
	}

	TEST("a commit without a choice charges nothing and settles to nothing")
	{
		world_reset(KV_POLICY_PRICE, 1, 100000, 1000);
		world.backends[0].state = KV_BACKEND_DOWN;
		ask(3);
		decide();
		kv_steer_commit(&st, &one);
		CHECK_EQ(one.backend, KV_NONE);
		CHECK_EQ(one.charged_tokens + one.charged_request + one.unconfirmed, 0);
		kv_dispatch_finished(&one);
		kv_dispatch_failed(&one);
		CHECK_EQ(world.counters[KV_CNT_decisions], 0);
	}

	TEST("charges and sums")
	{
		world_reset(KV_POLICY_PRICE, 1, 100000, 1000);
		ask(5);
		decide();
		kv_steer_commit(&st, &one);
		st.query.total = 520;
		decide();
		kv_steer_commit(&st, &two);
		CHECK_EQ(two.charged_tokens, 20);
		CHECK_EQ(two.query.total, 520);
		CHECK_EQ(two.at_ns, world.now);
		CHECK_EQ(world.backends[0].inflight_tokens, 520);
		CHECK_EQ(world.backends[0].inflight_requests, 2);
		CHECK_EQ(world.backends[0].requests, 2);
		CHECK_EQ(world.backends[0].prompt_tokens, 1020);
		CHECK_EQ(world.backends[0].matched_tokens, 500);
		CHECK_EQ(world.services[0].used_tokens, 520);
		CHECK_EQ(world.services[0].used_requests, 2 * 1024);
		CHECK_EQ(world.counters[KV_CNT_decisions], 2);
		CHECK_EQ(world.counters[KV_CNT_matches], 1);
		kv_dispatch_answered(&one);
		kv_dispatch_answered(&one);
		CHECK_EQ(world.backends[0].inflight_tokens, 20);
		CHECK_EQ(world.backends[0].inflight_requests, 2);
		kv_dispatch_finished(&one);
		kv_dispatch_finished(&one);
		CHECK_EQ(world.backends[0].inflight_requests, 1);
		CHECK_EQ(world.backends[0].predicted_tokens, 0); /* of one nothing was believed */
		kv_dispatch_finished(&two);			 /* never answered: both at once */
		kv_dispatch_finished(&two);
		CHECK_EQ(world.backends[0].predicted_tokens, 500);
		CHECK_EQ(world.backends[0].inflight_tokens, 0);
		CHECK_EQ(world.backends[0].inflight_requests, 0);
	}
}

static void test_discount(void)
{
	struct kv_dispatch one, two;

	TEST("nothing counts: all of it is charged, learned as ever, and predicted when it is "
	     "answered")
	{
		world_reset(KV_POLICY_PRICE, 1, 100000, 1000);
		ask(5);
		decide();
		kv_steer_commit(&st, &one);
		kv_dispatch_finished(&one);
		world.backends[0].discount = KV_DISCOUNT_ALL;
		ask(6);
		decide();
		kv_steer_commit(&st, &two);
		CHECK_EQ(two.charged_tokens, 600);
		CHECK_EQ(two.believed, 500);
		CHECK_EQ(world.backends[0].matched_tokens, 0);
		CHECK_EQ(world.backends[0].clock, 600); /* 500 of it had entered before */
		CHECK_EQ(world.services[0].used_tokens, 1100);
		CHECK_EQ(world.backends[0].predicted_tokens, 0);
		kv_dispatch_answered(&two);
		kv_dispatch_finished(&two);
		CHECK_EQ(world.backends[0].predicted_tokens, 500);
		CHECK_EQ(world.backends[0].inflight_tokens, 0);
		CHECK(holder(0, 6));
	}

	TEST("nothing counts: what failed or was refused has predicted nothing")
	{
		decide();
		kv_steer_commit(&st, &one);
		CHECK_EQ(one.believed, 600);
		kv_dispatch_failed(&one);
		decide();
		kv_steer_commit(&st, &two);
		kv_dispatch_refused(&two);
		kv_dispatch_finished(&two);
		CHECK_EQ(world.backends[0].predicted_tokens, 500);
	}

	TEST("nothing counts: a session's prompt enters the cache by what it has grown")
	{
		world_reset(KV_POLICY_PRICE, 1, 100000, 1000);
		in_session(0, 7, 900, 0);
		world.backends[0].discount = KV_DISCOUNT_ALL;
		ask(0);
		st.query.session = 7;
		st.query.total = 1000;
		decide();
		kv_steer_commit(&st, &one);
		CHECK_EQ(one.charged_tokens, 1000);
		CHECK_EQ(world.backends[0].clock, 100);
	}
}

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
	test_clock();
	test_holders();
	test_tentative();
	test_discount();
	test_threads();
	world_free();
	return check_done();
}
