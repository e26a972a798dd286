// SPDX-License-Identifier: BSD-2-Clause
#include "engines/incarnation.h"

#include <math.h>

#define SAME_START 2.0 /* seconds: several processes of one engine, rounding */

static enum incarnation_sign sign(struct incarnation *i, enum incarnation_sign s, uint64_t now_ns)
{
	bool settled = !i->since_ns || now_ns - i->since_ns > INCARNATION_SETTLE_NS;

	if (!settled && !(i->seen & 1u << s)) {
		i->seen |= 1u << s;
		return SIGN_NONE;
	}
	i->seen = 1u << s;
	i->since_ns = now_ns;
	i->restarts++;
	i->back = false;
	return s;
}

enum incarnation_sign incarnation_refused(struct incarnation *i)
{
	i->refused = true;
	i->back = false;
	return SIGN_NONE;
}

enum incarnation_sign incarnation_answered(struct incarnation *i, uint64_t now_ns)
{
	if (i->refused) {
		i->refused = false;
		i->back = true;
		i->back_ns = now_ns;
	}
	/* Who has told its start time before will tell it again, and that is better evidence: a
	 * full backlog refuses as well. */
	if (!i->back || (i->started && now_ns - i->back_ns < INCARNATION_ASK_NS))
		return SIGN_NONE;
	i->back = false;
	return sign(i, SIGN_REFUSED, now_ns);
}

enum incarnation_sign incarnation_sequence_back(struct incarnation *i, uint64_t now_ns)
{
	return sign(i, SIGN_SEQUENCE, now_ns);
}

enum incarnation_sign incarnation_reported(struct incarnation *i, double started, uint64_t counter,
					   uint64_t now_ns)
{
	bool fell = counter < i->counter;
	double before = i->started;

	i->counter = counter;
	if (started) {
		i->started = started;
		if (before && fabs(started - before) > SAME_START)
			return sign(i, SIGN_STARTED, now_ns);
		if (before) {
			/* the same process as before, whoever refused */
			i->back = i->refused = false;
			return SIGN_NONE;
		}
	}
	if (fell)
		return sign(i, SIGN_COUNTERS, now_ns);
	return incarnation_answered(i, now_ns);
}

const char *incarnation_sign_text(enum incarnation_sign s)
{
	static const char *const texts[] = {
		[SIGN_NONE] = "nothing",
		[SIGN_STARTED] = "its process has another start time",
		[SIGN_SEQUENCE] = "its KV events began anew",
		[SIGN_COUNTERS] = "its counters fell",
		[SIGN_REFUSED] = "it refused connections and is back",
	};

	return texts[s];
}
