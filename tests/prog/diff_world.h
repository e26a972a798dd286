/* SPDX-License-Identifier: BSD-2-Clause */
/* Programs that run the host's code in the kernel, and the memory that both read and write. */
#ifndef KVSTEER_TESTS_DIFF_WORLD_H
#define KVSTEER_TESTS_DIFF_WORLD_H

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <kvsteer/framing.h>
#include <kvsteer/request.h>
#include <kvsteer/seq.h>

/* of steering only the types are needed here */
#define WORLD_SLOTS 1u
#include "../unit/steer_world.h"

#include "tests/prog/diff.skel.h"

#include "cases.h"
#include "diff.h"

static struct {
	struct diff_bpf *skel;
	struct kv_names *names;
	struct kv_request *request;
	struct diff_hint *hint;
	struct kv_framing *framing;
	struct diff_options *options;
} bpf;

static inline void load(void)
{
	bpf.skel = diff_bpf__open_and_load();
	NEED(bpf.skel);
	bpf.names = prog_memory(bpf.skel->maps.diff_names);
	bpf.request = prog_memory(bpf.skel->maps.diff_request);
	bpf.hint = prog_memory(bpf.skel->maps.diff_hint);
	bpf.framing = prog_memory(bpf.skel->maps.diff_framing);
	bpf.options = prog_memory(bpf.skel->maps.diff_options);
	kv_names_default(bpf.names);
}

/* Runs a program on these bytes, behind an Ethernet header of no protocol of ours. */
static inline __u32 run(struct bpf_program *prog, const void *data, __u32 len)
{
	__u8 frame[DIFF_BASE + CASE_MAX] = {0};
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = frame, .data_size_in = DIFF_BASE + len);

	memcpy(frame + DIFF_BASE, data, len);
	NEED(!bpf_prog_test_run_opts(bpf_program__fd(prog), &opts));
	return opts.retval;
}

/* The input of a failed case, once per group. */
static inline void show(const void *data, __u32 len)
{
	const __u8 *p = data;

	if (check_state.bad > 10)
		return;
	printf("# input of %u bytes: ", len);
	for (__u32 i = 0; i < len && i < 600; i++)
		printf(p[i] >= ' ' && p[i] < 0x7f && p[i] != '\\' ? "%c" : "\\x%02x", p[i]);
	printf("\n");
}

/* The tests' main. */
static inline int diff_main(int argc, char **argv, const struct prog_test *tests, unsigned int n)
{
	if (prog_begin(tests, n, "")) {
		case_seed(argc, argv);
		load();
		prog_run(tests, n, "");
		diff_bpf__destroy(bpf.skel);
	}
	return check_done();
}

#endif
