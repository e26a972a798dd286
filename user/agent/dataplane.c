// SPDX-License-Identifier: BSD-2-Clause
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <net/if.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include <kvsteer/prefixes.h>

#include "kvsteer.skel.h"

#include "agent/agent.h"
#include "agent/dataplane.h"
#include "agent/handover.h"
#include "agent/pin.h"
#include "agent/remover.h"
#include "common/log.h"
#include "common/version.h"

/* Kernels before 5.11 charge maps to this limit; later ones ignore it. */
static void raise_memlock(void)
{
	struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};

	if (setrlimit(RLIMIT_MEMLOCK, &limit) < 0)
		kv_debug("RLIMIT_MEMLOCK stays as it is: %s", strerror(errno));
}

/* Why the kernel would not load us, in words: its own message is one errno. */
static void explain_load(int err)
{
	if (err == -EPERM || err == -EACCES)
		kv_err("no permission to load BPF programs: run as root, or with CAP_BPF, "
		       "CAP_PERFMON and CAP_NET_ADMIN");
	else if (access("/sys/kernel/btf/vmlinux", R_OK) < 0)
		kv_err("this kernel has no BTF (/sys/kernel/btf/vmlinux): it needs "
		       "CONFIG_DEBUG_INFO_BTF=y");
	else if (libbpf_probe_bpf_prog_type(BPF_PROG_TYPE_SYSCALL, NULL) == 0)
		kv_err("this kernel has no BPF syscall programs: kvsteer needs Linux 6.1 or newer");
	else if (libbpf_probe_bpf_helper(BPF_PROG_TYPE_SCHED_CLS, BPF_FUNC_loop, NULL) == 0)
		kv_err("this kernel has no bpf_loop: kvsteer needs Linux 6.1 or newer");
	else if (err == -ENOMEM || err == -E2BIG)
		kv_err("cannot create the kernel's tables: %s: lower max_clients, max_prefixes, "
		       "max_sessions or upstreams_per_backend",
		       strerror(-err));
	else
		kv_err("the kernel refuses the programs: %s: run with --log debug to see its "
		       "reasons",
		       strerror(-err));
}

static void set_sizes(struct kvsteer_bpf *skel, const struct kv_config *config)
{
	__u32 upstreams = config->max_backends * config->upstreams_per_backend;

	bpf_map__set_max_entries(skel->maps.kv_backends, config->max_backends);
	bpf_map__set_max_entries(skel->maps.kv_upstreams, upstreams);
	bpf_map__set_max_entries(skel->maps.kv_dispatches, upstreams);
	bpf_map__set_max_entries(skel->maps.kv_offers, upstreams);
	/* Tuples of closed upstreams stay until their last packets are through. */
	bpf_map__set_max_entries(skel->maps.kv_upstream_ids, 2 * upstreams);
	bpf_map__set_max_entries(skel->maps.kv_clients, config->max_clients);
	bpf_map__set_max_entries(skel->maps.kv_prefixes, kv_prefix_sets(config->max_prefixes));
	bpf_map__set_max_entries(skel->maps.kv_sessions, config->max_sessions);
	bpf_map__set_max_entries(skel->maps.kv_traces, config->trace.requests ?: 1);
	skel->rodata->kv_config.prefix_sets = kv_prefix_sets(config->max_prefixes);
	skel->rodata->kv_config.upstreams_per_backend = config->upstreams_per_backend;
	skel->rodata->kv_config.lo_ifindex = if_nametoindex("lo");
}

/* Elements of a mapped array lie at multiples of 8. */
_Static_assert(!(sizeof(struct kv_service) % 8) && !(sizeof(struct kv_backend) % 8) &&
		       !(sizeof(struct kv_upstream) % 8) && !(sizeof(struct kv_dispatch) % 8) &&
		       !(sizeof(struct kv_call) % 8) && !(sizeof(struct kv_offer) % 8),
	       "indexed as C arrays");

static size_t map_bytes(const struct bpf_map *map)
{
	size_t page = sysconf(_SC_PAGESIZE);
	size_t len = (size_t)bpf_map__max_entries(map) * bpf_map__value_size(map);

	return (len + page - 1) / page * page;
}

static int map_memory(const struct bpf_map *map, void *ret_memory)
{
	void *memory =
		mmap(NULL, map_bytes(map), PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0);
	int err;

	if (memory == MAP_FAILED) {
		err = -errno;
		kv_err("map %s: cannot map into memory: %s", bpf_map__name(map), strerror(-err));
		return err;
	}
	*(void **)ret_memory = memory;
	return 0;
}

static void unmap_memory(const struct bpf_map *map, void *memory)
{
	if (memory)
		munmap(memory, map_bytes(map));
}

/* The kernel counts per CPU. */
static __u64 dataplane_counter(struct dataplane *dp, __u32 key)
{
	__u64 of_cpu[libbpf_num_possible_cpus()], sum = 0;

	if (bpf_map_lookup_elem(bpf_map__fd(dp->skel->maps.kv_counters), &key, of_cpu))
		return 0;
	for (int i = 0; i < libbpf_num_possible_cpus(); i++)
		sum += of_cpu[i];
	return sum;
}

static int open_object(struct dataplane *dp, const struct kv_config *config)
{
	dp->skel = kvsteer_bpf__open();
	if (!dp->skel)
		return -errno;
	set_sizes(dp->skel, config);
	return 0;
}

/* Requests that were dispatched under another agent may still name records: numbers of a new ring
 * are beyond all of an earlier one, which did not take one each microsecond. */
static void open_trace(struct dataplane *dp, const struct kv_config *config)
{
	if (!dp->tracing->next)
		dp->tracing->next = kv_now_ns() / 1000 + 1;
	dp->tracing->mask = config->trace.requests ? config->trace.requests - 1 : 0;
	dataplane_trace(dp, config->trace.sample);
}

/* The secret that says in which set of the table a prefix is: the table's as long as it lives. */
static int take_prefix_key(struct dataplane *dp)
{
	int fd = bpf_map__fd(dp->skel->maps.kv_meta);
	struct kv_meta meta;
	__u32 zero = 0;

	if (dp->taken_over) {
		if (bpf_map_lookup_elem(fd, &zero, &meta))
			return -errno;
		dp->prefix_key = meta.prefix_key;
	} else if (getrandom(&dp->prefix_key, sizeof(dp->prefix_key), 0) < 0) {
		return -errno;
	}
	dp->skel->rodata->kv_config.prefix_key = dp->prefix_key;
	return 0;
}

int dataplane_load(struct dataplane *dp, const struct kv_config *config)
{
	libbpf_print_fn_t print = libbpf_set_print(NULL);
	struct kvsteer_bpf *skel;
	int err;

	raise_memlock();
	/* What libbpf says of a failure is many lines, and ours is one; both only for debugging. */
	if (kv_log_level() >= KV_LOG_DEBUG)
		libbpf_set_print(print);
	err = open_object(dp, config);
	if (!err && handover_maps(dp->skel->obj, config, &dp->taken_over)) {
		/* What was begun cannot be undone: another object. */
		kvsteer_bpf__destroy(dp->skel);
		err = open_object(dp, config);
	}
	if (!err)
		err = take_prefix_key(dp);
	if (err) {
		libbpf_set_print(print);
		kv_err("cannot open the BPF object: %s", strerror(-err));
		return err;
	}
	skel = dp->skel;
	err = kvsteer_bpf__load(skel);
	libbpf_set_print(print);
	if (err) {
		explain_load(err);
		return err;
	}
	dp->max_backends = config->max_backends;
	dp->max_prefixes = config->max_prefixes;
	dp->upstreams_per_backend = config->upstreams_per_backend;
	dp->no_upstream = dataplane_counter(dp, KV_CNT_agent_no_upstream);
	dp->meta_fd = bpf_map__fd(skel->maps.kv_meta);
	dp->service_ids_fd = bpf_map__fd(skel->maps.kv_service_ids);
	dp->upstream_ids_fd = bpf_map__fd(skel->maps.kv_upstream_ids);
	dp->clients_fd = bpf_map__fd(skel->maps.kv_clients);
	dp->events_fd = bpf_map__fd(skel->maps.kv_events);
	dp->ingress_fd = bpf_program__fd(skel->progs.kv_ingress);
	dp->egress_fd = bpf_program__fd(skel->progs.kv_egress);
	dp->call_fd = bpf_program__fd(skel->progs.kv_agent_call);
	dp->entry_fd = bpf_program__fd(skel->progs.kv_agent_entry);
	dp->last_hold = kv_now_ns();
	dp->home_exists_fd = bpf_program__fd(skel->progs.kv_home_exists);

	err = map_memory(skel->maps.kv_services, &dp->services);
	if (!err)
		err = map_memory(skel->maps.kv_backends, &dp->backends);
	if (!err)
		err = map_memory(skel->maps.kv_upstreams, &dp->upstreams);
	if (!err)
		err = map_memory(skel->maps.kv_dispatches, &dp->dispatches);
	if (!err)
		err = map_memory(skel->maps.kv_offers, &dp->offers);
	if (!err)
		err = map_memory(skel->maps.kv_call, &dp->call);
	if (!err)
		err = map_memory(skel->maps.kv_entry_call, &dp->entry_call);
	if (!err)
		err = map_memory(skel->maps.kv_tracing, &dp->tracing);
	if (!err)
		err = map_memory(skel->maps.kv_agent_counters, &dp->counters);
	if (!err)
		open_trace(dp, config);
	return err;
}

void dataplane_trace(struct dataplane *dp, __u32 sample)
{
	kv_write_once(dp->tracing->sample, dp->tracing->mask ? sample : 0);
}

int dataplane_set_names(struct dataplane *dp, const struct kv_names *names)
{
	__u32 zero = 0;

	return bpf_map_update_elem(bpf_map__fd(dp->skel->maps.kv_names), &zero, names, BPF_ANY);
}

int dataplane_pin(struct dataplane *dp, const char *dir)
{
	int err =
		dp->taken_over ? pin_maps_again(dp->skel->obj, dir) : pin_maps(dp->skel->obj, dir);

	if (!err)
		snprintf(dp->pin, sizeof(dp->pin), "%s", dir);
	return err;
}

void dataplane_close(struct dataplane *dp)
{
	if (!dp->skel)
		return;
	if (*dp->pin && !remover_pins())
		pin_remove(dp->pin);
	unmap_memory(dp->skel->maps.kv_services, dp->services);
	unmap_memory(dp->skel->maps.kv_backends, dp->backends);
	unmap_memory(dp->skel->maps.kv_upstreams, dp->upstreams);
	unmap_memory(dp->skel->maps.kv_dispatches, dp->dispatches);
	unmap_memory(dp->skel->maps.kv_offers, dp->offers);
	unmap_memory(dp->skel->maps.kv_call, dp->call);
	unmap_memory(dp->skel->maps.kv_entry_call, dp->entry_call);
	unmap_memory(dp->skel->maps.kv_tracing, dp->tracing);
	unmap_memory(dp->skel->maps.kv_agent_counters, dp->counters);
	kvsteer_bpf__destroy(dp->skel);
	*dp = (struct dataplane){};
}

int dataplane_write_meta(struct dataplane *dp, __u64 started_ns, __u64 now_ns)
{
	struct kvsteer_bpf *skel = dp->skel;
	struct kv_meta meta = {
		.magic = KV_MAGIC,
		.schema = KV_SCHEMA,
		.upstreams_per_backend = dp->upstreams_per_backend,
		.max_backends = dp->max_backends,
		.max_clients = bpf_map__max_entries(skel->maps.kv_clients),
		.max_prefixes = dp->max_prefixes,
		.max_sessions = bpf_map__max_entries(skel->maps.kv_sessions),
		.agent_pid = getpid(),
		.started_ns = started_ns,
		.heartbeat_ns = now_ns,
		.prefix_key = dp->prefix_key,
	};
	__u32 zero = 0;

	memcpy(meta.version, kv_version, sizeof(meta.version));
	return bpf_map_update_elem(dp->meta_fd, &zero, &meta, BPF_ANY);
}

__u64 dataplane_events_lost(struct dataplane *dp)
{
	return dataplane_counter(dp, KV_CNT_agent_events_lost);
}

bool dataplane_no_upstream(struct dataplane *dp)
{
	__u64 was = dp->no_upstream;

	dp->no_upstream = dataplane_counter(dp, KV_CNT_agent_no_upstream);
	return dp->no_upstream != was;
}

bool dataplane_home_exists(struct dataplane *dp, const struct kv_tuple *tuple)
{
	char packet[64] = {};
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = packet, .data_size_in = sizeof(packet));

	memcpy(packet, tuple, sizeof(*tuple));
	/* In doubt it exists: a mapping kept too long costs memory, one dropped a connection. */
	return bpf_prog_test_run_opts(dp->home_exists_fd, &opts) || opts.retval != 0;
}
