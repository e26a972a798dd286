/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The gateway's kernel side under test: the real programs over their real maps, filled as the agent
 * fills them, and run on packets by BPF_PROG_TEST_RUN.
 */
#ifndef KVSTEER_TESTS_GATEWAY_H
#define KVSTEER_TESTS_GATEWAY_H

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/pkt_cls.h>

#include <kvsteer/counters.h>
#include <kvsteer/fields.h>
#include <kvsteer/prefixes.h>

#include "kvsteer.skel.h"

#include "packet.h"
#include "prog.h"

#define UPSTREAMS 8 /* slots per backend */
#define BACKENDS 4
#define CLIENTS 8
#define TRACES 64
#define LOCAL_IFINDEX 1 /* lo; also the one that test runs come in by */
#define OTHER_IFINDEX 99

#define VERDICT_OK TC_ACT_OK
#define VERDICT_DROP TC_ACT_SHOT
#define VERDICT_MUTE TC_ACT_STOLEN
#define VERDICT_SENT TC_ACT_REDIRECT

#define EVENTS_MAX 16

#define PREFIX_SETS 128
#define PREFIX_KEY 0x9e3779b97f4a7c15ull

static struct {
	struct kvsteer_bpf *skel;
	struct kv_prefix_set *prefixes;
	struct kv_service *services;
	struct kv_backend *backends;
	struct kv_upstream *upstreams;
	struct kv_dispatch *dispatches;
	struct kv_offer *offers;
	struct kv_call *call;
	struct ring_buffer *ring;
	__u64 counters[KV_CNT_MAX]; /* when last looked at */
	struct kv_event events[EVENTS_MAX];
	__u32 n_events;
	/* of the last run */
	int verdict;
	bool touched; /* any byte of the frame differs */
	__u32 frame_len;
	__u8 frame[PACKET_MAX];
	struct packet out;
} gw;

/* ---- loading ------------------------------------------------------------------------- */

static inline int gw_event(void *ctx, void *data, size_t len)
{
	(void)ctx;
	NEED(len == sizeof(struct kv_event));
	if (gw.n_events++ < EVENTS_MAX)
		memcpy(&gw.events[gw.n_events - 1], data, len);
	return 0;
}

/* local_ifindex: whose packets are taken for this host's own. */
static inline void gw_load(__u32 local_ifindex)
{
	struct kvsteer_bpf *skel = kvsteer_bpf__open();
	__u32 slots = BACKENDS * UPSTREAMS, zero = 0;
	struct kv_names names;

	NEED(skel);
	gw.skel = skel;
	bpf_map__set_max_entries(skel->maps.kv_backends, BACKENDS);
	bpf_map__set_max_entries(skel->maps.kv_upstreams, slots);
	bpf_map__set_max_entries(skel->maps.kv_dispatches, slots);
	bpf_map__set_max_entries(skel->maps.kv_offers, slots);
	bpf_map__set_max_entries(skel->maps.kv_upstream_ids, 2 * slots);
	bpf_map__set_max_entries(skel->maps.kv_clients, CLIENTS);
	bpf_map__set_max_entries(skel->maps.kv_prefixes, PREFIX_SETS);
	bpf_map__set_max_entries(skel->maps.kv_sessions, 1024);
	bpf_map__set_max_entries(skel->maps.kv_traces, TRACES);
	skel->rodata->kv_config.upstreams_per_backend = UPSTREAMS;
	skel->rodata->kv_config.lo_ifindex = local_ifindex;
	skel->rodata->kv_config.prefix_sets = PREFIX_SETS;
	skel->rodata->kv_config.prefix_key = PREFIX_KEY;
	NEED(!kvsteer_bpf__load(skel));
	gw.prefixes = prog_memory(skel->maps.kv_prefixes);
	gw.services = prog_memory(skel->maps.kv_services);
	gw.backends = prog_memory(skel->maps.kv_backends);
	gw.upstreams = prog_memory(skel->maps.kv_upstreams);
	gw.dispatches = prog_memory(skel->maps.kv_dispatches);
	gw.offers = prog_memory(skel->maps.kv_offers);
	gw.call = prog_memory(skel->maps.kv_call);
	gw.ring = ring_buffer__new(bpf_map__fd(skel->maps.kv_events), gw_event, NULL, NULL);
	NEED(gw.ring);
	kv_names_default(&names);
	NEED(!bpf_map_update_elem(bpf_map__fd(skel->maps.kv_names), &zero, &names, BPF_ANY));
}

static inline void gw_unload(void)
{
	if (!gw.skel)
		return;
	/* the mapped memory goes with the process */
	ring_buffer__free(gw.ring);
	kvsteer_bpf__destroy(gw.skel);
	memset(&gw, 0, sizeof(gw));
}

/* ---- counters ------------------------------------------------------------------------ */

struct gw_count {
	enum kv_counter counter;
	__u64 n;
};

#define N(name, n)                                                                                 \
	{                                                                                          \
		KV_CNT_##name, n                                                                   \
	}

/* Since the last look these have risen by so much, and no other. */
#define COUNTED(...)                                                                               \
	do {                                                                                       \
		const struct gw_count counted[] = {__VA_ARGS__};                                   \
                                                                                                   \
		gw_counted(__FILE__, __LINE__, counted, sizeof(counted) / sizeof(counted[0]));     \
	} while (0)

/* Reads the counters; ret_rise: by how much each has risen since the last look. */
static inline void gw_rise(__u64 ret_rise[KV_CNT_MAX])
{
	int fd = bpf_map__fd(gw.skel->maps.kv_counters), cpus = libbpf_num_possible_cpus();
	__u64 values[cpus], sum;

	for (__u32 i = 0; i < KV_CNT_MAX; i++) {
		NEED(!bpf_map_lookup_elem(fd, &i, values));
		sum = 0;
		for (int cpu = 0; cpu < cpus; cpu++)
			sum += values[cpu];
		ret_rise[i] = sum - gw.counters[i];
		gw.counters[i] = sum;
	}
}

static inline void gw_counted(const char *file, int line, const struct gw_count *counts, size_t n)
{
	static const char *const names[] = {
#define COUNTER_NAME(name, meaning) #name,
		KV_COUNTERS(COUNTER_NAME)
#undef COUNTER_NAME
	};
	__u64 rise[KV_CNT_MAX], due;

	gw_rise(rise);
	for (__u32 i = 0; i < KV_CNT_MAX; i++) {
		due = 0;
		for (size_t k = 0; k < n; k++)
			due += counts[k].counter == i ? counts[k].n : 0;
		if (rise[i] != due && check_fail(file, line))
			printf("counter %s rose by %lld, expected %lld\n", names[i],
			       (long long)rise[i], (long long)due);
	}
}

/* ---- events -------------------------------------------------------------------------- */

#define NO_EVENT() CHECK_EQ(gw_events(), 0)

/* Reads those since the last look. */
static inline __u32 gw_events(void)
{
	gw.n_events = 0;
	NEED(ring_buffer__consume(gw.ring) >= 0);
	return gw.n_events;
}

/* One event, and which. */
#define EVENT(kind, of_slot, of_client)                                                            \
	do {                                                                                       \
		CHECK_EQ(gw_events(), 1);                                                          \
		CHECK_EQ(gw.events[0].type, kind);                                                 \
		CHECK_EQ(gw.events[0].slot, of_slot);                                              \
		CHECK_EQ(gw.events[0].gen, gw.upstreams[of_slot].gen);                             \
		CHECK_MEM(&gw.events[0].client, of_client, sizeof(struct kv_tuple));               \
	} while (0)

/* ---- running ------------------------------------------------------------------------- */

static bool gw_skip_check; /* the frame is no good TCP segment */

static inline void gw_run_frame(struct bpf_program *prog, const void *frame, __u32 len,
				__u32 gso_size)
{
	/* as from virtio: the number of segments is not known */
	struct __sk_buff ctx = {.gso_size = gso_size};
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = frame, .data_size_in = len,
		    .data_out = gw.frame, .data_size_out = sizeof(gw.frame), .ctx_in = &ctx,
		    .ctx_size_in = sizeof(ctx));
	const char *wrong;

	NEED(!bpf_prog_test_run_opts(bpf_program__fd(prog), &opts));
	gw.verdict = opts.retval;
	gw.frame_len = opts.data_size_out;
	gw.touched = len != gw.frame_len || memcmp(frame, gw.frame, len);
	wrong = packet_read(&gw.out, gw.frame, gw.frame_len);
	if (wrong && gw.verdict != VERDICT_DROP && !gw_skip_check && check_fail(__FILE__, __LINE__))
		printf("%s in a packet with verdict %d\n", wrong, gw.verdict);
}

static inline void gw_run(struct bpf_program *prog, const struct packet *p)
{
	__u8 frame[PACKET_MAX];

	gw_run_frame(prog, frame, packet_write(p, frame), 0);
}

/* A packet of several segments, of so many bytes of payload each. */
static inline void gw_ingress_gso(const struct packet *p, __u32 gso_size)
{
	__u8 frame[PACKET_MAX];

	gw_run_frame(gw.skel->progs.kv_ingress, frame, packet_write(p, frame), gso_size);
}

static inline void gw_ingress(const struct packet *p)
{
	gw_run(gw.skel->progs.kv_ingress, p);
}

static inline void gw_egress(const struct packet *p)
{
	gw_run(gw.skel->progs.kv_egress, p);
}

/* ---- maps ---------------------------------------------------------------------------- */

static inline void gw_clear(const struct bpf_map *map)
{
	char key[64];

	while (!bpf_map_get_next_key(bpf_map__fd(map), NULL, key))
		NEED(!bpf_map_delete_elem(bpf_map__fd(map), key));
}

/* The maps as after loading. */
static inline void gw_reset(void)
{
	__u64 rise[KV_CNT_MAX];

	gw_clear(gw.skel->maps.kv_service_ids);
	gw_clear(gw.skel->maps.kv_upstream_ids);
	gw_clear(gw.skel->maps.kv_clients);
	gw_clear(gw.skel->maps.kv_sessions);
	memset(gw.prefixes, 0, PREFIX_SETS * sizeof(*gw.prefixes));
	memset(gw.services, 0, KV_MAX_SERVICES * sizeof(*gw.services));
	memset(gw.backends, 0, BACKENDS * sizeof(*gw.backends));
	memset(gw.upstreams, 0, BACKENDS * UPSTREAMS * sizeof(*gw.upstreams));
	memset(gw.dispatches, 0, BACKENDS * UPSTREAMS * sizeof(*gw.dispatches));
	memset(gw.offers, 0, BACKENDS * UPSTREAMS * sizeof(*gw.offers));
	gw_events();
	gw_rise(rise);
}

/* false: it is not known. */
static inline bool gw_prefix(__u64 hash, struct kv_prefix *ret)
{
	return kv_prefix_read(ret->holder,
			      &gw.prefixes[kv_prefix_set_of(hash, PREFIX_KEY, PREFIX_SETS)], hash);
}

/* false: no such entry. */
static inline bool gw_client(const struct kv_tuple *key, struct kv_client *ret_client)
{
	return !bpf_map_lookup_elem(bpf_map__fd(gw.skel->maps.kv_clients), key, ret_client);
}

static inline void gw_client_set(const struct kv_tuple *key, const struct kv_client *c)
{
	NEED(!bpf_map_update_elem(bpf_map__fd(gw.skel->maps.kv_clients), key, c, BPF_ANY));
}

#endif /* KVSTEER_TESTS_GATEWAY_H */
