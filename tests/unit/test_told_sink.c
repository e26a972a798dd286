// SPDX-License-Identifier: BSD-2-Clause
/* What is told of texts, from ties to the kernel's program, which is played here. */
#include <bpf/bpf.h>

#include "check.h"
#include "events_build.h"
#include "kvsteer.h"

#define TEXTS 256

static uint32_t held[TEXTS]; /* by whom, one bit per backend: what the program was given */
static struct kv_telling *telling;
static int run_program(int fd, struct bpf_test_run_opts *opts);

#define bpf_prog_test_run_opts run_program
#define add sink_add /* events_build.h has one, too */
#include "agent/told_sink.c"

static int run_program(int fd, struct bpf_test_run_opts *opts)
{
	(void)fd, (void)opts;
	for (__u32 i = 0; i < telling->n; i++) {
		if (telling->hash[i] >= TEXTS)
			continue;
		if (telling->gone)
			held[telling->hash[i]] &= ~(1u << telling->backend);
		else
			held[telling->hash[i]] |= 1u << telling->backend;
	}
	return 0;
}

#define ROOM 16 /* ties */
#define BLOCKS 48
#define BOTH (1u << 1 | 1u << 2)

static struct kv_backend backends[4];
static struct told t;
static struct kv_index *ix;
static uint64_t keys[BLOCKS]; /* of the blocks that both engines hold */
static int ids[4];

/* Block n is told to be there, or gone. */
static void event(uint32_t backend, uint8_t kind, uint32_t n, uint32_t blocks)
{
	begin(kind, 100 + n, blocks);
	if (kind == KV_EVENT_STORED)
		with_tokens(n ? 99 + n : 0, n, 16);
	build_apply(ix, ids[backend], &b);
	told_sink_turn(&t, ix);
}

static void open_sink(void)
{
	struct kv_index_limits limits = KV_INDEX_LIMITS;
	struct kvsteer_options options = {.model = "m"};
	struct kvsteer_prompt prompt;
	uint32_t tokens[16 * BLOCKS];

	telling = calloc(1, sizeof(*telling));
	t.sink = (struct told_sink){.backends = backends,
				    .max_backends = 4,
				    .telling = telling,
				    .ties = kv_ties_new(ROOM * 32)};
	pthread_mutex_init(&t.sink.mutex, NULL);
	for (int tier = 0; tier < KV_TIERS; tier++)
		limits.weights[tier] = KV_TIERS - tier;
	ix = kv_index_new(&limits, &told_sink_ops, &t);
	for (uint32_t i = 0; i < 16 * BLOCKS; i++)
		tokens[i] = i + 1;
	for (uint32_t i = 0; i < BLOCKS; i++) {
		kvsteer_tokens(tokens, 16 * (i + 1), 16, &options, &prompt);
		keys[i] = prompt.rungs[prompt.n_rungs - 1].hash;
	}
	for (uint32_t id = 1; id <= 2; id++) {
		struct kv_index_engine e = {.backend = id, .model = "m"};

		backends[id].told = KV_TOLD_COMPLETE;
		ids[id] = kv_index_add(ix, &e);
		event(id, KV_EVENT_STORED, 0, BLOCKS);
	}
}

static void close_sink(void)
{
	kv_index_free(ix);
	kv_ties_free(t.sink.ties);
	pthread_mutex_destroy(&t.sink.mutex);
	free(telling);
}

/* Texts from … on are tied to the blocks of those numbers. */
static void tie_texts(uint32_t from, uint32_t n)
{
	struct told_ties *ties = calloc(1, sizeof(*ties));

	for (ties->n = 0; ties->n < n; ties->n++)
		ties->tie[ties->n] = (struct kv_tie){keys[from + ties->n], from + ties->n};
	told_sink_tie(&t.sink, ties);
	told_sink_turn(&t, ix);
}

int main(void)
{
	open_sink();
	TEST("a text that is tied is told where its block is, and follows it")
	{
		tie_texts(0, ROOM);
		for (uint32_t i = 0; i < ROOM; i++)
			CHECK_EQ(held[i], BOTH);
		event(1, KV_EVENT_REMOVED, 3, 1);
		CHECK_EQ(held[3], 1u << 2);
		event(1, KV_EVENT_STORED, 3, 1);
		CHECK_EQ(held[3], BOTH);
	}

	TEST("a tie that has made room: nobody would say that its text is gone, so it is not told")
	{
		tie_texts(ROOM, 5);
		for (uint32_t i = 0; i < ROOM + 5; i++)
			CHECK_EQ(held[i], i < 5 ? 0 : BOTH);
		event(2, KV_EVENT_REMOVED, 4, 2);
		CHECK_EQ(held[4], 0);
		CHECK_EQ(held[5], 1u << 1);
	}
	close_sink();
	return check_done();
}
