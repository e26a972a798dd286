/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How fast an engine computes prompts, learned from what its streamed answers have taken: the sums
 * prefill_tokens and prefill_ns of its entry, looked at about once per second. The simulator learns
 * by the same code.
 *
 * The rate is looks' tokens over their seconds. They are weighed by the seconds that they took, or
 * should have taken if that is less: so what a request costs whatever its length matters little
 * where there are long ones, and a stall is no more than one look. Until an engine has shown more
 * than a tenth of a second's work it is taken to be like the others of its service; and again when
 * it has not been seen for long, or it would be avoided for ever for having been slow once.
 * Rates that are nearly equal are made so.
 */
#ifndef COMMON_RATE_H
#define COMMON_RATE_H

#include <stdint.h>

#include "kvsteer/shared.h"

struct rate {
	uint64_t tokens, ns;	    /* the sums as of the last look */
	uint64_t looked_ns;	    /* 0: not yet */
	double tokens_s, seconds_s; /* of looks, weighed by seconds, decaying */
	double rate;		    /* as of the last look */
};

/* The entry's rate becomes what is known by now, for all of the service whose rate is not set. */
void rate_look(struct rate *rates, struct kv_backend *backends, const struct kv_service *service,
	       uint64_t now_ns);

/* Where its rate comes from, as it is shown. */
static inline const char *rate_from(const struct kv_backend *b)
{
	if (b->rate_set)
		return "configuration";
	return b->prefill_tokens ? "learned" : "default";
}

#endif
