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
	struct kv_prefix prefix;
	struct kv_session session;
} world;

static struct kv_prefix *kv_world_prefix(__u64 hash)
{
	return kv_pins_lookup(world.view->pins, KV_PIN_kv_prefixes, &hash, &world.prefix)
		       ? NULL
		       : &world.prefix;
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
static int kv_world_prefix_insert(__u64 hash, const struct kv_prefix *fresh)
{
	(void)hash;
	(void)fresh;
	return -EPERM;
}

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

int steering_decide(const struct view *view, const struct kv_query *query, struct kv_choice *ret)
{
	struct kv_steer st = {.query = *query};
	int err;

	world.view = view;
	for (__u32 i = 0; i < KV_MAX_SERVICES && kv_pins_service(view->pins, i); i++)
		world.services[i] = *kv_pins_service(view->pins, i);
	for (__u32 i = 0; i < KV_MAX_BACKENDS && kv_pins_backend(view->pins, i); i++)
		world.backends[i] = *kv_pins_backend(view->pins, i);
	err = kv_steer_decide(&st);
	*ret = st.choice;
	return err;
}
