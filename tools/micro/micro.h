/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kv-micro: what single steps cost, apart from sockets and schedulers. Prints one JSON object.
 *
 * The kernel programs are loaded but attached nowhere, run by BPF_PROG_RUN on made packets and
 * requests, and timed by the kernel itself (bpf_prog_info.run_time_ns), which leaves out the system
 * call around each run.
 */
#ifndef KV_MICRO_H
#define KV_MICRO_H

#include <stdint.h>
#include <time.h>
#include <yyjson.h>

struct kvsteer_bpf;

struct micro {
	yyjson_mut_doc *doc;
	yyjson_mut_val *root;
	struct kvsteer_bpf *skel;
	double seconds; /* for each line */
};

static inline void micro_add(struct micro *m, const char *name, double value)
{
	yyjson_mut_obj_add_real(m->doc, m->root, name, value);
}

/* CPU time of this thread: waiting for a CPU is not in it. */
static inline double micro_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* Each adds its lines; 0 or -errno. */
int micro_hash(struct micro *m);
int micro_parse(struct micro *m);
int micro_decide(struct micro *m);
int micro_packet(struct micro *m);
int micro_tell(struct micro *m);

/* Time and runs of a program so far, while the kernel keeps statistics. */
struct micro_clock {
	uint64_t ns;
	uint64_t runs;
};
int micro_clock_read(int prog_fd, struct micro_clock *ret);

#endif /* KV_MICRO_H */
