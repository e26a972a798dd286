// SPDX-License-Identifier: BSD-2-Clause
/*
 * Steering: the host's build against the kernel's. Both worlds begin alike and are changed alike;
 * after every operation the whole of both is compared, scratch included. Tables are small and fill
 * up.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <kvsteer/request.h>

#define WORLD_SLOTS 256u
#include "../unit/steer_world.h"

#include "tests/prog/diff.skel.h"

#include "cases.h"
#include "diff.h"

static struct {
	struct diff_bpf *skel;
	struct diff_world *world;
	struct kv_service *services;
	struct kv_backend *backends;
	struct kv_prefix_set *prefixes;
} bpf;

static struct kv_steer st;
static struct kv_dispatch slots[DIFF_SLOTS];
static __u64 choices, refusals, evictions, prefixes_evicted;
static __u32 hashes = 160; /* that rungs have */

static void load(void)
{
	bpf.skel = diff_bpf__open_and_load();
	NEED(bpf.skel);
	bpf.world = prog_memory(bpf.skel->maps.diff_world);
	bpf.services = prog_memory(bpf.skel->maps.diff_services);
	bpf.backends = prog_memory(bpf.skel->maps.diff_backends);
	bpf.prefixes = prog_memory(bpf.skel->maps.diff_prefixes);
}

static void clear(const struct bpf_map *map)
{
	__u64 key;

	while (!bpf_map_get_next_key(bpf_map__fd(map), NULL, &key))
		NEED(!bpf_map_delete_elem(bpf_map__fd(map), &key));
}

/* What the test has changed in the host's world, in the kernel's too. */
static void copy_world(void)
{
	memcpy(bpf.services, world.services, sizeof(world.services));
	memcpy(bpf.backends, world.backends, sizeof(world.backends));
	bpf.world->now = world.now;
	bpf.world->random = world.random;
}

/* ---- comparing ----------------------------------------------------------------------- */

static void same_tables(void)
{
	struct kv_session session;
	__u32 sessions = 0;
	__u64 key, *at = NULL;

	CHECK_MEM(bpf.prefixes, world.prefixes, DIFF_SETS * sizeof(*bpf.prefixes));
	for (__u32 i = 0; i < WORLD_SLOTS; i++) {
		const struct world_session *s = &world.sessions[i];

		if (s->key) {
			sessions++;
			CHECK(!bpf_map_lookup_elem(bpf_map__fd(bpf.skel->maps.diff_sessions),
						   &s->key, &session));
			CHECK_EQ(session.holder, s->value.holder);
			CHECK_EQ(session.body_len, s->value.body_len);
			CHECK_EQ(session.total, s->value.total);
		}
	}
	/* and no more than those */
	while (!bpf_map_get_next_key(bpf_map__fd(bpf.skel->maps.diff_sessions), at, &key)) {
		at = &key;
		sessions--;
	}
	CHECK_EQ(sessions, 0);
}

static void same_world(void)
{
	const struct kv_choice *a = &bpf.world->st.choice, *b = &st.choice;

	CHECK_EQ(a->backend, b->backend);
	CHECK_EQ(a->matched, b->matched);
	CHECK_EQ(a->believed, b->believed);
	CHECK_EQ(a->best, b->best);
	CHECK_EQ(a->own, b->own);
	CHECK_EQ(a->wait, b->wait);
	CHECK_EQ(a->price, b->price);
	CHECK_EQ(a->intended, b->intended);
	CHECK_MEM(&bpf.world->st, &st, sizeof(st));
	CHECK_MEM(bpf.world->slots, slots, sizeof(slots));
	CHECK_MEM(bpf.world->counters, world.counters, sizeof(world.counters));
	CHECK_EQ(bpf.world->random, world.random);
	CHECK_MEM(bpf.services, world.services, sizeof(world.services));
	for (int i = 0; i < KV_MAX_BACKENDS; i++) {
		const struct kv_backend *k = &bpf.backends[i], *h = &world.backends[i];

		CHECK_EQ(k->clock, h->clock);
		CHECK_EQ(k->inflight_tokens, h->inflight_tokens);
		CHECK_EQ(k->inflight_requests, h->inflight_requests);
		CHECK_EQ(k->head_ns, h->head_ns);
		CHECK_EQ(k->head_tokens, h->head_tokens);
		CHECK_MEM(k, h, sizeof(*k));
	}
}

/* ---- operations ---------------------------------------------------------------------- */

static void operate(enum diff_op op, __u32 slot)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts);
	int ret = 0;

	bpf.world->op = op;
	bpf.world->slot = slot;
	NEED(!bpf_prog_test_run_opts(bpf_program__fd(bpf.skel->progs.run_steer), &opts));
	CHECK_EQ(opts.retval, 0);
	if (op == DIFF_DECIDE)
		ret = kv_steer_decide(&st);
	else if (op == DIFF_COMMIT)
		kv_steer_commit(&st, &slots[slot]);
	else if (op == DIFF_ANSWERED)
		kv_dispatch_answered(&slots[slot]);
	else if (op == DIFF_FINISHED)
		kv_dispatch_finished(&slots[slot]);
	else
		kv_dispatch_failed(&slots[slot]);
	CHECK_EQ(bpf.world->ret, ret);
	choices += op == DIFF_DECIDE && !ret;
	refusals += ret != 0;
}

/* Numbers of all sizes, small ones most often. */
static __u64 number(void)
{
	__u64 n = (__u64)chance(~0u) << 32 | chance(~0u);

	return n >> (chance(4) ? 52 + chance(12) : chance(64));
}

static void ask(void)
{
	struct kv_query *q = &st.query;
	__u32 depth = 0;

	memset(q, 0, sizeof(*q));
	q->service = chance(30) ? 0 : chance(20);
	q->total = chance(3) ? number() : 0;
	q->session = chance(2) ? chance(16) : 0;
	q->body_len = number();
	q->exclude = chance(4) ? KV_NONE : chance(8);
	q->n_rungs = chance(3) ? chance(40) : 0;
	for (__u32 i = 0; i < q->n_rungs && i < KV_MAX_RUNGS; i++) {
		depth += 1 + number();
		q->rungs[i].depth = depth;
		q->rungs[i].hash = 1 + chance(hashes);
	}
	st.masked = !chance(4);
	for (__u32 i = 0; i < KV_MAX_BACKENDS / 64; i++)
		st.mask[i] = (__u64)chance(~0u) << 32 | chance(~0u);
	bpf.world->st.query = *q;
	bpf.world->st.masked = st.masked;
	memcpy(bpf.world->st.mask, st.mask, sizeof(st.mask));
}

static void change_fleet(__u32 n)
{
	struct kv_backend *b = &world.backends[chance(n ?: 1)];

	switch (chance(13)) {
	case 0:
		b->state = chance(4);
		break;
	case 1:
		b->epoch++;
		break;
	case 2:
		b->clock += number();
		break;
	case 3:
		b->capacity = number();
		break;
	case 4:
		b->rate = number();
		break;
	case 5:
		world.services[0].floor = chance(3) ? 0 : number();
		break;
	case 6:
		world.services[0].policy = chance(KV_POLICY_MAX);
		break;
	case 7:
		b->limit = chance(4);
		break;
	case 10:
		b->weight = chance(2) ? chance(1200) : 0;
		break;
	case 8:
		b->foreign_tokens = number();
		break;
	case 9:
		b->foreign_requests = number();
		break;
	case 11:
		b->discount = chance(2) ? chance(KV_DISCOUNT_ALL + 20) : 0;
		break;
	case 12:
		world.services[0].affinity = chance(2) ? KV_AFFINITY_AUTO : chance(KV_AFFINITY_MAX);
		break;
	}
}

static __u64 capacity; /* of the worlds' caches; 0: any */

static void one_world(__u32 policy, __u32 n, __u32 operations)
{
	unsigned int bad = check_state.bad;

	world_reset(policy, n, capacity ?: 1000 + number() % 100000, 1 + number() % 10000);
	world.prefix_sets = DIFF_SETS;
	world.max_sessions = DIFF_SESSIONS;
	for (__u32 i = 0; i < n; i++)
		world.backends[i].service = chance(10) ? 0 : 1;
	memset(&st, 0, sizeof(st));
	memset(slots, 0, sizeof(slots));
	memset(bpf.world, 0, sizeof(*bpf.world));
	memset(bpf.prefixes, 0, DIFF_SETS * sizeof(*bpf.prefixes));
	clear(bpf.skel->maps.diff_sessions);
	copy_world();
	for (__u32 i = 0; i < operations && check_state.bad == bad; i++) {
		__u32 slot = chance(DIFF_SLOTS), kind = chance(12);

		if (kind < 5) {
			if (kind) /* else the same once more */
				ask();
			operate(DIFF_DECIDE, slot);
			same_world();
			operate(DIFF_FINISHED, slot);
			operate(DIFF_COMMIT, slot);
		} else if (kind < 9) {
			operate(DIFF_ANSWERED + chance(3), slot);
		} else if (kind < 11) {
			world.now += number() >> chance(30);
			copy_world();
		} else {
			change_fleet(n);
			copy_world();
		}
		same_world();
		if (i % 16 == 0)
			same_tables();
	}
	same_tables();
	if (check_state.bad != bad)
		printf("# policy %u, %u backends\n", policy, n);
	evictions += world.counters[KV_CNT_holder_evicted];
	prefixes_evicted += world.counters[KV_CNT_prefix_evicted];
}

/* ---- tests --------------------------------------------------------------------------- */

static void worlds(__u32 policy)
{
	static const __u32 sizes[] = {1, 2, 3, 12, 64, 65, 200};

	choices = 0;
	prefixes_evicted = 0;
	refusals = 0;
	for (__u32 i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		one_world(policy, sizes[i], 150);
	CHECK(choices > 200 && refusals > 5 && prefixes_evicted > 200);
}

#define WORLDS(policy)                                                                             \
	static void worlds_##policy(void)                                                          \
	{                                                                                          \
		worlds(KV_POLICY_##policy);                                                        \
	}
WORLDS(PRICE)
WORLDS(STICKY)
WORLDS(TTFT)
WORLDS(P2C)
WORLDS(LEAST)
WORLDS(HASH)
WORLDS(ROUND_ROBIN)

/* Few prompts on many backends: more holders than an entry has places. */
static void crowded(void)
{
	evictions = 0;
	hashes = 6;
	capacity = 1ull << 36; /* or many a prompt's end would be dead at once */
	for (int i = 0; i < 4; i++)
		one_world(KV_POLICY_ROUND_ROBIN, 40, 400);
	hashes = 160;
	capacity = 0;
	CHECK(evictions > 50);
}

static void no_fleet(void)
{
	one_world(KV_POLICY_PRICE, 0, 100);
}

int main(int argc, char **argv)
{
	static const struct prog_test tests[] = {
		{"price", worlds_PRICE},
		{"sticky", worlds_STICKY},
		{"ttft", worlds_TTFT},
		{"p2c", worlds_P2C},
		{"least", worlds_LEAST},
		{"hash", worlds_HASH},
		{"round-robin", worlds_ROUND_ROBIN},
		{"entries that are full", crowded},
		{"no backend at all", no_fleet},
	};
	const unsigned int n = sizeof(tests) / sizeof(tests[0]);

	if (prog_begin(tests, n, "")) {
		case_seed(argc, argv);
		load();
		prog_run(tests, n, "");
		world_free();
		diff_bpf__destroy(bpf.skel);
	}
	return check_done();
}
