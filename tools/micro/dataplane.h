/* SPDX-License-Identifier: BSD-2-Clause */
/* One service with a few backends in maps of full size, nothing attached. */
#ifndef KV_MICRO_DATAPLANE_H
#define KV_MICRO_DATAPLANE_H

#include <stddef.h>

#define MICRO_BACKENDS 8
#define MICRO_PREFIXES (1u << 20)
#define MICRO_SETS (MICRO_PREFIXES / 4) /* half full then */
#define MICRO_KEY 0x9e3779b97f4a7c15ull
#define MICRO_PORT 8000

struct bpf_map;
struct kvsteer_bpf;

int micro_load(struct kvsteer_bpf **ret_skel);

/* An array map in our memory. */
void *micro_map(const struct bpf_map *map);

#endif /* KV_MICRO_DATAPLANE_H */
