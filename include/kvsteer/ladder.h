/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The ladder: at which depths, in blocks, a prompt is looked up and learned. A few dozen of all its
 * blocks do as well as every one:
 *
 *  - the powers of two: prompts that share only their head meet within half of it;
 *  - the two last multiples of every power of two: prompts that share all but a tail meet within
 *    about the tail's length;
 *  - the last full block before each message boundary, latest first: exact for chats.
 *
 * The first two sets depend on the prompt's length alone, so two prompts meet without having met.
 */
#ifndef KVSTEER_LADDER_H
#define KVSTEER_LADDER_H

#include "shared.h"

/* Enters a depth where it belongs, once, if there is room. Returns the number of depths. */
KV_INLINE __u32 kv_ladder_add(__u32 *depths, __u32 n, __u32 depth)
{
	__u32 at = n;

	while (at && depths[at - 1] > depth)
		at--;
	if (n >= KV_MAX_RUNGS || (at && depths[at - 1] == depth))
		return n;
	for (__u32 i = n; i > at; i--)
		depths[i] = depths[i - 1];
	depths[at] = depth;
	return n + 1;
}

/*
 * Fills depths (rising, no depth twice) for a prompt of n_blocks full blocks and returns their
 * number. boundaries: rising numbers of full blocks before each message boundary; 0 and those
 * past the end are skipped. From 98,304 blocks on the first two sets alone are more than the ladder
 * holds: of the powers of two the smallest give way, which are worth least.
 */
static inline __u32 kv_ladder(__u32 n_blocks, const __u32 *boundaries, __u32 n_boundaries,
			      __u32 depths[KV_MAX_RUNGS])
{
	__u64 step, last;
	__u32 n = 0;

	for (step = 1; step <= n_blocks; step *= 2) {
		last = n_blocks / step * step;
		n = kv_ladder_add(depths, n, last);
		if (last > step)
			n = kv_ladder_add(depths, n, last - step);
	}
	for (step /= 2; step; step /= 2)
		n = kv_ladder_add(depths, n, step);
	while (n_boundaries-- && n < KV_MAX_RUNGS)
		if (boundaries[n_boundaries] && boundaries[n_boundaries] <= n_blocks)
			n = kv_ladder_add(depths, n, boundaries[n_boundaries]);
	return n;
}

#endif /* KVSTEER_LADDER_H */
