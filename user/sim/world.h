/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The steering core's world over tables of this process, as bpf/lib has it over maps. Time and
 * chance are the owner's to set. Tables are open-addressed; they grow only between two decisions
 * (world_make_room), so "full" is a case that can be had too.
 *
 * Who includes this has its own copy of the core, and one pointer to the world it works on.
 */
#ifndef KVSTEER_SIM_WORLD_H
#define KVSTEER_SIM_WORLD_H

#include <errno.h>
#include <stdlib.h>

#include "kvsteer/counters.h"
#include "kvsteer/shared.h"
#include "sim/random.h"

struct world_prefix {
	__u64 key; /* 0: free */
	struct kv_prefix value;
};

struct world_session {
	__u64 key;
	struct kv_session value;
};

struct steer_world {
	struct world_prefix *prefixes;
	struct world_session *sessions;
	__u32 prefix_slots, session_slots; /* powers of two */
	__u32 n_prefixes, max_prefixes;
	__u32 n_sessions, max_sessions;
	__u64 now;
	__u64 random; /* state of the generator */
	__u64 counters[KV_CNT_MAX];
	struct kv_service services[KV_MAX_SERVICES];
	struct kv_backend backends[KV_MAX_BACKENDS];
};

static struct steer_world *kv_world;

static inline __u64 world_slot(__u64 key)
{
	return key * 0x9e3779b97f4a7c15ull >> 32;
}

static struct kv_prefix *kv_world_prefix(__u64 hash)
{
	for (__u64 i = world_slot(hash);; i++) {
		struct world_prefix *p = &kv_world->prefixes[i & (kv_world->prefix_slots - 1)];

		if (p->key == hash)
			return &p->value;
		if (!p->key)
			return NULL;
	}
}

static struct kv_session *kv_world_session(__u64 key)
{
	for (__u64 i = world_slot(key);; i++) {
		struct world_session *s = &kv_world->sessions[i & (kv_world->session_slots - 1)];

		if (s->key == key)
			return &s->value;
		if (!s->key)
			return NULL;
	}
}

/* Others may see the entry before it has its first holder. */
static int kv_world_prefix_insert(__u64 hash, const struct kv_prefix *fresh)
{
	if (kv_world->n_prefixes >= kv_world->max_prefixes)
		return kv_world_prefix(hash) ? -EEXIST : -ENOMEM;
	for (__u64 i = world_slot(hash);; i++) {
		struct world_prefix *p = &kv_world->prefixes[i & (kv_world->prefix_slots - 1)];
		__u64 was = p->key ?: kv_atomic_cas(&p->key, 0, hash);

		if (was == hash)
			return -EEXIST;
		if (was)
			continue;
		for (int j = 0; j < KV_HOLDERS; j++)
			kv_atomic_cas(&p->value.holder[j], 0, fresh->holder[j]);
		kv_atomic_add(&kv_world->n_prefixes, 1);
		return 0;
	}
}

/* Those behind move up. Only while no other thread is at work. */
static void kv_world_prefix_delete(__u64 hash)
{
	struct world_prefix *slots = kv_world->prefixes;
	__u32 mask = kv_world->prefix_slots - 1, i = world_slot(hash) & mask, j;

	for (; slots[i].key != hash; i = (i + 1) & mask)
		if (!slots[i].key)
			return;
	kv_world->n_prefixes--;
	for (j = (i + 1) & mask; slots[j].key; j = (j + 1) & mask) {
		if (((j - (__u32)world_slot(slots[j].key)) & mask) < ((j - i) & mask))
			continue;
		slots[i] = slots[j];
		i = j;
	}
	slots[i] = (struct world_prefix){};
}

static struct kv_session *kv_world_session_create(__u64 key)
{
	if (kv_world->n_sessions >= kv_world->max_sessions)
		return kv_world_session(key);
	for (__u64 i = world_slot(key);; i++) {
		struct world_session *s = &kv_world->sessions[i & (kv_world->session_slots - 1)];
		__u64 was = s->key ?: kv_atomic_cas(&s->key, 0, key);

		if (!was)
			kv_atomic_add(&kv_world->n_sessions, 1);
		if (!was || was == key)
			return &s->value;
	}
}

static struct kv_backend *kv_world_backend(__u32 id)
{
	return id < KV_MAX_BACKENDS ? &kv_world->backends[id] : NULL;
}

static struct kv_service *kv_world_service(__u32 id)
{
	return id < KV_MAX_SERVICES ? &kv_world->services[id] : NULL;
}

static __u64 kv_world_ns(void)
{
	return kv_world->now;
}

static __u32 kv_world_random(void)
{
	return sim_random(&kv_world->random) >> 33;
}

static void kv_world_count(enum kv_counter counter)
{
	kv_atomic_add(&kv_world->counters[counter], 1);
}

#include "kvsteer/steer.h"
#include "kvsteer/tell.h"

/* One service (0) of n equal backends, all up. */
static inline void world_populate(struct steer_world *w, __u32 policy, __u32 n, __u64 capacity,
				  __u64 rate)
{
	w->max_prefixes = w->prefix_slots / 4 * 3;
	w->max_sessions = w->session_slots / 4 * 3;
	w->now = 1000000000000ull;
	w->random = 1;
	w->services[0].flags = KV_SERVICE_UP;
	w->services[0].policy = policy;
	w->services[0].n_backends = n;
	for (__u32 i = 0; i < n; i++) {
		w->services[0].backends[i] = i;
		w->backends[i].state = KV_BACKEND_UP;
		w->backends[i].epoch = 1; /* backend 0, epoch 0, clock 0 would be an empty word */
		w->backends[i].capacity = capacity;
		w->backends[i].rate = rate;
	}
}

static inline int world_alloc(struct steer_world *w, __u32 prefix_slots, __u32 session_slots)
{
	w->prefixes = calloc(prefix_slots, sizeof(*w->prefixes));
	w->sessions = calloc(session_slots, sizeof(*w->sessions));
	w->prefix_slots = prefix_slots;
	w->session_slots = session_slots;
	return w->prefixes && w->sessions ? 0 : -ENOMEM;
}

static inline void world_free_tables(struct steer_world *w)
{
	free(w->prefixes);
	free(w->sessions);
	w->prefixes = NULL;
	w->sessions = NULL;
}

#endif /* KVSTEER_SIM_WORLD_H */
