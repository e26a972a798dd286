// SPDX-License-Identifier: BSD-2-Clause
#include "steering.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* steer.h finds its world by functions without a context, so this one is the file's. Everything
 * it hands out is a copy: deciding moves the round-robin turn. */
static struct {
	const struct view *view;
	struct kv_service services[KV_MAX_SERVICES];
	struct kv_backend backends[KV_MAX_BACKENDS];
	struct kv_prefix_set prefixes;
	struct kv_session session;
} world;

static struct kv_prefix_set *kv_world_prefix_set(__u64 hash)
{
	return kv_pins_prefix_set(world.view->pins, hash, &world.prefixes) ? NULL : &world.prefixes;
}

static struct kv_session *kv_world_session(__u64 key)
{
	return kv_pins_lookup(world.view->pins, KV_PIN_kv_sessions, &key, &world.session)
		       ? NULL
		       : &world.session;
}

static struct kv_backend *kv_world_backend(__u32 id)
{
	return id < KV_MAX_BACKENDS ? &world.backends[id] : NULL;
}

static struct kv_service *kv_world_service(__u32 id)
{
	return id < KV_MAX_SERVICES ? &world.services[id] : NULL;
}

/* Nothing is learned here. */
static struct kv_session *kv_world_session_create(__u64 key)
{
	return kv_world_session(key);
}

static __u64 kv_world_ns(void)
{
	return world.view->now_ns;
}

static __u32 kv_world_random(void)
{
	return random();
}

static void kv_world_count(enum kv_counter counter)
{
	(void)counter;
}

#include <kvsteer/steer.h>

bool steering_live(__u64 holder, const struct kv_backend *backend)
{
	return kv_holder_live(holder, backend);
}

bool steering_told(__u64 holder, const struct kv_backend *backend)
{
	return kv_holder_told(holder, backend);
}

__u64 steering_age(__u64 holder, const struct kv_backend *backend)
{
	return kv_holder_age(holder, backend->clock);
}

__u64 steering_wait(const struct kv_backend *backend, __u64 now_ns)
{
	return kv_wait(backend, now_ns);
}

__u64 steering_used(const struct kv_service *service, __u64 now_ns)
{
	return kv_used(service, now_ns);
}

static void take_copies(const struct view *view)
{
	world.view = view;
	for (__u32 i = 0; i < KV_MAX_SERVICES && kv_pins_service(view->pins, i); i++)
		world.services[i] = *kv_pins_service(view->pins, i);
	for (__u32 i = 0; i < KV_MAX_BACKENDS && kv_pins_backend(view->pins, i); i++)
		world.backends[i] = *kv_pins_backend(view->pins, i);
}

int steering_decide(const struct view *view, const struct kv_query *query, struct kv_choice *ret)
{
	struct kv_steer st = {.query = *query};
	int err;

	take_copies(view);
	err = kv_steer_decide(&st);
	*ret = st.choice;
	return err;
}

/* ---- and why --------------------------------------------------------------------------- */

/* kv_time's unit is 1/1024 ms. */
static double in_seconds(__u64 time)
{
	return time / 1024e3;
}

static void look(const struct kv_steer *st, __u32 at, struct steering_candidate *c)
{
	const struct kv_backend *b;
	__u64 wait;

	c->backend = st->candidate[at];
	b = kv_world_backend(c->backend);
	wait = kv_wait(b, st->now);
	c->matched = kv_matched(st, c->backend, b);
	c->believed = st->match[c->backend];
	c->discount = kv_discount(st, b);
	c->own = kv_left(st->need, c->matched);
	c->wait = kv_saturate(wait);
	c->requests = kv_count(&b->inflight_requests);
	c->tokens = kv_count(&b->inflight_tokens);
	c->wait_s = in_seconds(kv_time((__u64)c->wait * 1024, b));
	c->own_s = in_seconds(kv_time((__u64)c->own * 1024, b));
	c->cost_s = in_seconds(kv_cost(st, b, wait, c->matched));
	c->near = kv_near(st, c->matched);
	c->load = kv_requests(b);
	c->full = c->load >= st->load;
}

/* Of all pairs that may be drawn, the share that it wins: one, drawn first, keeps a tie. */
static double chance_of(const struct kv_steer *st, __u32 at)
{
	const struct kv_backend *b = kv_world_backend(st->candidate[at]);
	__u32 won = 0;

	if (st->n < 2)
		return 1;
	for (__u32 i = 0; i < st->n; i++) {
		const struct kv_backend *other = kv_world_backend(st->candidate[i]);

		if (i == at)
			continue;
		won += !kv_less_loaded(st, other, b);
		won += kv_less_loaded(st, b, other);
	}
	return (double)won / st->n / (st->n - 1);
}

static void choose_likeliest(const struct kv_steer *st, struct steering_report *r)
{
	const struct steering_candidate *best = NULL, *next = NULL;

	for (__u32 i = 0; i < r->n; i++) {
		struct steering_candidate *c = &r->candidates[i];

		c->chance = chance_of(st, i);
		if (!best || c->chance > best->chance) {
			next = best;
			best = c;
		} else if (!next || c->chance > next->chance) {
			next = c;
		}
	}
	r->chance |= best->chance < 1;
	r->choice.backend = r->choice.intended = best->backend;
	r->choice.matched = best->matched;
	r->choice.believed = best->believed;
	r->choice.own = best->own;
	r->choice.wait = best->wait;
	r->second = next ? next->backend : KV_NONE;
}

/* The same choice again, at the same price, of the others. */
static __u32 choose_second(const struct kv_steer *decided, __u32 choice)
{
	struct kv_steer st = *decided;
	__u32 at = 0;

	while (at < st.n && st.candidate[at] != choice)
		at++;
	if (at == st.n || st.n < 2)
		return KV_NONE;
	st.n--;
	memmove(&st.candidate[at], &st.candidate[at + 1], (st.n - at) * sizeof(st.candidate[0]));
	kv_choose(&st, at); /* whose turn is next, under round-robin, has moved to its place */
	return st.pick;
}

static __u32 deepest_holder(const struct steering_report *r)
{
	const struct steering_candidate *best = NULL;

	for (__u32 i = 0; i < r->n; i++) {
		const struct steering_candidate *c = &r->candidates[i];

		if (c->matched && c->matched == r->choice.best &&
		    (!best || c->wait_s < best->wait_s))
			best = c;
	}
	return best ? best->backend : KV_NONE;
}

/* One that starts slowly is passed over now and then, by chance. */
static bool some_start_slowly(const struct kv_service *service)
{
	for (__u32 i = 0; i < service->n_backends && i < KV_MAX_BACKENDS; i++) {
		const struct kv_backend *b = kv_world_backend(service->backends[i]);

		if (b && b->state == KV_BACKEND_UP && b->weight)
			return true;
	}
	return false;
}

int steering_explain(const struct view *view, const struct kv_query *query, const __u64 *mask,
		     struct steering_report *r)
{
	struct kv_steer st = {.query = *query, .masked = !!mask};
	int err;

	if (mask)
		memcpy(st.mask, mask, sizeof(st.mask));
	take_copies(view);
	err = kv_steer_decide(&st);
	*r = (struct steering_report){
		.choice = st.choice,
		.policy = st.policy,
		.rule = err ? st.policy : kv_rule(&st),
		.need = st.need,
		.floor = st.floor,
		.affinity = st.affinity,
		.sampled = !st.scan,
		.chance = !st.scan,
		.bound = st.load,
		.second = KV_NONE,
		.deepest = KV_NONE,
	};
	if (err)
		return err;
	r->chance |= some_start_slowly(kv_world_service(query->service));
	for (; r->n < st.n; r->n++)
		look(&st, r->n, &r->candidates[r->n]);
	if (r->rule == KV_POLICY_P2C && st.scan)
		choose_likeliest(&st, r);
	else
		r->second = choose_second(&st, r->choice.backend);
	r->deepest = deepest_holder(r);
	return 0;
}
