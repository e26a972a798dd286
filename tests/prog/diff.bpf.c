// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * include/kvsteer as BPF: parsers and framing over a packet, TCP options and steering over map
 * memory, for tests/prog/test_diff_*.c to compare with the host's build of the same source.
 */
#include <kvsteer/counters.h>
#include <kvsteer/framing.h>
#include <kvsteer/request.h>
#include <kvsteer/seq.h>
#include <kvsteer/steer.h>

#include "diff.h"

char _license[] SEC("license") = "Dual BSD/GPL";

#define DIFF_MAP(name, kind, n, key_type, value_type, bits)                                        \
	struct {                                                                                   \
		__uint(type, kind);                                                                \
		__uint(max_entries, n);                                                            \
		__uint(map_flags, bits);                                                           \
		__type(key, key_type);                                                             \
		__type(value, value_type);                                                         \
	} name SEC(".maps")
#define DIFF_ONE(name, type) DIFF_MAP(name, BPF_MAP_TYPE_ARRAY, 1, __u32, type, BPF_F_MMAPABLE)

DIFF_ONE(diff_names, struct kv_names);
DIFF_ONE(diff_request, struct kv_request);
DIFF_ONE(diff_hint, struct diff_hint);
DIFF_ONE(diff_framing, struct kv_framing);
DIFF_ONE(diff_options, struct diff_options);
DIFF_ONE(diff_world, struct diff_world);
DIFF_MAP(diff_services, BPF_MAP_TYPE_ARRAY, KV_MAX_SERVICES, __u32, struct kv_service,
	 BPF_F_MMAPABLE);
DIFF_MAP(diff_backends, BPF_MAP_TYPE_ARRAY, KV_MAX_BACKENDS, __u32, struct kv_backend,
	 BPF_F_MMAPABLE);
DIFF_MAP(diff_prefixes, BPF_MAP_TYPE_ARRAY, DIFF_SETS, __u32, struct kv_prefix_set, BPF_F_MMAPABLE);
DIFF_MAP(diff_sessions, BPF_MAP_TYPE_HASH, DIFF_SESSIONS, __u64, struct kv_session, 0);

#define ONE(map) bpf_map_lookup_elem(&map, &(__u32){0})

/* ---- over a packet ------------------------------------------------------------------- */

KV_INLINE void diff_source(struct kv_source *s, struct __sk_buff *skb)
{
	s->skb = skb;
	s->stash = NULL;
	s->base = DIFF_BASE;
	s->len = skb->len - DIFF_BASE;
}

SEC("tc")
int run_request(struct __sk_buff *skb)
{
	struct kv_request *r = ONE(diff_request);
	struct kv_names *names = ONE(diff_names);
	struct kv_source s;

	if (!r || !names)
		return -1;
	diff_source(&s, skb);
	return kv_request_parse(r, &s, names);
}

SEC("tc")
int run_hint(struct __sk_buff *skb)
{
	struct diff_hint *h = ONE(diff_hint);
	struct kv_source s;

	if (!h)
		return -1;
	diff_source(&s, skb);
	h->ret = kv_hint_parse(&h->hint, &h->w, &s, 0, s.len);
	return 0;
}

SEC("tc")
int run_framing(struct __sk_buff *skb)
{
	struct kv_framing *f = ONE(diff_framing);
	struct kv_source s;

	if (!f)
		return -1;
	diff_source(&s, skb);
	return kv_framing_run(f, &s, 0, s.len);
}

/* ---- over memory --------------------------------------------------------------------- */

SEC("syscall")
int run_options(void *ctx)
{
	struct diff_options *o = ONE(diff_options);

	if (!o)
		return 1;
	kv_tcp_options_scan(o->opt, o->len, &o->found);
	kv_tcp_ts_set(o->opt, &o->found, o->tsval, o->tsecr);
	kv_tcp_sack_add(o->opt, &o->found, o->delta);
	return 0;
}

static const struct kv_session no_session;

static __always_inline struct kv_prefix_set *kv_world_prefix_set(__u64 hash)
{
	__u32 at = kv_prefix_set_of(hash, DIFF_KEY, DIFF_SETS);

	return bpf_map_lookup_elem(&diff_prefixes, &at);
}

static __always_inline struct kv_session *kv_world_session(__u64 key)
{
	return bpf_map_lookup_elem(&diff_sessions, &key);
}

static __always_inline struct kv_session *kv_world_session_create(__u64 key)
{
	bpf_map_update_elem(&diff_sessions, &key, &no_session, BPF_NOEXIST);
	return bpf_map_lookup_elem(&diff_sessions, &key);
}

static __always_inline struct kv_backend *kv_world_backend(__u32 id)
{
	return bpf_map_lookup_elem(&diff_backends, &id);
}

static __always_inline struct kv_service *kv_world_service(__u32 id)
{
	return bpf_map_lookup_elem(&diff_services, &id);
}

static __always_inline __u64 kv_world_ns(void)
{
	struct diff_world *w = ONE(diff_world);

	return w ? w->now : 0;
}

/* The host's generator, in the same state. */
static __always_inline __u32 kv_world_random(void)
{
	struct diff_world *w = ONE(diff_world);

	if (!w)
		return 0;
	w->random = w->random * 6364136223846793005ull + 1442695040888963407ull;
	return w->random >> 33;
}

static __always_inline void kv_world_count(enum kv_counter counter)
{
	struct diff_world *w = ONE(diff_world);

	if (w && counter < KV_CNT_MAX)
		w->counters[counter]++;
}

SEC("syscall")
int run_steer(void *ctx)
{
	struct diff_world *w = ONE(diff_world);
	struct kv_dispatch *d;

	if (!w)
		return 1;
	d = &w->slots[w->slot & (DIFF_SLOTS - 1)];
	w->ret = 0;
	if (w->op == DIFF_DECIDE)
		w->ret = kv_steer_decide(&w->st);
	else if (w->op == DIFF_COMMIT)
		kv_steer_commit(&w->st, d);
	else if (w->op == DIFF_ANSWERED)
		kv_dispatch_answered(d);
	else if (w->op == DIFF_FINISHED)
		kv_dispatch_finished(d);
	else
		kv_dispatch_failed(d);
	return 0;
}
