/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an engine reports beyond what kvsteer has dispatched there: requests of other gateways, or
 * of clients that go to it directly. A slow correction of kvsteer's own counts, never their
 * replacement: a report is a second old, and a request on its way is in no report yet.
 */
#ifndef ENGINES_FOREIGN_H
#define ENGINES_FOREIGN_H

#include <math.h>

#include "engines/report.h"

#define FOREIGN_NS 10000000000.0 /* time constant */

struct foreign {
	double requests;
	uint64_t at_ns; /* 0: no report yet */
};

/* After a fresh report. With stale ones it stays as it is: no news is not good news. */
static inline void foreign_reported(struct foreign *f, const struct engine_load *load,
				    uint64_t own_requests, uint64_t now_ns)
{
	double there = (double)load->running + load->waiting, over, share;

	if (!(load->has & LOAD_RUNNING) || !(load->has & LOAD_WAITING))
		return;
	over = there > own_requests ? there - own_requests : 0;
	share = f->at_ns ? 1 - exp(-(double)(now_ns - f->at_ns) / FOREIGN_NS) : 0;
	f->requests += share * (over - f->requests);
	f->at_ns = now_ns;
}

#endif
