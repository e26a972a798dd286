/* SPDX-License-Identifier: BSD-2-Clause */
/* What load.c does with the programs once they are loaded. */
#ifndef KV_KERNELS_RUN_H
#define KV_KERNELS_RUN_H

#include "kvsteer.skel.h"

/* Each prints its line and returns 0, or -1. */
int run_agent_call(struct kvsteer_bpf *skel);
int run_packet(const struct bpf_program *prog);
int run_connection(struct kvsteer_bpf *skel);

#endif /* KV_KERNELS_RUN_H */
