// SPDX-License-Identifier: BSD-2-Clause
#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <kvsteer/shared.h>

#include "kvsteer.skel.h"
#include "dataplane.h"

#define UPSTREAMS 64

void *micro_map(const struct bpf_map *map)
{
	size_t len = (size_t)bpf_map__max_entries(map) * bpf_map__value_size(map);
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0);

	return p == MAP_FAILED ? NULL : p;
}

static int fill(struct kvsteer_bpf *skel)
{
	struct kv_service *service = micro_map(skel->maps.kv_services);
	struct kv_backend *backends = micro_map(skel->maps.kv_backends);
	struct kv_listen listen = {.port = kv_htons(MICRO_PORT)};
	__u32 id = 0;

	if (!service || !backends)
		return -errno;
	service->flags = KV_SERVICE_UP;
	service->policy = KV_POLICY_PRICE;
	service->body_limit = 64 << 20;
	service->n_backends = MICRO_BACKENDS;
	for (__u32 i = 0; i < MICRO_BACKENDS; i++) {
		service->backends[i] = i;
		backends[i].state = KV_BACKEND_UP;
		backends[i].epoch = 1;
		backends[i].clock = 1;
		backends[i].ifindex = 1;
		backends[i].capacity = 1ull << 36; /* nothing is pushed out while we measure */
		backends[i].rate = 10000;
	}
	return bpf_map_update_elem(bpf_map__fd(skel->maps.kv_service_ids), &listen, &id, BPF_ANY)
		       ? -errno
		       : 0;
}

int micro_load(struct kvsteer_bpf **ret)
{
	struct kvsteer_bpf *skel = kvsteer_bpf__open();
	__u32 slots = MICRO_BACKENDS * UPSTREAMS;
	int err;

	if (!skel)
		return -errno;
	*ret = skel;
	bpf_map__set_max_entries(skel->maps.kv_backends, MICRO_BACKENDS);
	bpf_map__set_max_entries(skel->maps.kv_upstreams, slots);
	bpf_map__set_max_entries(skel->maps.kv_dispatches, slots);
	bpf_map__set_max_entries(skel->maps.kv_upstream_ids, slots);
	bpf_map__set_max_entries(skel->maps.kv_clients, 1024);
	/* Room above the million, so that new entries push few of them out. */
	bpf_map__set_max_entries(skel->maps.kv_prefixes, MICRO_SETS);
	skel->rodata->kv_config.prefix_sets = MICRO_SETS;
	skel->rodata->kv_config.prefix_key = MICRO_KEY;
	bpf_map__set_max_entries(skel->maps.kv_sessions, 1024);
	skel->rodata->kv_config.upstreams_per_backend = UPSTREAMS;
	/* No interface is "lo" here: packets take the way to a neighbour. */
	skel->rodata->kv_config.lo_ifindex = KV_NONE;
	err = kvsteer_bpf__load(skel);
	return err ? err : fill(skel);
}
