// SPDX-License-Identifier: BSD-2-Clause
/* The table of prefixes (kvsteer/prefixes.h): against a slow model, at its bounds, and by several
 * threads at once. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <kvsteer/fixed.h>
#include <kvsteer/prefixes.h>

#include "check.h"
#include "sim/random.h"

#define TICK (1ull << KV_PREFIX_TICK_SHIFT)
#define SETS 8u
#define KEYS 100u
#define KEY 0x9e3779b97f4a7c15ull

static struct kv_prefix_set sets[SETS];

static __u64 key_of(__u32 i)
{
	return i ? kv_mix(i) : 0; /* that hash, too */
}

/* A word that no other hash has. */
static __u64 word_of(__u64 hash)
{
	return kv_holder_make(kv_mix(hash), 1, kv_mix(~hash) | 1, 0);
}

static struct kv_prefix_set *set_of(__u64 hash)
{
	return &sets[kv_prefix_set_of(hash, KEY, SETS)];
}

/* ---- against a model ------------------------------------------------------------------- */

static struct {
	bool there;
	__u64 at;
	__u32 words; /* its first ones are set */
} model[KEYS];

/* Who has to go for it: nobody (-1) if its set has room. */
static int oldest_of_full(__u32 key)
{
	int oldest = -1, n = 0;

	for (__u32 i = 0; i < KEYS; i++) {
		if (!model[i].there || set_of(key_of(i)) != set_of(key_of(key)))
			continue;
		n++;
		if (oldest < 0 || model[i].at < model[oldest].at)
			oldest = i;
	}
	return n == KV_WAYS ? oldest : -1;
}

static void model_enter(__u32 key, __u64 now)
{
	int victim = oldest_of_full(key), ret;
	struct kv_prefix *p;
	__u64 hash = key_of(key);

	ret = kv_prefix_insert(set_of(hash), hash, word_of(hash), now);
	if (!model[key].there) {
		CHECK_EQ(ret, victim >= 0);
		if (victim >= 0)
			model[victim].there = false;
		model[key].there = true;
		model[key].words = 1;
		model[key].at = now;
		return;
	}
	CHECK_EQ(ret, -EEXIST);
	p = kv_prefix_touch(set_of(hash), hash, now);
	CHECK(p == kv_prefix_find(set_of(hash), hash));
	model[key].at = now;
	if (model[key].words < KV_HOLDERS)
		p->holder[model[key].words++] = kv_prefix_bind(word_of(hash), hash);
}

static bool as_modelled(void)
{
	__u64 holder[KV_HOLDERS];

	for (__u32 i = 0; i < KEYS; i++) {
		__u64 hash = key_of(i);

		if (kv_prefix_read(holder, set_of(hash), hash) != model[i].there)
			return false;
		for (__u32 j = 0; model[i].there && j < KV_HOLDERS; j++)
			if (holder[j] != (j < model[i].words ? word_of(hash) : 0))
				return false;
	}
	return true;
}

static void test_model(void)
{
	TEST("prefixes come, are touched and go in any order: each is found as long as it has to "
	     "be")
	{
		/* the clock wraps in the middle */
		__u64 random = 1, now = (1ull << (32 + KV_PREFIX_TICK_SHIFT)) - 10000 * TICK;
		int gone = 0;

		for (int i = 0; i < 20000 && as_modelled(); i++) {
			__u32 key = (sim_random(&random) >> 33) % KEYS;

			now += TICK;
			if (i % 5) {
				gone += !model[key].there && oldest_of_full(key) >= 0;
				model_enter(key, now);
			} else {
				kv_prefix_free(set_of(key_of(key)), key_of(key));
				model[key].there = false;
			}
		}
		CHECK(as_modelled());
		CHECK(gone > 1000);
	}
}

/* ---- bounds ---------------------------------------------------------------------------- */

static void test_bounds(void)
{
	static struct kv_prefix_set set;
	__u64 holder[KV_HOLDERS];

	TEST("a set at work is left alone, in the end; reading does not mind")
	{
		memset(&set, 0, sizeof(set));
		CHECK_EQ(kv_prefix_insert(&set, 5, word_of(5), TICK), 0);
		set.busy = 1;
		CHECK_EQ(kv_prefix_insert(&set, 6, word_of(6), TICK), -EBUSY);
		CHECK(!kv_prefix_find(&set, 6));
		CHECK(kv_prefix_read(holder, &set, 5));
		CHECK_EQ(set.busy, 1);
		set.busy = 0;
		CHECK_EQ(kv_prefix_insert(&set, 6, word_of(6), TICK), 0);
		CHECK_EQ(set.busy, 0);
	}

	TEST("newer than our reading of the clock is not old")
	{
		memset(&set, 0, sizeof(set));
		for (__u64 hash = 1; hash <= KV_WAYS; hash++)
			kv_prefix_insert(&set, hash, word_of(hash), (hash == 4 ? 10 : 12) * TICK);
		CHECK_EQ(kv_prefix_insert(&set, 9, word_of(9), 11 * TICK), 1);
		CHECK(!kv_prefix_find(&set, 4));
	}

	TEST("no table, no prefix")
	{
		CHECK(!kv_prefix_find(NULL, 5) && !kv_prefix_touch(NULL, 5, TICK));
		CHECK(!kv_prefix_read(holder, NULL, 5));
		kv_prefix_free(NULL, 5);
	}

	TEST("who looked at an entry before it was another prefix's cannot write into it")
	{
		__u64 old, was;
		struct kv_prefix *p;

		memset(&set, 0, sizeof(set));
		for (__u64 hash = 1; hash <= KV_WAYS; hash++)
			kv_prefix_insert(&set, hash, word_of(hash), hash * TICK);
		p = kv_prefix_find(&set, 1);
		CHECK_EQ(kv_prefix_insert(&set, 99, word_of(99), 20 * TICK), 1);
		CHECK(kv_prefix_find(&set, 99) == p && !kv_prefix_find(&set, 1));
		for (__u32 j = 0; j < KV_HOLDERS; j++) {
			/* empty or not, it is not what it was */
			old = kv_prefix_bind(j ? 0 : word_of(1), 1);
			was = p->holder[j];
			CHECK(kv_atomic_cas(&p->holder[j], old, kv_prefix_bind(word_of(1), 1)) ==
			      was);
			CHECK_EQ(p->holder[j], was);
		}
		CHECK(kv_prefix_read(holder, &set, 99));
		CHECK_EQ(holder[0], word_of(99));
		CHECK_EQ(holder[1], 0);
	}

	TEST("max_prefixes is rounded up to whole sets")
	{
		CHECK_EQ(kv_prefix_sets(1024), 128);
		CHECK_EQ(kv_prefix_sets(1025), 129);
		CHECK_EQ(kv_prefix_sets(67108864), 8388608);
	}
}

/* ---- sets ------------------------------------------------------------------------------ */

#define MANY 4096u

/* The fullest of 1000 sets, of hashes that are all alike but for one step. */
static __u32 fullest(__u64 key, __u64 from, __u64 step)
{
	__u32 count[1000] = {0}, most = 0, at;

	for (__u64 i = 0; i < MANY; i++) {
		at = kv_prefix_set_of(from + i * step, key, 1000);
		CHECK(at < 1000);
		if (++count[at] > most)
			most = count[at];
	}
	return most;
}

static void test_sets(void)
{
	TEST("hashes that are alike do not meet in one set: it is secret which do")
	{
		__u64 random = 3;
		int bad = 0;

		for (int i = 0; i < 200; i++) {
			__u64 key = kv_mix(sim_random(&random));

			for (int shift = 0; shift <= 52; shift += 4)
				bad += fullest(key, kv_mix(key), 1ull << shift) > 64;
		}
		/* a key may be bad for one of them; the mean is 4 */
		CHECK(bad < 200 * 14 / 50);
	}

	TEST("sets are used alike by hashes as they are")
	{
		__u32 count[1000] = {0}, most = 0;

		for (__u32 i = 1; i <= MANY; i++)
			count[kv_prefix_set_of(kv_mix(i), KEY, 1000)]++;
		for (__u32 i = 0; i < 1000; i++)
			most = count[i] > most ? count[i] : most;
		CHECK(most < 20);
	}
}

/* ---- threads --------------------------------------------------------------------------- */

#define THREADS 4
#define HASHES 24u /* for 8 ways */

static struct {
	struct kv_prefix_set set;
	_Atomic bool end;
	_Atomic __u64 reads, inserts, evictions, wrong;
} shared;

static __u64 now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

#define STOPPED_NS 2000

/* Whoever is stopped within his copy may find the entry in its prefix's next life. A BPF program is
 * not stopped there, so a thread that was has not seen what this is about. */
static void look(__u64 hash)
{
	__u64 holder[KV_HOLDERS], from = now_ns();

	if (!kv_prefix_read(holder, &shared.set, hash) || now_ns() - from > STOPPED_NS)
		return;
	shared.reads++;
	for (__u32 j = 0; j < KV_HOLDERS; j++)
		shared.wrong += holder[j] && holder[j] != word_of(hash);
}

/* As the core enters a holder: one place, by what was read of it. */
static void enter(__u64 hash, __u32 place)
{
	struct kv_prefix *p = kv_prefix_touch(&shared.set, hash, now_ns());
	__u64 old;
	int ret;

	if (!p) {
		ret = kv_prefix_insert(&shared.set, hash, word_of(hash), now_ns());
		shared.inserts += ret >= 0;
		shared.evictions += ret == 1;
		return;
	}
	old = kv_read_once(p->holder[place]);
	if (kv_prefix_bind(old, hash) && kv_prefix_bind(old, hash) != word_of(hash))
		return; /* it is another's by now */
	kv_atomic_cas(&p->holder[place], kv_prefix_bind(0, hash),
		      kv_prefix_bind(word_of(hash), hash));
}

static void *work(void *arg)
{
	__u64 random = (uintptr_t)arg + 1;

	while (!shared.end) {
		__u64 draw = sim_random(&random) >> 33;
		__u64 hash = key_of(1 + draw % HASHES);

		switch (draw / HASHES % 16) {
		case 0:
			kv_prefix_free(&shared.set, hash);
			break;
		case 1 ... 7:
			enter(hash, draw >> 20 & (KV_HOLDERS - 1));
			break;
		default:
			look(hash);
		}
	}
	return NULL;
}

static void test_threads(void)
{
	TEST("several at once: holders are their prefix's own, and no prefix is there twice")
	{
		pthread_t thread[THREADS];
		__u32 twice = 0;

		for (uintptr_t i = 0; i < THREADS; i++)
			CHECK(!pthread_create(&thread[i], NULL, work, (void *)i));
		/* for as long as it takes to have seen something; a slow machine has 20 s */
		for (int i = 0; i < 2000; i++) {
			nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
			if (i >= 30 && shared.evictions > 20000 && shared.reads > 200000)
				break;
		}
		shared.end = true;
		for (int i = 0; i < THREADS; i++)
			pthread_join(thread[i], NULL);
		for (__u32 i = 0; i < KV_WAYS; i++)
			for (__u32 j = 0; j < i; j++)
				twice += shared.set.hash[i] &&
					 shared.set.hash[i] == shared.set.hash[j];
		CHECK_EQ(shared.wrong, 0);
		CHECK_EQ(twice, 0);
		CHECK_EQ(shared.set.busy, 0);
		CHECK(shared.reads > 200000 && shared.evictions > 20000);
	}
}

int main(void)
{
	test_model();
	test_bounds();
	test_sets();
	test_threads();
	return check_done();
}
