// SPDX-License-Identifier: BSD-2-Clause
/* Telling: blocks that engines say they have stored or evicted, in a full table. */
#include <bpf/bpf.h>
#include <errno.h>

#include <kvsteer/fixed.h>
#include <kvsteer/shared.h>

#include "kvsteer.skel.h"
#include "dataplane.h"
#include "micro.h"

static int tell(int prog_fd, struct kv_telling *t, uint64_t first)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts);

	t->n = KV_TELL_MAX;
	for (uint32_t i = 0; i < KV_TELL_MAX; i++)
		t->hash[i] = kv_mix(first + i);
	if (bpf_prog_test_run_opts(prog_fd, &opts))
		return -errno;
	return opts.retval ? -EPROTO : 0;
}

/* Blocks in turn stored by one engine, by another, and evicted by the first. */
int micro_tell(struct micro *m)
{
	static const struct {
		const char *name;
		uint32_t backend, gone;
	} lines[] = {
		{"tell_stored_new_ns_per_block", 0, 0},
		{"tell_stored_known_ns_per_block", 1, 0},
		{"tell_gone_ns_per_block", 0, 1},
	};
	int fd = bpf_program__fd(m->skel->progs.kv_agent_tell), err;
	struct kv_telling *t = micro_map(m->skel->maps.kv_telling);
	const struct kv_backend *backends = micro_map(m->skel->maps.kv_backends);
	const unsigned int rounds = MICRO_PREFIXES / KV_TELL_MAX / 2;
	struct micro_clock before, after;

	if (!t || !backends)
		return -errno;
	for (unsigned int i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		t->backend = lines[i].backend;
		t->epoch = backends[t->backend].epoch;
		t->gone = lines[i].gone;
		err = micro_clock_read(fd, &before);
		for (unsigned int round = 0; !err && round < rounds; round++)
			err = tell(fd, t, ((uint64_t)1 << 40) + round * KV_TELL_MAX);
		if (!err)
			err = micro_clock_read(fd, &after);
		if (err)
			return err;
		micro_add(m, lines[i].name, (double)(after.ns - before.ns) / rounds / KV_TELL_MAX);
	}
	return 0;
}
