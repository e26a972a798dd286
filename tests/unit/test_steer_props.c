/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What holds of steering whatever happens: random fleets, prompts and histories, every policy. The
 * test keeps books of its own and reckons costs anew, in floating point. A failure names its seed;
 * test_steer_props SEED runs that one alone.
 */
#include <math.h>
#include <stdlib.h>

#define WORLD_SLOTS 4096u
#include "check.h"
#include "steer_world.h"

#define SEEDS 40 /* of each policy */
#define STEPS 300
#define SLOTS 48
#define CHATS 12
#define MS 1000000ull

static struct kv_steer st;

/* A request that was dispatched: what the books say it still weighs. */
struct flight {
	struct kv_dispatch dispatch;
	__u32 backend;
	__u32 tokens;
	__u32 requests;
};

static struct flight flights[SLOTS];
static struct {
	__u64 seed, chance;
	__u32 policy, step, n;
} now;

#define MUST(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond) && check_fail(__FILE__, __LINE__))                                     \
			printf("%s: seed %llu, policy %u, step %u\n", #cond,                       \
			       (unsigned long long)now.seed, now.policy, now.step);                \
	} while (0)

/* Not the world's own: what is drawn here must not depend on what steering draws. */
static __u32 below(__u32 n)
{
	return (sim_random(&now.chance) >> 33) % n;
}

static void begin(__u64 seed, __u32 policy)
{
	now.seed = seed;
	now.chance = kv_mix(seed + (policy << 20));
	now.policy = policy;
	now.step = 0;
	now.n = below(8) ? 1 + below(12) : 65 + below(60);
	world_reset(policy, now.n, 5000 + below(100000), 1000);
	memset(flights, 0, sizeof(flights));
	memset(&st, 0, sizeof(st));
	world.random = seed;
	world.services[0].floor = below(3) ? 0 : 500;
	world.services[0].affinity = below(4) ? KV_AFFINITY_AUTO : below(KV_AFFINITY_MAX);
	if (below(2))
		for (__u32 i = 0; i < now.n; i++)
			world.backends[i].rate = 250 << below(5);
	for (__u32 i = 0; i < now.n; i++) {
		struct kv_backend *b = &world.backends[i];

		if (!below(4))
			b->limit = 1 + below(6);
		if (!below(8))
			b->weight = 1 + below(1000);
		b->discount = below(3) ? 0 : below(KV_DISCOUNT_ALL + 1);
		if (!below(4)) {
			b->foreign_requests = below(8);
			b->foreign_tokens = below(4000);
		}
	}
	/* another service's: may be known as a holder, must not be chosen */
	world.backends[now.n].state = KV_BACKEND_UP;
	world.backends[now.n].service = 1;
	world.backends[now.n].capacity = 100000;
}

/* ---- requests ------------------------------------------------------------------------- */

/* Of a chat that grows by turns of 400 tokens; some without rungs, some with nothing at all. */
static void ask(void)
{
	__u32 chat = below(CHATS), turns = 1 + below(10), kind = below(8);

	memset(&st.query, 0, sizeof(st.query));
	st.query.exclude = below(8) ? KV_NONE : below(now.n);
	if (kind == 0)
		return;
	if (kind <= 2) {
		st.query.session = 1 + chat;
		st.query.body_len = 1600 * turns;
		return;
	}
	st.query.total = 400 * turns + below(64);
	st.query.n_rungs = turns;
	st.query.session = kind == 3 ? 1 + chat : 0;
	for (__u32 i = 0; i < turns; i++)
		st.query.rungs[i] = (struct kv_rung){
			.depth = 400 * (i + 1),
			.hash = 1 + (below(20) ? chat : 100 + below(1000)) * 16 + i,
		};
}

/* ---- what is promised of a choice ----------------------------------------------------- */

static bool takes(__u32 id)
{
	const struct kv_backend *b = &world.backends[id];

	if (st.masked && !(st.mask[id / 64] >> (id & 63) & 1))
		return false;
	return id < now.n && id != st.query.exclude && b->state == KV_BACKEND_UP;
}

static bool at_limit(__u32 id)
{
	const struct kv_backend *b = &world.backends[id];

	return b->limit && b->inflight_requests >= b->limit;
}

static double requests_at(__u32 id)
{
	return world.backends[id].inflight_requests + world.backends[id].foreign_requests;
}

static double wait_s(__u32 id)
{
	const struct kv_backend *b = &world.backends[id];
	double rate = b->rate, tokens = b->inflight_tokens;
	double done = world.now > b->head_ns ? (world.now - b->head_ns) / 1e9 * rate : 0;

	done = done < b->head_tokens ? done : b->head_tokens;
	return (b->foreign_tokens + (tokens > done ? tokens - done : 0)) / rate;
}

/* Tokens of its match that may be counted on. */
static __u32 counted(__u32 id)
{
	__u32 affinity = world.services[0].affinity;

	if (affinity == KV_AFFINITY_OFF)
		return 0;
	if (affinity == KV_AFFINITY_FULL)
		return st.match[id];
	return st.match[id] / 100.0 * (100 - world.backends[id].discount);
}

static double cost_s(__u32 id)
{
	double own = st.need > counted(id) ? st.need - counted(id) : 0;
	double price = st.policy == KV_POLICY_LEAST ? -1 : st.choice.price / 1024.0;

	return wait_s(id) + own * (1 + price) / world.backends[id].rate;
}

/* One more token or microsecond may be rounded away. */
#define NEARLY(id) (3.0 / world.backends[id].rate + 1e-5)

static void check_cheapest(double (*cost)(__u32), __u32 chosen)
{
	for (__u32 i = 0; i < st.n; i++)
		MUST(cost(chosen) <=
		     cost(st.candidate[i]) + 17 * NEARLY(st.candidate[i]) + NEARLY(chosen));
}

/* Kept to a holder: never when its queue leads by more than is allowed. */
static void check_sticky(__u32 chosen)
{
	double least = INFINITY;

	for (__u32 i = 0; i < st.n; i++)
		least = fmin(least, wait_s(st.candidate[i]));
	if (chosen == st.near)
		MUST(wait_s(chosen) - least <= KV_STICKY_LEAD_MS / 1e3 + 3 * NEARLY(chosen));
	else
		check_cheapest(cost_s, chosen);
}

static void check_hash(__u32 chosen)
{
	double requests = 1;

	for (__u32 i = 0; i < st.n; i++)
		requests += requests_at(st.candidate[i]);
	MUST(requests_at(chosen) < ceil(requests * 1.25 / st.n));
}

static void check_p2c(__u32 chosen)
{
	__u32 worse = 0;

	for (__u32 i = 0; i < st.n; i++) {
		__u32 id = st.candidate[i];

		worse += id != chosen && (wait_s(id) > wait_s(chosen) - NEARLY(chosen) ||
					  requests_at(id) >= requests_at(chosen));
	}
	MUST(st.n < 2 || worse);
}

static void check_choice(int err)
{
	__u32 able = 0, free = 0, best = 0, chosen = st.choice.backend;

	for (__u32 i = 0; i < now.n; i++) {
		able += takes(i);
		free += takes(i) && !at_limit(i) && !world.backends[i].weight;
	}
	MUST((err == -ENOENT) == !able);
	if (err) {
		MUST(chosen == KV_NONE);
		return;
	}
	MUST(takes(chosen));
	MUST(!free || !at_limit(chosen));
	MUST(st.choice.matched <= st.choice.best && st.choice.own <= st.need);
	MUST(st.choice.matched == counted(chosen) && st.choice.believed == st.match[chosen]);
	for (__u32 i = 0; i < st.n; i++) {
		MUST(takes(st.candidate[i]) && counted(st.candidate[i]) <= st.choice.best);
		best = counted(st.candidate[i]) > best ? counted(st.candidate[i]) : best;
	}
	MUST(st.choice.best == best);
	switch (kv_rule(&st)) {
	case KV_POLICY_PRICE:
	case KV_POLICY_TTFT:
	case KV_POLICY_LEAST:
		check_cheapest(cost_s, chosen);
		break;
	case KV_POLICY_STICKY:
		check_sticky(chosen);
		break;
	case KV_POLICY_HASH:
		check_hash(chosen);
		break;
	case KV_POLICY_P2C:
		check_p2c(chosen);
		break;
	}
}

/* ---- histories ------------------------------------------------------------------------ */

static void answered(struct flight *f)
{
	kv_dispatch_answered(&f->dispatch);
	f->tokens = 0;
}

static void finished(struct flight *f)
{
	kv_dispatch_finished(&f->dispatch);
	f->tokens = f->requests = 0;
}

static void failed(struct flight *f)
{
	kv_dispatch_failed(&f->dispatch);
	f->tokens = f->requests = 0;
}

static void (*const settle[])(struct flight *f) = {answered, answered, finished, failed};

static void check_books(void)
{
	for (__u32 i = 0; i < now.n; i++) {
		__u64 tokens = 0, requests = 0;

		for (int k = 0; k < SLOTS; k++) {
			if (flights[k].backend != i)
				continue;
			tokens += flights[k].tokens;
			requests += flights[k].requests;
		}
		MUST(world.backends[i].inflight_tokens == tokens);
		MUST(world.backends[i].inflight_requests == requests);
	}
}

/* The other service has it, too. */
static void held_elsewhere(__u64 hash)
{
	struct kv_prefix *p = kv_prefix_find(kv_world_prefix_set(hash), hash);
	struct kv_backend *b = &world.backends[now.n];
	__u64 *last = p ? &p->holder[KV_HOLDERS - 1] : NULL;

	if (p && *last == kv_prefix_bind(0, hash))
		*last = kv_prefix_bind(kv_holder_make(now.n, b->epoch, b->clock, 0), hash);
}

static void dispatch(void)
{
	struct flight *f = &flights[below(SLOTS)];
	__u32 turn = world.services[0].turn;
	__u64 chance = world.random;
	struct kv_choice first;
	int err;

	ask();
	st.masked = !below(6);
	for (__u32 i = 0; i < KV_MAX_BACKENDS / 64; i++)
		st.mask[i] = kv_mix(below(1u << 31) + i);
	err = kv_steer_decide(&st);
	first = st.choice;
	check_choice(err);
	/* the same question, the same world: the same answer */
	world.random = chance;
	world.services[0].turn = turn;
	MUST(kv_steer_decide(&st) == err && !memcmp(&first, &st.choice, sizeof(first)));
	finished(f);
	kv_steer_commit(&st, &f->dispatch);
	f->backend = st.choice.backend;
	f->tokens = err ? 0 : st.choice.own;
	f->requests = !err;
	if (st.query.n_rungs && !below(4))
		held_elsewhere(st.query.rungs[below(st.query.n_rungs)].hash);
	if (!err && !below(8))
		failed(f); /* a decision that comes to nothing */
}

static void change_fleet(void)
{
	static const __u32 states[] = {KV_BACKEND_UP, KV_BACKEND_UP, KV_BACKEND_DOWN,
				       KV_BACKEND_DRAINING, KV_BACKEND_FREE};
	struct kv_backend *b = &world.backends[below(now.n)];

	if (below(3))
		b->state = states[below(5)];
	else
		b->epoch++;
}

static void run(__u64 seed, __u32 policy)
{
	begin(seed, policy);
	for (now.step = 0; now.step < STEPS; now.step++) {
		world.now += below(4) ? below(200 * MS) : 0;
		switch (below(10)) {
		case 0:
			change_fleet();
			break;
		case 1 ... 4:
			settle[below(4)](&flights[below(SLOTS)]);
			break;
		default:
			dispatch();
		}
		check_books();
	}
	/* the rest, in any order, and again */
	for (int k = 0; k < 20 * SLOTS; k++)
		settle[below(4)](&flights[below(SLOTS)]);
	for (int k = 0; k < SLOTS; k++)
		finished(&flights[k]);
	check_books();
	for (__u32 i = 0; i < WORLD_SLOTS; i++)
		for (int j = 0; j < KV_HOLDERS; j++)
			MUST(!(world_holder(i, j) & KV_HOLDER_TENTATIVE));
}

/* ---- equals --------------------------------------------------------------------------- */

/* New prompts, one after the other, at a fleet of which some are busy: the idle share them. */
static void share(__u64 seed, __u32 policy)
{
	__u32 got[16] = {0}, idle = 0, most = 0, fewest = ~0u;
	struct flight *f = &flights[0];

	begin(seed, policy);
	now.n = 3 + below(10);
	world_reset(policy, now.n, 1000000, 1000);
	for (__u32 i = 0; i < now.n; i++)
		if (i && !below(3))
			kv_queue_add(&world.backends[i], world.now, 50000000);
		else
			idle++;
	for (now.step = 0; now.step < 12 * idle; now.step++) {
		world.now += 1 + below(MS);
		memset(&st.query, 0, sizeof(st.query));
		st.query.exclude = KV_NONE;
		st.query.total = 400;
		st.query.n_rungs = 1;
		st.query.rungs[0] = (struct kv_rung){.depth = 400, .hash = 7000 + now.step};
		if (kv_steer_decide(&st))
			break;
		got[st.choice.backend & 15]++;
		kv_steer_commit(&st, &f->dispatch);
		kv_dispatch_answered(&f->dispatch);
		kv_dispatch_finished(&f->dispatch);
	}
	for (__u32 i = 0; i < now.n; i++) {
		if (world.backends[i].inflight_tokens) {
			MUST(!got[i]);
			continue;
		}
		most = got[i] > most ? got[i] : most;
		fewest = got[i] < fewest ? got[i] : fewest;
	}
	MUST(most <= fewest + 1);
}

int main(int argc, char **argv)
{
	static const char *const titles[] = {
		[KV_POLICY_PRICE] = "price: the least price",
		[KV_POLICY_STICKY] = "sticky: a holder within its lead, else the least time",
		[KV_POLICY_TTFT] = "ttft: the least time",
		[KV_POLICY_P2C] = "p2c: never the most loaded",
		[KV_POLICY_LEAST] = "least: the shortest queue",
		[KV_POLICY_HASH] = "hash: below the bound",
		[KV_POLICY_ROUND_ROBIN] = "round-robin: any that takes requests",
	};
	__u64 first = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	__u64 last = argc > 1 ? first : SEEDS;

	_Static_assert(sizeof(titles) / sizeof(*titles) == KV_POLICY_MAX, "every policy");
	for (__u32 policy = 0; policy < KV_POLICY_MAX; policy++)
		TEST(titles[policy])
	for (__u64 seed = first; seed <= last; seed++)
		run(seed, policy);
	TEST("price, sticky, ttft, least: the idle share what is new")
	{
		for (__u64 seed = first; seed <= last; seed++) {
			share(seed, KV_POLICY_PRICE);
			share(seed, KV_POLICY_STICKY);
			share(seed, KV_POLICY_TTFT);
			share(seed, KV_POLICY_LEAST);
		}
	}
	world_free();
	return check_done();
}
