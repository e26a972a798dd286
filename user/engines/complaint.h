/* SPDX-License-Identifier: BSD-2-Clause */
/* What is wrong with an engine is said once, not once a second. */
#ifndef ENGINES_COMPLAINT_H
#define ENGINES_COMPLAINT_H

#include <stdbool.h>
#include <stdint.h>

#define COMPLAINT_PAUSE_NS 30000000000ull   /* between two lines about different things */
#define COMPLAINT_REPEAT_NS 600000000000ull /* the same again */

struct complaint {
	int about; /* 0: nothing is wrong */
	int said;  /* what the last line was about */
	uint64_t said_ns;
};

/* about: what is wrong, not 0. Whether a line is due. */
static inline bool complaint_due(struct complaint *c, int about, uint64_t now_ns)
{
	uint64_t pause = about == c->said ? COMPLAINT_REPEAT_NS : COMPLAINT_PAUSE_NS;

	c->about = about;
	if (c->said && now_ns - c->said_ns < pause)
		return false;
	c->said = about;
	c->said_ns = now_ns;
	return true;
}

/* It is well. Whether that is news to whoever reads the lines. */
static inline bool complaint_over(struct complaint *c, uint64_t now_ns)
{
	if (!c->about)
		return false;
	c->about = 0;
	/* keeps said and its time: something that comes and goes is not told each time */
	return c->said && now_ns - c->said_ns >= COMPLAINT_PAUSE_NS;
}

#endif
