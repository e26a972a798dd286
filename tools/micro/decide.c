// SPDX-License-Identifier: BSD-2-Clause
/*
 * Decisions: 25 rungs against a table of a million entries, by the very program that the agent
 * calls and with the code that runs at a request's first packet. Learning is part of a decision:
 * where fewer rungs are known, more are entered.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>

#include <kvsteer/fixed.h>
#include <kvsteer/prefixes.h>
#include <kvsteer/shared.h>

#include "common/cleanup.h"
#include "kvsteer.skel.h"
#include "dataplane.h"
#include "micro.h"

#define RUNGS 25
#define STEP 64	     /* tokens from rung to rung */
#define PROMPTS 1024 /* known ones, so that not all of it is in the CPU's caches */
#define ENTRIES 1000000

struct bench {
	int prog_fd;
	struct kv_call *call;
	uint64_t fresh; /* hashes from here on are nobody's */
};

static void fill_prefixes(struct kv_prefix_set *sets)
{
	/* Those that will be asked for come last: some sets are full. */
	for (uint64_t i = ENTRIES; i; i--) {
		uint64_t hash = kv_mix(i);

		kv_prefix_insert(&sets[kv_prefix_set_of(hash, MICRO_KEY, MICRO_SETS)], hash,
				 kv_holder_make(i % MICRO_BACKENDS, 1, 1, 0),
				 (ENTRIES - i) << KV_PREFIX_TICK_SHIFT);
	}
}

static int call(struct bench *b, enum kv_call_op op)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts);

	b->call->op = op;
	if (bpf_prog_test_run_opts(b->prog_fd, &opts))
		return -errno;
	return opts.retval ? -EPROTO : 0;
}

/* A prompt of whose rungs the first `known` are in the table, those of one known prompt. */
static int decide(struct bench *b, uint64_t prompt, unsigned int known)
{
	struct kv_query *q = &b->call->dispatch.query;

	memset(&b->call->dispatch, 0, sizeof(b->call->dispatch));
	q->total = RUNGS * STEP + 10;
	q->exclude = KV_NONE;
	q->n_rungs = RUNGS;
	for (unsigned int i = 0; i < RUNGS; i++) {
		q->rungs[i].depth = (i + 1) * STEP;
		q->rungs[i].hash =
			kv_mix(i < known ? 1 + prompt % PROMPTS * RUNGS + i : b->fresh++);
	}
	return call(b, KV_CALL_DECIDE);
}

/* Decisions are counted one by one, what takes each back is not. */
static int measure(struct bench *b, unsigned int known, double seconds, double *ret_ns)
{
	double from = micro_now();
	struct micro_clock before, after;
	uint64_t ns = 0, runs = 0;
	int err;

	for (uint64_t prompt = 0; micro_now() - from < seconds; prompt++) {
		err = micro_clock_read(b->prog_fd, &before);
		if (!err)
			err = decide(b, prompt * 7, known);
		if (!err)
			err = micro_clock_read(b->prog_fd, &after);
		if (err)
			return err;
		/* The match must be what this line says it measures. */
		if (b->call->choice.best != known * STEP)
			return -EPROTO;
		ns += after.ns - before.ns;
		runs += after.runs - before.runs;
		err = call(b, KV_CALL_UNDO);
		if (err)
			return err;
	}
	*ret_ns = (double)ns / runs;
	return 0;
}

int micro_decide(struct micro *m)
{
	static const struct {
		const char *name;
		unsigned int known;
	} lines[] = {
		{"decide_25_rungs_first_hit_ns", RUNGS}, /* the deepest is looked up first */
		{"decide_25_rungs_last_hit_ns", 1},
		{"decide_25_rungs_no_hit_ns", 0},
	};
	struct bench b = {
		.prog_fd = bpf_program__fd(m->skel->progs.kv_agent_call),
		.call = micro_map(m->skel->maps.kv_call),
		.fresh = ENTRIES + 1,
	};
	struct kv_prefix_set *prefixes = micro_map(m->skel->maps.kv_prefixes);
	int err = 0;
	double ns;

	if (!b.call || !prefixes)
		return -errno;
	fill_prefixes(prefixes);
	for (unsigned int i = 0; !err && i < sizeof(lines) / sizeof(*lines); i++) {
		err = measure(&b, lines[i].known, m->seconds, &ns);
		if (!err)
			micro_add(m, lines[i].name, ns);
	}
	return err;
}
