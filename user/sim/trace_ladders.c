// SPDX-License-Identifier: BSD-2-Clause
#include "sim/trace_ladders.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kvsteer/fixed.h"
#include "sim/trace_head.h"

#define FIRST_SLOTS 4096u
#define SLOTS_MAX (1u << 26) /* 1 GiB */
#define BYTES_PER_TOKEN 4    /* KV_BYTES_PER_TOKEN of steer.h */
#define NO_RUN UINT32_MAX

/* Blocks that appeared together: of one request, behind what it shares with an earlier one. */
struct run {
	uint64_t first;	 /* id of the first of them */
	uint32_t start;	 /* blocks before it … */
	uint32_t parent; /* … which are this run's, and its parents' */
	uint32_t end;	 /* blocks of the request that brought it */
	uint32_t kept;
};

struct slot {
	uint64_t key; /* 0: free */
	uint32_t run;
	uint32_t depth; /* blocks */
};

struct trace_ladders {
	uint32_t block;
	uint32_t sample;
	uint64_t seed;
	uint64_t drawn;
	uint64_t next_id;
	uint32_t sessions;
	struct run *runs;
	size_t n_runs, room;
	struct slot *slots;
	uint32_t n_slots, used;
	uint32_t boundaries[KV_MAX_RUNGS];
	uint64_t ids[TRACE_IDS_MAX];
};

struct trace_ladders *trace_ladders_new(uint32_t block_tokens, uint32_t sample, uint64_t seed)
{
	struct trace_ladders *l = malloc(sizeof(*l));

	if (!l)
		return NULL;
	memset(l, 0, offsetof(struct trace_ladders, ids));
	l->block = block_tokens;
	l->sample = sample;
	l->seed = seed;
	l->slots = calloc(FIRST_SLOTS, sizeof(*l->slots));
	l->n_slots = FIRST_SLOTS;
	if (l->slots)
		return l;
	free(l);
	return NULL;
}

void trace_ladders_free(struct trace_ladders *l)
{
	if (!l)
		return;
	free(l->slots);
	free(l->runs);
	free(l);
}

/* The rung's place, or the free one that it would get. Hashes are what clients say: the seed keeps
 * them from choosing where they come to lie. */
static struct slot *find(const struct trace_ladders *l, uint64_t hash)
{
	uint64_t key = kv_mix(hash ^ l->seed) ?: 1;

	for (uint32_t i = key;; i++) {
		struct slot *s = &l->slots[i & (l->n_slots - 1)];

		if (!s->key || s->key == key)
			return s;
	}
}

/* At most half of the slots are used, a request's more included. */
static int make_room(struct trace_ladders *l)
{
	struct slot *old = l->slots, *fresh;
	uint32_t n = l->n_slots;

	if (l->used + KV_MAX_RUNGS + 1 <= n / 2)
		return 0;
	if (2 * n > SLOTS_MAX)
		return -ENOBUFS;
	fresh = calloc(2 * n, sizeof(*fresh));
	if (!fresh)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t at = old[i].key;

		if (!old[i].key)
			continue;
		while (fresh[at & (2 * n - 1)].key)
			at++;
		fresh[at & (2 * n - 1)] = old[i];
	}
	free(old);
	l->slots = fresh;
	l->n_slots = 2 * n;
	return 0;
}

static int add_run(struct trace_ladders *l, const struct run *run)
{
	if (l->n_runs == l->room) {
		size_t room = 2 * l->room ?: 1024;
		struct run *grown =
			room < NO_RUN ? reallocarray(l->runs, room, sizeof(*grown)) : NULL;

		if (!grown)
			return -ENOMEM;
		l->runs = grown;
		l->room = room;
	}
	l->runs[l->n_runs++] = *run;
	return 0;
}

/* Ids of the first n blocks, which are the run's and its parents'. */
static void fill_ids(struct trace_ladders *l, uint32_t run, uint32_t n)
{
	while (run != NO_RUN) {
		const struct run *r = &l->runs[run];

		for (; n > r->start; n--)
			l->ids[n - 1] = r->first + (n - 1 - r->start);
		run = r->parent;
	}
}

static uint32_t draw(struct trace_ladders *l, const struct kv_query *q)
{
	uint64_t lot = q->session ? q->session : ++l->drawn;

	return kv_mix(lot ^ l->seed) % l->sample == 0;
}

/* The deepest rung that is known: its run, and how many blocks it is deep. */
static uint32_t match(const struct trace_ladders *l, const struct kv_query *q, uint32_t n,
		      uint32_t *ret_depth)
{
	*ret_depth = 0;
	for (uint32_t i = q->n_rungs; i--;) {
		const struct slot *s = find(l, q->rungs[i].hash);

		if (!s->key || !s->depth || q->rungs[i].depth / l->block != s->depth ||
		    s->depth > n)
			continue;
		*ret_depth = s->depth;
		return s->run;
	}
	return NO_RUN;
}

static void learn(struct trace_ladders *l, const struct kv_query *q, uint32_t run)
{
	for (uint32_t i = 0; i < q->n_rungs; i++) {
		uint32_t depth = q->rungs[i].depth / l->block;
		struct slot *s = find(l, q->rungs[i].hash);

		if (s->key || !depth)
			continue;
		*s = (struct slot){kv_mix(q->rungs[i].hash ^ l->seed) ?: 1, run, depth};
		l->used++;
	}
}

/* Numbers in the order of appearance. A session has a slot as a rung has, at no depth. */
static uint32_t number_session(struct trace_ladders *l, uint64_t session)
{
	struct slot *s = find(l, kv_mix(session));

	if (!s->key) {
		*s = (struct slot){kv_mix(kv_mix(session) ^ l->seed) ?: 1, ++l->sessions, 0};
		l->used++;
	}
	return s->depth ? 0 : s->run;
}

int trace_ladders_add(struct trace_ladders *l, const struct kv_query *query, struct trace_line *ret)
{
	/* a length that only its body tells, as steering reckons it */
	uint64_t total = query->total ?: (query->body_len + BYTES_PER_TOKEN - 1) / BYTES_PER_TOKEN;
	uint64_t n = trace_recorded_blocks(total, l->block);
	uint32_t run, depth;
	struct run fresh;
	int rc;

	if (!total)
		return -ENODATA;
	if (n > TRACE_IDS_MAX || total > TRACE_TOKENS_MAX)
		return -E2BIG;
	rc = make_room(l);
	if (rc)
		return rc;
	run = match(l, query, n, &depth);
	fresh = (struct run){.first = l->next_id, .start = depth, .parent = run, .end = n};
	/* what shares but a system prompt is another conversation */
	if (run != NO_RUN && depth >= l->runs[run].end - l->runs[run].end / 4)
		fresh.kept = l->runs[run].kept;
	else
		fresh.kept = draw(l, query);
	if (depth < n) {
		rc = add_run(l, &fresh);
		if (rc)
			return rc;
		run = l->n_runs - 1;
		l->next_id += n - depth;
	}
	learn(l, query, run);
	if (!fresh.kept)
		return 0;
	fill_ids(l, run, n);
	memset(ret, 0, sizeof(*ret));
	ret->input_tokens = total;
	ret->n_ids = n;
	ret->ids = l->ids;
	ret->session = query->session ? number_session(l, query->session) : 0;
	ret->boundaries = l->boundaries;
	for (uint32_t i = 0; i < query->n_rungs; i++)
		if (query->rungs[i].depth <= total && query->rungs[i].depth >= l->block)
			l->boundaries[ret->n_boundaries++] = query->rungs[i].depth;
	return 1;
}
