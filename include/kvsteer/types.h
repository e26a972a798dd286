/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The two worlds. Everything in include/kvsteer/ is compiled for BPF and for the host;
 * this file is the only place that knows which one it is in.
 *
 * Rules for code that lives in both: no libc, no floating point, no recursion, no pointer
 * held across calls into the world's functions, every loop through kv_loop().
 */
#ifndef KVSTEER_TYPES_H
#define KVSTEER_TYPES_H

#ifdef __bpf__

#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define kv_htons bpf_htons
#define kv_ntohs bpf_ntohs
#define kv_htonl bpf_htonl
#define kv_ntohl bpf_ntohl

/*
 * 1 if a is b; 1 if a < b, both less than 2^63. Without a jump: 8 in a row would be 256 ways to go
 * for the verifier. Clang is kept from making jumps of it. 0 or 1 to multiply by, not 0 or all ones
 * to mask with: of that recent verifiers (6.18) look at both cases.
 */
static __always_inline __u64 kv_top_bit(__u64 x)
{
	asm volatile("" : "+r"(x));
	x >>= 63;
	asm volatile("" : "+r"(x));
	return x;
}

#define kv_same(a, b) (1 - kv_top_bit(((a) ^ (b)) | -((a) ^ (b))))
#define kv_below(a, b) kv_top_bit((a) - (b))

/* An index kept within size, a power of two. Clang drops a mask where it knows the range, but the
 * verifier may not know it: so clang must not either. */
static __always_inline __u32 kv_index(__u32 i, __u32 size)
{
	asm volatile("" : "+r"(i));
	return i & (size - 1);
}

/* Calls step(i, ctx) for i = 0 … n-1 until it returns non-zero. The verifier looks at
 * step once, however large n is: bpf_loop, since 5.17. */
#define kv_loop(n, step, ctx) bpf_loop(n, step, ctx, 0)

#else

#include <arpa/inet.h>
#include <linux/bpf.h> /* struct bpf_spin_lock */
#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define kv_htons htons
#define kv_ntohs ntohs
#define kv_htonl htonl
#define kv_ntohl ntohl

#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif
#ifndef __noinline
#define __noinline __attribute__((noinline))
#endif

#define kv_same(a, b) ((__u64)((a) == (b)))
#define kv_below(a, b) ((__u64)((a) < (b)))

static __always_inline __u32 kv_index(__u32 i, __u32 size)
{
	return i & (size - 1);
}

static __always_inline long kv_loop(__u32 n, long (*step)(__u32 i, void *ctx), void *ctx)
{
	for (__u32 i = 0; i < n; i++)
		if (step(i, ctx))
			return i + 1;
	return n;
}

#endif /* __bpf__ */

/* Callbacks of kv_loop get their context as void *, as bpf_loop wants it. */
#define KV_INLINE static __always_inline

/* In front of a loop of a few rounds: it becomes none (before 6.4 no jump may lead back to behind a
 * bpf_loop). */
#ifdef __clang__
#define KV_UNROLL _Pragma("clang loop unroll(full)")
#else
#define KV_UNROLL _Pragma("GCC unroll 8")
#endif

#ifndef KV_ONE_THREAD

#define kv_read_once(x) (*(volatile typeof(x) *)&(x))
#define kv_write_once(x, v) (*(volatile typeof(x) *)&(x) = (v))

/* Word-sized atomics; the same builtins in both worlds (BPF: -mcpu=v3, since 5.12). */
#define kv_atomic_add(p, v) ((void)__sync_fetch_and_add(p, v))
#define kv_atomic_fetch_add(p, v) __sync_fetch_and_add(p, v)
#define kv_atomic_fetch_or(p, v) __sync_fetch_and_or(p, v)
#define kv_atomic_fetch_and(p, v) __sync_fetch_and_and(p, v)
#define kv_atomic_xchg(p, v) __sync_lock_test_and_set(p, v)
#define kv_atomic_cas(p, old, new) __sync_val_compare_and_swap(p, old, new)

/* Asks memory for what x lies in: BPF has no instruction for that but to read it. */
#define kv_fetch(x) ((void)kv_read_once(x))
#define KV_FETCHES 1 /* before it looks */

#else

/* The simulator's world is one thread's alone: locked instructions would be half of its time. */
#define kv_read_once(x) (x)
#define kv_write_once(x, v) ((x) = (v))
#define kv_atomic_fetch(p, v)                                                                      \
	({                                                                                         \
		typeof(p) kv_at = (p);                                                             \
		typeof(*(p)) kv_was = *kv_at;                                                      \
		*kv_at = (v);                                                                      \
		kv_was;                                                                            \
	})
#define kv_atomic_add(p, v) ((void)(*(p) += (v)))
#define kv_atomic_fetch_add(p, v) kv_atomic_fetch(p, kv_was + (v))
#define kv_atomic_fetch_or(p, v) kv_atomic_fetch(p, kv_was | (v))
#define kv_atomic_fetch_and(p, v) kv_atomic_fetch(p, kv_was &(v))
#define kv_atomic_xchg(p, v) kv_atomic_fetch(p, v)
#define kv_atomic_cas(p, old, new) kv_atomic_fetch(p, kv_was == (old) ? (new) : kv_was)

/* It knows the next requests, and asks long before. */
#define kv_fetch(x) __builtin_prefetch(&(x))
#define KV_FETCHES 0

#endif /* KV_ONE_THREAD */

/* Where a word is among 8, which are all different or 0; 8: nowhere. Without jumps; the simulator
 * is faster with them. */
#ifndef KV_ONE_THREAD
KV_INLINE __u32 kv_find(const __u64 *words, __u64 word)
{
	__u64 at = 8;

	KV_UNROLL
	for (__u32 i = 0; i < 8; i++)
		at ^= (8 ^ i) * kv_same(kv_read_once(words[i]), word);
	return at;
}
#else
KV_INLINE __u32 kv_find(const __u64 *words, __u64 word)
{
	KV_UNROLL
	for (__u32 i = 0; i < 8; i++)
		if (kv_read_once(words[i]) == word)
			return i;
	return 8;
}
#endif

#endif /* KVSTEER_TYPES_H */
