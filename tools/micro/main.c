// SPDX-License-Identifier: BSD-2-Clause
#include <bpf/bpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "kvsteer.skel.h"
#include "dataplane.h"
#include "micro.h"

int micro_clock_read(int prog_fd, struct micro_clock *ret)
{
	struct bpf_prog_info info = {0};
	__u32 len = sizeof(info);

	if (bpf_obj_get_info_by_fd(prog_fd, &info, &len))
		return -errno;
	ret->ns = info.run_time_ns;
	ret->runs = info.run_cnt;
	return 0;
}

static int run(struct micro *m)
{
	_cleanup_close_ int stats = -EBADF;
	int err;

	err = micro_hash(m);
	if (!err)
		err = micro_parse(m);
	if (err)
		return err;
	err = micro_load(&m->skel);
	if (err) {
		fprintf(stderr, "kv-micro: the kernel programs cannot be loaded: %s (needs root)\n",
			strerror(-err));
		return err;
	}
	stats = bpf_enable_stats(BPF_STATS_RUN_TIME);
	if (stats < 0)
		return -errno;
	err = micro_decide(m);
	if (!err)
		err = micro_packet(m);
	return err ? err : micro_tell(m);
}

/* kv-micro [SECONDS]: for each line, 1 unless told */
int main(int argc, char **argv)
{
	struct micro m = {.seconds = argc > 1 ? atof(argv[1]) : 1};
	_cleanup_free_ char *text = NULL;
	int err;

	if (argc > 2 || m.seconds <= 0) {
		fprintf(stderr, "usage: kv-micro [SECONDS]   (of each line; more than 0)\n");
		return 2;
	}

	m.doc = yyjson_mut_doc_new(NULL);
	m.root = yyjson_mut_obj(m.doc);
	yyjson_mut_doc_set_root(m.doc, m.root);
	err = run(&m);
	kvsteer_bpf__destroy(m.skel);
	if (err)
		fprintf(stderr, "kv-micro: %s\n", strerror(-err));
	/* Lines measured before a failure are as good as ever. */
	if ((text = yyjson_mut_write(m.doc, YYJSON_WRITE_PRETTY, NULL)))
		puts(text);
	yyjson_mut_doc_free(m.doc);
	return err || !text;
}
