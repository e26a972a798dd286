// SPDX-License-Identifier: BSD-2-Clause
/*
 * In the follower's thread: what the index tells goes to the kernel in batches. A batch is of one
 * backend, stored or gone, so their order stays.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kvsteer.skel.h"

#include "agent/told_private.h"
#include "common/log.h"

/* The index weighs tiers only to find the best; how much each counts is the service's to say. */
_Static_assert(KV_TIERS == KV_TIER_COUNT, "tiers of the index and of the maps");

static void flush(struct told_sink *s)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts);
	struct kv_telling *t = s->telling;

	if (!t->n)
		return;
	/* Of another epoch by now: the loop has it told again when it knows what happened. */
	if (bpf_prog_test_run_opts(s->program_fd, &opts))
		kv_err("kernel program kv_agent_tell: %s", strerror(errno));
	t->n = 0;
}

static void add(struct told_sink *s, __u64 key, __u32 backend, bool gone, __u32 tier)
{
	struct kv_telling *t = s->telling;

	if (backend >= s->max_backends)
		return;
	if (!s->known[backend]) {
		s->epoch[backend] = kv_read_once(s->backends[backend].epoch);
		s->known[backend] = true;
	}
	if (t->n == KV_TELL_MAX || t->backend != backend || t->gone != gone || t->tier != tier ||
	    t->epoch != s->epoch[backend]) {
		flush(s);
		t->backend = backend;
		t->epoch = s->epoch[backend];
		t->gone = gone;
		t->tier = tier;
	}
	t->hash[t->n++] = key;
}

/* ---- the index's ---- */

static void on_told(void *ctx, uint64_t key, uint32_t depth, uint32_t backend, uint32_t weight)
{
	struct told *t = ctx;

	(void)depth;
	add(&t->sink, key, backend, false, KV_TIERS - weight);
}

static void on_gone(void *ctx, uint64_t key, uint32_t backend)
{
	struct told *t = ctx;

	add(&t->sink, key, backend, true, 0);
}

/* The epoch forgets in one step, what was learned as well. */
static void on_cleared(void *ctx, uint32_t backend, uint32_t rank, bool wholesale)
{
	struct told *t = ctx;
	struct told_sink *s = &t->sink;

	(void)rank;
	if (backend >= s->max_backends || !wholesale)
		return;
	flush(s);
	s->epoch[backend] = kv_atomic_fetch_add(&s->backends[backend].epoch, 1) + 1;
	s->known[backend] = true;
}

void told_sink_void(struct kv_backend *backend)
{
	kv_write_once(backend->told_from, kv_atomic_fetch_add(&backend->clock, 1) + 1);
}

static void on_unsure(void *ctx, uint32_t backend, uint32_t rank, bool wholesale)
{
	struct told *t = ctx;
	struct told_sink *s = &t->sink;

	(void)rank;
	if (backend >= s->max_backends || !wholesale)
		return;
	flush(s);
	s->known[backend] = false;
	told_sink_void(&s->backends[backend]);
}

static void on_complete(void *ctx, uint32_t backend, uint32_t rank, bool complete)
{
	(void)ctx, (void)backend, (void)rank, (void)complete; /* shown by the follower's stats */
}

const struct kv_index_sink told_sink_ops = {on_told, on_gone, on_cleared, on_unsure, on_complete};

/* ---- turns ---- */

static void retell(struct told_sink *s, struct kv_index *ix)
{
	bool wanted[KV_MAX_BACKENDS];

	pthread_mutex_lock(&s->mutex);
	memcpy(wanted, s->retell, sizeof(wanted));
	memset(s->retell, 0, sizeof(s->retell));
	__atomic_store_n(&s->any_retell, false, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&s->mutex);
	for (__u32 id = 0; id < s->max_backends; id++) {
		if (!wanted[id])
			continue;
		s->known[id] = false;
		kv_index_retell(ix, id);
	}
}

void told_sink_turn(void *ctx, struct kv_index *ix)
{
	struct told *t = ctx;
	struct told_sink *s = &t->sink;

	flush(s);
	if (__atomic_load_n(&s->any_retell, __ATOMIC_RELAXED))
		retell(s, ix);
}

void told_sink_retell(struct told_sink *s, __u32 backend)
{
	pthread_mutex_lock(&s->mutex);
	s->retell[backend] = true;
	__atomic_store_n(&s->any_retell, true, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&s->mutex);
}

/* ---- beginning and end ---- */

int told_sink_open(struct told_sink *s, struct dataplane *dp)
{
	size_t page = sysconf(_SC_PAGESIZE);

	s->telling_bytes = (sizeof(*s->telling) + page - 1) / page * page;
	s->telling = mmap(NULL, s->telling_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
			  bpf_map__fd(dp->skel->maps.kv_telling), 0);
	if (s->telling == MAP_FAILED) {
		s->telling = NULL;
		return -errno;
	}
	s->telling->n = 0; /* of an agent before */
	s->backends = dp->backends;
	s->max_backends = dp->max_backends;
	s->program_fd = bpf_program__fd(dp->skel->progs.kv_agent_tell);
	pthread_mutex_init(&s->mutex, NULL);
	return 0;
}

void told_sink_close(struct told_sink *s)
{
	if (!s->telling)
		return;
	munmap(s->telling, s->telling_bytes);
	pthread_mutex_destroy(&s->mutex);
	s->telling = NULL;
}
