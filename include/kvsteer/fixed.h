/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Fixed-point arithmetic: BPF has neither floating point nor signed division. */
#ifndef KVSTEER_FIXED_H
#define KVSTEER_FIXED_H

#include "types.h"

#define KV_ONE (1ull << 32) /* 1.0 in Q32 */

/* value × q32, rounded to nearest, for any value and q32 <= 1. */
KV_INLINE __u64 kv_scale(__u64 value, __u64 q32)
{
	return (value >> 32) * q32 + (((value & 0xffffffff) * q32 + (KV_ONE >> 1)) >> 32);
}

/*
 * exp(-dt / tau) in Q32. With x = dt / tau: 2^-k halves x's whole multiples of ln 2 away, and what
 * is left of it (< 0.7) goes through the exponential's series to the sixth term: 2e-5 off at most.
 * dt and tau: any unit, tau < 2^40.
 */
KV_INLINE __u64 kv_exp_decay(__u64 dt, __u64 tau)
{
	const __u64 ln2 = 2977044472ull; /* Q32 */
	__u64 whole, x, halvings, r;

	if (dt / tau >= 22) /* below one unit of Q32 */
		return 0;
	whole = dt / tau;
	x = whole * KV_ONE + ((dt - whole * tau) << 24) / tau * 256;
	halvings = x / ln2;
	x -= halvings * ln2;
	r = KV_ONE - x / 6;
	r = KV_ONE - ((r * (x / 5)) >> 32);
	r = KV_ONE - ((r * (x / 4)) >> 32);
	r = KV_ONE - ((r * (x / 3)) >> 32);
	r = KV_ONE - ((r * (x / 2)) >> 32);
	r = KV_ONE - ((r * x) >> 32);
	return r >> halvings;
}

/* Mixes a 64-bit word so that every bit depends on every other (the finaliser of MurmurHash3). */
KV_INLINE __u64 kv_mix(__u64 x)
{
	x ^= x >> 33;
	x *= 0xff51afd7ed558ccdull;
	x ^= x >> 33;
	x *= 0xc4ceb9fe1a85ec53ull;
	return x ^ x >> 33;
}

#endif /* KVSTEER_FIXED_H */
