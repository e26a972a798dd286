// SPDX-License-Identifier: BSD-2-Clause
/*
 * In the follower's thread: what the index tells goes to the kernel in batches. A batch is of one
 * backend, stored or gone, so their order stays.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
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

	if (backend >= s->max_backends || kv_read_once(s->backends[backend].told) == KV_TOLD_OFF)
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

/* The block's own key, and the texts that end with it. */
static void tell(struct told_sink *s, __u64 key, __u32 backend, bool gone, __u32 tier)
{
	uint64_t text;
	uint32_t at = 0;

	add(s, key, backend, gone, tier);
	while (kv_ties_next(s->ties, key, &at, &text))
		add(s, text, backend, gone, tier);
}

/* ---- the index's ---- */

static void on_told(void *ctx, uint64_t key, uint32_t depth, uint32_t backend, uint32_t weight)
{
	struct told *t = ctx;

	(void)depth;
	tell(&t->sink, key, backend, false, KV_TIERS - weight);
}

static void on_gone(void *ctx, uint64_t key, uint32_t backend)
{
	struct told *t = ctx;

	tell(&t->sink, key, backend, true, 0);
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
	/* The holder word has 12 bits of the epoch: those that come round again are not told. */
	told_sink_void(&s->backends[backend]);
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

/* What the index has of the token block is told of the text. */
static void tell_text(struct told_sink *s, struct kv_index *ix, const struct kv_tie *tie, bool gone)
{
	uint32_t weight;

	for (__u32 id = 0; id < s->max_backends; id++) {
		if (kv_read_once(s->backends[id].told) == KV_TOLD_OFF)
			continue;
		weight = kv_index_lookup(ix, id, tie->token);
		if (weight)
			add(s, tie->text, id, gone, KV_TIERS - weight);
	}
}

/* What is held already is told of the text now. A text that is tied no more would never be told to
 * be gone, so it is taken back; while other ties of it stand, too little is told. */
static void tie(struct told_sink *s, struct kv_index *ix, const struct kv_tie *tie)
{
	enum kv_tied tied;
	struct kv_tie old;

	tied = kv_ties_add(s->ties, tie->token, tie->text, &old);
	if (tied == KV_TIED_REPLACES)
		tell_text(s, ix, &old, true);
	if (tied != KV_TIED_NOT)
		tell_text(s, ix, tie, false);
}

static void take_ties(struct told_sink *s, struct kv_index *ix)
{
	struct told_ties *ties = __atomic_exchange_n(&s->inbox, NULL, __ATOMIC_ACQUIRE), *next;

	for (; ties; ties = next) {
		for (__u32 i = 0; i < ties->n; i++)
			tie(s, ix, &ties->tie[i]);
		next = ties->next;
		free(ties);
	}
}

void told_sink_tie(struct told_sink *s, struct told_ties *ties)
{
	ties->next = __atomic_load_n(&s->inbox, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&s->inbox, &ties->next, ties, false, __ATOMIC_RELEASE,
					    __ATOMIC_RELAXED))
		;
}

void told_sink_turn(void *ctx, struct kv_index *ix)
{
	struct told *t = ctx;
	struct told_sink *s = &t->sink;

	take_ties(s, ix);
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

int told_sink_open(struct told_sink *s, struct dataplane *dp, size_t tie_bytes)
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
	s->ties = kv_ties_new(tie_bytes);
	if (!s->ties) {
		munmap(s->telling, s->telling_bytes);
		s->telling = NULL;
		return -ENOMEM;
	}
	s->backends = dp->backends;
	s->max_backends = dp->max_backends;
	s->program_fd = bpf_program__fd(dp->skel->progs.kv_agent_tell);
	pthread_mutex_init(&s->mutex, NULL);
	return 0;
}

void told_sink_close(struct told_sink *s)
{
	struct told_ties *ties;

	if (!s->telling)
		return;
	munmap(s->telling, s->telling_bytes);
	s->telling = NULL;
	kv_ties_free(s->ties);
	while ((ties = s->inbox)) {
		s->inbox = ties->next;
		free(ties);
	}
	pthread_mutex_destroy(&s->mutex);
}
