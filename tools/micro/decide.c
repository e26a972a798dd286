// SPDX-License-Identifier: BSD-2-Clause
/*
 * Decisions: 25 rungs against a table of a million entries, by the very program that the agent
 * calls and with the code that runs at a request's first packet. Learning is part of a decision:
 * where fewer rungs are known, more are entered.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <kvsteer/fixed.h>
#include <kvsteer/shared.h>

#include "common/cleanup.h"
#include "kvsteer.skel.h"
#include "dataplane.h"
#include "micro.h"

#define RUNGS 25
#define STEP 64	     /* tokens from rung to rung */
#define PROMPTS 1024 /* known ones, so that not all of it is in the CPU's caches */
#define BATCH 4096
#define ENTRIES 1000000

struct bench {
	int prog_fd;
	struct kv_call *call;
	uint64_t fresh; /* hashes from here on are nobody's */
};

static int fill_prefixes(int fd)
{
	_cleanup_free_ struct kv_prefix *values = calloc(BATCH, sizeof(*values));
	_cleanup_free_ uint64_t *keys = calloc(BATCH, sizeof(*keys));
	__u32 count;

	if (!values || !keys)
		return -ENOMEM;
	for (uint64_t done = 1; done <= ENTRIES; done += count) {
		count = ENTRIES + 1 - done < BATCH ? ENTRIES + 1 - done : BATCH;
		for (__u32 i = 0; i < count; i++) {
			keys[i] = kv_mix(done + i);
			values[i].holder[0] = kv_holder_make(i % MICRO_BACKENDS, 1, 1, 0);
		}
		if (bpf_map_update_batch(fd, keys, values, &count, NULL))
			return -errno;
	}
	return 0;
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
	double ns;
	int err;

	if (!b.call)
		return -errno;
	err = fill_prefixes(bpf_map__fd(m->skel->maps.kv_prefixes));
	for (unsigned int i = 0; !err && i < sizeof(lines) / sizeof(*lines); i++) {
		err = measure(&b, lines[i].known, m->seconds, &ns);
		if (!err)
			micro_add(m, lines[i].name, ns);
	}
	return err;
}
