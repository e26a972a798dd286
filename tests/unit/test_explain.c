/* SPDX-License-Identifier: BSD-2-Clause */
/* What kvsteer explain tells is what the decision does: in random worlds, read through maps that
 * are tables here. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "cli/view.h"
#include "kvsteer/prefixes.h"
#include "sim/random.h"

#define TRIES 2000
#define RUNGS 6
#define MAX 100

static struct {
	struct kv_service service;
	struct kv_backend backends[KV_MAX_BACKENDS];
	struct kv_prefix prefixes[RUNGS]; /* of hashes 1, 2, … */
	__u64 chance;
} maps;

static const struct kv_service *maps_service(const struct kv_pins *pins, __u32 i)
{
	(void)pins;
	return i ? NULL : &maps.service;
}

static const struct kv_backend *maps_backend(const struct kv_pins *pins, __u32 i)
{
	(void)pins;
	return i < KV_MAX_BACKENDS ? &maps.backends[i] : NULL;
}

static int maps_prefix_set(const struct kv_pins *pins, __u64 hash, struct kv_prefix_set *ret)
{
	(void)pins;
	memset(ret, 0, sizeof(*ret));
	if (!hash || hash > RUNGS)
		return 0;
	ret->hash[3] = kv_prefix_name(hash);
	for (int j = 0; j < KV_HOLDERS; j++)
		ret->entry[3].holder[j] = kv_prefix_bind(maps.prefixes[hash - 1].holder[j], hash);
	return 0;
}

static int maps_lookup(const struct kv_pins *pins, enum kv_pin pin, const void *key, void *value)
{
	(void)pins;
	(void)pin;
	(void)key;
	(void)value;
	return -ENOENT;
}

#define kv_pins_service maps_service
#define kv_pins_backend maps_backend
#define kv_pins_lookup maps_lookup
#define kv_pins_prefix_set maps_prefix_set
#include "cli/steering.c"

static struct view view = {.now_ns = 1000000000000ull};
static struct kv_query query;
static struct steering_report report;

static __u32 below(__u32 n)
{
	return (sim_random(&maps.chance) >> 33) % n;
}

/* n backends with queues of all sizes, some of which hold a part of the one prompt. */
static void make(__u64 seed, __u32 policy, __u32 n)
{
	memset(&maps, 0, sizeof(maps));
	maps.chance = seed * 0x9e3779b97f4a7c15ull;
	maps.service.flags = KV_SERVICE_UP;
	maps.service.policy = policy;
	maps.service.n_backends = n;
	maps.service.turn = below(1000);
	for (__u32 i = 0; i < n; i++) {
		struct kv_backend *b = &maps.backends[i];

		maps.service.backends[i] = i;
		b->state = below(6) ? KV_BACKEND_UP : KV_BACKEND_DRAINING;
		b->epoch = 1;
		b->clock = below(100000);
		b->capacity = 1000000;
		b->rate = 1000 + below(3) * 1000;
		b->inflight_requests = below(4);
		b->inflight_tokens = b->inflight_requests ? below(8000) : 0;
		b->head_ns = view.now_ns - below(1000000000);
		b->head_tokens = b->inflight_tokens;
		for (__u32 r = below(RUNGS); r < RUNGS && !below(3); r++)
			maps.prefixes[r].holder[i % KV_HOLDERS] = kv_holder_make(i, 1, b->clock, 0);
	}
	memset(&query, 0, sizeof(query));
	query.exclude = KV_NONE;
	if (!below(10))
		return;
	query.total = 1000 * RUNGS + below(500);
	query.n_rungs = RUNGS;
	for (__u32 r = 0; r < RUNGS; r++)
		query.rungs[r] = (struct kv_rung){.depth = 1000 * (r + 1), .hash = r + 1};
}

static const struct steering_candidate *of(__u32 id)
{
	for (__u32 i = 0; i < report.n; i++)
		if (report.candidates[i].backend == id)
			return &report.candidates[i];
	return NULL;
}

static __u32 decided(void)
{
	struct kv_choice choice;

	steering_decide(&view, &query, &choice);
	return choice.backend;
}

static void check_candidates(void)
{
	__u32 up = 0, best = 0;

	for (__u32 i = 0; i < maps.service.n_backends; i++)
		up += maps.backends[i].state == KV_BACKEND_UP;
	CHECK_EQ(report.n, up);
	for (__u32 i = 0; i < report.n; i++) {
		const struct steering_candidate *c = &report.candidates[i];
		const struct kv_backend *b = &maps.backends[c->backend];

		CHECK_EQ(b->state, KV_BACKEND_UP);
		CHECK_EQ(c->requests, b->inflight_requests);
		CHECK_EQ(c->tokens, b->inflight_tokens);
		CHECK(fabs(c->wait_s - (double)c->wait / b->rate) < 2e-6);
		CHECK(c->own + c->matched == report.need || (!c->own && c->matched >= report.need));
		best = c->matched > best ? c->matched : best;
	}
	CHECK_EQ(report.choice.best, best);
	CHECK((report.deepest == KV_NONE) == !best);
	if (best && of(report.deepest))
		CHECK_EQ(of(report.deepest)->matched, best);
}

/* The least of what is compared, under the policies that compare costs. */
static void check_cost(void)
{
	const struct steering_candidate *choice = of(report.choice.backend);

	for (__u32 i = 0; choice && i < report.n; i++)
		CHECK(choice->cost_s <= report.candidates[i].cost_s);
}

/* Without the choice the second is chosen. */
static void check_second(__u32 policy)
{
	__u32 choice = report.choice.backend, second = report.second;

	CHECK(second != choice);
	CHECK_EQ(second == KV_NONE, report.n == 1);
	if (policy == KV_POLICY_ROUND_ROBIN)
		maps.service.turn++; /* one other only: its turn comes in any case */
	else
		maps.backends[choice].state = KV_BACKEND_DOWN;
	if (second != KV_NONE)
		CHECK_EQ(decided(), second);
}

static void agree(__u32 policy)
{
	for (__u64 seed = 1; seed <= TRIES; seed++) {
		int err;

		make(seed, policy, 1 + seed % 9);
		err = steering_explain(&view, &query, NULL, &report);
		if (err) {
			CHECK_EQ(decided(), KV_NONE);
			continue;
		}
		check_candidates();
		if (report.rule == KV_POLICY_P2C)
			continue;
		CHECK(!report.chance);
		CHECK_EQ(report.choice.backend, decided());
		if (report.rule == KV_POLICY_PRICE || report.rule == KV_POLICY_TTFT ||
		    report.rule == KV_POLICY_LEAST)
			check_cost();
		if (report.rule != KV_POLICY_HASH) /* there the bound moves with the number */
			check_second(policy);
	}
}

static void test_chance(__u32 policy)
{
	__u32 times[MAX] = {0};
	double sum = 0;

	srandom(1);
	for (__u64 seed = 1; seed <= 20; seed++) {
		make(seed, policy, 2 + seed % 5);
		if (steering_explain(&view, &query, NULL, &report))
			continue;
		memset(times, 0, sizeof(times));
		for (int i = 0; i < 4000; i++)
			times[decided() % MAX]++;
		sum = 0;
		for (__u32 i = 0; i < report.n; i++) {
			const struct steering_candidate *c = &report.candidates[i];

			sum += c->chance;
			CHECK(fabs(c->chance - times[c->backend] / 4000.0) < 0.04);
			CHECK(c->chance <= of(report.choice.backend)->chance);
		}
		CHECK(fabs(sum - 1) < 1e-9);
		CHECK_EQ(report.chance, of(report.choice.backend)->chance < 1);
	}
}

int main(void)
{
	TEST("price: the choice, its cost, the second")
	agree(KV_POLICY_PRICE);
	TEST("ttft: the choice, its cost, the second")
	agree(KV_POLICY_TTFT);
	TEST("sticky: the choice and the second")
	agree(KV_POLICY_STICKY);
	TEST("least: the choice, its cost, the second")
	agree(KV_POLICY_LEAST);
	TEST("round-robin: the choice and whose turn is next")
	agree(KV_POLICY_ROUND_ROBIN);
	TEST("p2c: how likely each is")
	test_chance(KV_POLICY_P2C);

	TEST("hash: the choice, and who is at the bound")
	{
		for (__u64 seed = 1; seed <= TRIES; seed++) {
			make(seed, KV_POLICY_HASH, 1 + seed % 9);
			if (steering_explain(&view, &query, NULL, &report))
				continue;
			if (report.rule != KV_POLICY_HASH)
				continue;
			CHECK_EQ(report.choice.backend, decided());
			CHECK(!of(report.choice.backend)->full);
			CHECK(report.choice.intended == report.choice.backend ||
			      of(report.choice.intended)->full);
		}
	}

	TEST("a fleet too large to look at: by chance, holders among the candidates")
	{
		make(7, KV_POLICY_PRICE, MAX);
		CHECK_EQ(steering_explain(&view, &query, NULL, &report), 0);
		CHECK(report.sampled && report.chance && report.n < MAX && report.choice.best);
		CHECK(of(report.choice.backend) && of(report.deepest) && of(report.second));
	}
	return check_done();
}
