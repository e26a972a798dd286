// SPDX-License-Identifier: BSD-2-Clause
/* What the follower tells, into the maps. */
#include "agent/client.h"
#include "agent/follow_private.h"
#include "agent/pool.h"
#include "common/log.h"

_Static_assert((int)HEALTH_NEW == KV_HEALTH_NEW && (int)HEALTH_UP == KV_HEALTH_UP &&
		       (int)HEALTH_DOWN == KV_HEALTH_DOWN &&
		       (int)HEALTH_EJECTED == KV_HEALTH_EJECTED &&
		       (int)HEALTH_TRIAL == KV_HEALTH_TRIAL,
	       "told as it is");

#define QUEUED_TOKENS 512 /* of a request of others, where ours do not tell how long they are */

void following_reckon(struct agent *agent, __u32 id)
{
	struct kv_backend *backend = &agent->dp.backends[id];
	const struct following *f = agent->following;
	const struct followed *b = f && f->backends[id].known ? &f->backends[id] : NULL;
	__u64 capacity = backend->capacity_set;

	if (!capacity)
		capacity = b && b->capacity ? b->capacity : KV_DEFAULT_CAPACITY;
	kv_write_once(backend->capacity, capacity);
}

static void on_state(void *arg, uint32_t id, bool takes, uint32_t weight, uint32_t limit,
		     enum health_state state)
{
	struct following *f = arg;
	struct followed *b = &f->backends[id];
	struct kv_backend *backend = following_backend(f, id);

	b->held = !takes;
	kv_write_once(backend->health, state);
	kv_write_once(backend->limit, limit);
	kv_write_once(backend->weight, weight < KV_WEIGHT_FULL ? weight : 0);
	if (b->held && backend->state == KV_BACKEND_UP) {
		kv_write_once(backend->state, KV_BACKEND_DOWN);
		client_move_waiting(f->agent, id);
	} else if (!b->held && backend->state == KV_BACKEND_DOWN && !f->agent->pools[id].away) {
		kv_write_once(backend->state, KV_BACKEND_UP);
	}
}

static void on_new_cache(void *arg, uint32_t id)
{
	struct kv_backend *backend = following_backend(arg, id);

	kv_atomic_add(&backend->epoch, 1); /* events raise it too, in a thread of their own */
}

/* What the administrator has set stays. */
static void on_cache_size(void *arg, uint32_t id, uint64_t capacity)
{
	struct following *f = arg;
	struct kv_backend *backend = following_backend(f, id);

	f->backends[id].capacity = capacity;
	if (!backend->capacity_set && backend->capacity != capacity)
		kv_info("backend %s: capacity %llu tokens, as the engine says", backend->name,
			(unsigned long long)capacity);
	following_reckon(f->agent, id);
}

static void on_hand_on(void *arg, uint32_t id)
{
	following_hand_on(arg, id);
}

static const struct kv_backend *on_backend(void *arg, uint32_t id)
{
	return following_backend(arg, id);
}

static void on_foreign(void *arg, uint32_t id, uint64_t requests, uint64_t waiting)
{
	struct kv_backend *backend = following_backend(arg, id);
	__u64 n = kv_read_once(backend->requests), mean = QUEUED_TOKENS;

	if (n)
		mean = (backend->prompt_tokens - backend->matched_tokens) / n;
	kv_write_once(backend->foreign_requests, requests);
	kv_write_once(backend->foreign_tokens, waiting * mean);
}

static void on_worth(void *arg, uint32_t id, const struct worth *worth)
{
	struct kv_backend *backend = following_backend(arg, id);

	kv_write_once(backend->worth_predicted, worth->verdict.predicted);
	kv_write_once(backend->worth_found, worth->verdict.found);
	kv_write_once(backend->discount, worth->discount);
}

/* The kernel does not read bodies: it leaves such a service's completions to us. */
static void on_models(void *arg, uint32_t service, bool differ)
{
	struct following *f = arg;
	struct kv_service *s = &f->agent->dp.services[service];

	if (!s->flags || differ == !!(kv_read_once(s->flags) & KV_SERVICE_MODELS))
		return;
	if (differ)
		kv_atomic_fetch_or(&s->flags, KV_SERVICE_MODELS);
	else
		kv_atomic_fetch_and(&s->flags, ~KV_SERVICE_MODELS);
	kv_info("service %s: its engines serve %s", s->name,
		differ ? "different models, or one has yet to say which: its completions go "
			 "through the agent"
		       : "the same models");
}

const struct follow_calls following_calls = {
	.state = on_state,
	.new_cache = on_new_cache,
	.cache_size = on_cache_size,
	.hand_on = on_hand_on,
	.backend = on_backend,
	.foreign = on_foreign,
	.worth = on_worth,
	.models = on_models,
};
