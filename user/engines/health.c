// SPDX-License-Identifier: BSD-2-Clause
#include "engines/health.h"

#include <string.h>

#define MS 1000000ull
#define SECOND 1000000000ull
#define CALM_NS (60 * SECOND) /* an ejection is forgotten for each such time without one */
#define EXPONENT_MOST 16

const char health_refuses[] = "refuses connections";
const char health_takes_connections[] = "takes connections";

static bool takes(const struct health *h)
{
	return (h->state == HEALTH_UP || h->state == HEALTH_TRIAL) && !h->draining;
}

/* Takes requests without reserve. */
static bool up(const struct health *h)
{
	return h->state == HEALTH_UP && !h->draining;
}

/* Ejected and not yet back. */
static bool out(const struct health *h)
{
	return (h->state == HEALTH_EJECTED || h->state == HEALTH_TRIAL) && !h->draining;
}

static uint32_t count(const struct health_pool *p, bool (*is)(const struct health *h))
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < HEALTH_MEMBERS; i++)
		n += p->members[i].state != HEALTH_NONE && is(&p->members[i]);
	return n;
}

static bool counts(const struct health *h)
{
	return !h->draining;
}

static uint32_t out_most(const struct health_pool *p)
{
	return (uint64_t)count(p, counts) * p->options.share_percent / 100;
}

static void go(struct health_pool *p, struct health *h, enum health_state state, const char *why,
	       uint64_t now_ns)
{
	enum health_state old = h->state;

	h->state = state;
	h->why = why;
	h->since_ns = h->calm_ns = now_ns;
	h->bad = 0;
	h->trial = 0;
	h->refused = false;
	memset(h->window, 0, sizeof(h->window));
	if (state == HEALTH_UP && old != HEALTH_NONE)
		h->warm_ns = now_ns;
	if (p->changed)
		p->changed(p->arg, h - p->members, old, why);
}

static void eject(struct health_pool *p, struct health *h, const char *why, uint64_t now_ns)
{
	uint64_t ms = (uint64_t)p->options.eject_ms << h->ejections;

	if (ms > p->options.eject_most_ms)
		ms = p->options.eject_most_ms;
	else if (h->ejections < EXPONENT_MOST)
		h->ejections++;
	go(p, h, HEALTH_EJECTED, why, now_ns);
	h->until_ns = now_ns + ms * MS;
}

/* Who has been out for longest. */
static struct health *longest_out(struct health_pool *p)
{
	struct health *found = NULL;

	for (uint32_t i = 0; i < HEALTH_MEMBERS; i++) {
		struct health *h = &p->members[i];

		if (h->state != HEALTH_NONE && out(h) && (!found || h->since_ns < found->since_ns))
			found = h;
	}
	return found;
}

/* Others may have left meanwhile: what is out must not be too much, nor all that there is. */
static void keep_enough(struct health_pool *p, uint64_t now_ns)
{
	while (count(p, out) > out_most(p) || (!count(p, takes) && count(p, out)))
		go(p, longest_out(p), HEALTH_UP, "too many would be ejected", now_ns);
}

static void reject(struct health_pool *p, struct health *h, uint64_t now_ns)
{
	if (count(p, out) + 1 > out_most(p) || count(p, takes) <= 1) {
		p->spared++;
		return;
	}
	eject(p, h, "too many of its answers fail", now_ns);
}

static struct health_second *this_second(struct health *h, uint64_t now_ns)
{
	uint64_t second = now_ns / SECOND;
	struct health_second *s = &h->window[second % HEALTH_SECONDS];

	if (s->second != second)
		*s = (struct health_second){.second = second};
	return s;
}

static bool fails_too_often(const struct health_pool *p, const struct health *h, uint64_t now_ns)
{
	uint64_t second = now_ns / SECOND, successes = 0, failures = 0;

	for (int i = 0; i < HEALTH_SECONDS; i++) {
		if (h->window[i].second + HEALTH_SECONDS <= second)
			continue;
		successes += h->window[i].successes;
		failures += h->window[i].failures;
	}
	return failures && failures >= p->options.eject_least &&
	       failures * 100 >= (successes + failures) * p->options.eject_percent;
}

static struct health *member(struct health_pool *p, uint32_t id)
{
	return id < HEALTH_MEMBERS && p->members[id].state != HEALTH_NONE ? &p->members[id] : NULL;
}

void health_add(struct health_pool *p, uint32_t id, bool probed, bool warm, uint64_t now_ns)
{
	if (id >= HEALTH_MEMBERS)
		return;
	p->members[id] = (struct health){};
	go(p, &p->members[id], probed ? HEALTH_NEW : HEALTH_UP, "added", now_ns);
	p->members[id].warm_ns = warm ? 0 : now_ns;
}

void health_remove(struct health_pool *p, uint32_t id, uint64_t now_ns)
{
	struct health *h = member(p, id);

	if (!h)
		return;
	go(p, h, HEALTH_NONE, "removed", now_ns);
	*h = (struct health){};
	keep_enough(p, now_ns);
}

static void probe_good(struct health_pool *p, struct health *h, uint64_t now_ns)
{
	h->bad = 0;
	h->proven = true;
	if (h->state == HEALTH_NEW || h->state == HEALTH_DOWN)
		go(p, h, HEALTH_UP, "answers its health check", now_ns);
}

static void probe_bad(struct health_pool *p, struct health *h, uint64_t now_ns)
{
	h->refused = false;
	if (h->state != HEALTH_DOWN && (++h->bad >= p->options.fall || !h->proven))
		go(p, h, HEALTH_DOWN, "fails its health checks", now_ns);
}

static void probe_mute(struct health_pool *p, struct health *h, uint64_t now_ns)
{
	if (h->state == HEALTH_NEW)
		go(p, h, HEALTH_UP, "has no health check", now_ns);
}

static void refused(struct health_pool *p, struct health *h, uint64_t now_ns)
{
	if (h->state != HEALTH_DOWN)
		go(p, h, HEALTH_DOWN, health_refuses, now_ns);
	h->refused = true;
	h->proven = false;
}

void health_probed(struct health_pool *p, uint32_t id, enum health_probe probe, uint64_t now_ns)
{
	struct health *h = member(p, id);

	if (!h || probe == PROBE_UNKNOWN)
		return;
	h->probe_bad = probe != PROBE_GOOD && probe != PROBE_MUTE;
	if (probe == PROBE_GOOD)
		probe_good(p, h, now_ns);
	else if (probe == PROBE_REFUSED)
		refused(p, h, now_ns);
	else if (probe == PROBE_MUTE)
		probe_mute(p, h, now_ns);
	else
		probe_bad(p, h, now_ns);
	keep_enough(p, now_ns);
}

static void success(struct health_pool *p, struct health *h, uint64_t now_ns)
{
	h->bad = 0;
	h->proven = true;
	this_second(h, now_ns)->successes++;
	if (h->state == HEALTH_NEW)
		go(p, h, HEALTH_UP, "answers requests", now_ns);
	/* What ends on old connections does not make up for a listener that is gone. */
	else if (h->state == HEALTH_DOWN && !h->refused)
		go(p, h, HEALTH_UP, "answers requests", now_ns);
	else if (h->state == HEALTH_TRIAL && ++h->trial >= p->options.trial_successes)
		go(p, h, HEALTH_UP, "answers requests again", now_ns);
}

static void failure(struct health_pool *p, struct health *h, uint64_t now_ns)
{
	h->calm_ns = now_ns;
	this_second(h, now_ns)->failures++;
	if (h->state == HEALTH_TRIAL)
		eject(p, h, "fails on trial", now_ns);
	else if (h->state == HEALTH_UP && !h->draining && fails_too_often(p, h, now_ns))
		reject(p, h, now_ns);
}

void health_outcome(struct health_pool *p, uint32_t id, enum outcome outcome, uint64_t now_ns)
{
	struct health *h = member(p, id);

	if (!h)
		return;
	if (outcome == OUTCOME_SUCCESS)
		success(p, h, now_ns);
	else if (outcome == OUTCOME_FAILURE)
		failure(p, h, now_ns);
	else if (outcome == OUTCOME_REFUSED)
		refused(p, h, now_ns);
	keep_enough(p, now_ns);
}

void health_outcomes(struct health_pool *p, uint32_t id, uint32_t successes, uint32_t failures,
		     uint64_t now_ns)
{
	struct health *h = member(p, id);

	if (!h)
		return;
	/* Successes first; all but one are entered beforehand: the last one is judged by all. */
	if (successes) {
		this_second(h, now_ns)->successes += successes - 1;
		if (h->state == HEALTH_TRIAL)
			h->trial += successes - 1;
		success(p, h, now_ns);
	}
	if (failures) {
		this_second(h, now_ns)->failures += failures - 1;
		failure(p, h, now_ns);
	}
	keep_enough(p, now_ns);
}

bool health_is_refused(const struct health_pool *p, uint32_t id)
{
	return id < HEALTH_MEMBERS && p->members[id].state == HEALTH_DOWN && p->members[id].refused;
}

void health_connected(struct health_pool *p, uint32_t id, uint64_t now_ns)
{
	if (health_is_refused(p, id))
		go(p, &p->members[id], HEALTH_UP, health_takes_connections, now_ns);
}

void health_unprobed(struct health_pool *p, uint32_t id, uint64_t now_ns)
{
	struct health *h = member(p, id);

	if (!h)
		return;
	h->probe_bad = false;
	if (h->state == HEALTH_NEW || (h->state == HEALTH_DOWN && !h->refused))
		go(p, h, HEALTH_UP, "is not asked any more", now_ns);
}

void health_drain(struct health_pool *p, uint32_t id, bool draining, uint64_t now_ns)
{
	struct health *h = member(p, id);

	if (!h || h->draining == draining)
		return;
	h->draining = draining;
	if (p->changed)
		p->changed(p->arg, id, h->state, draining ? "drained" : "undrained");
	keep_enough(p, now_ns);
}

void health_new_cache(struct health_pool *p, uint32_t id, uint64_t now_ns)
{
	struct health *h = member(p, id);

	if (h)
		h->warm_ns = now_ns;
}

static void tick(struct health_pool *p, struct health *h, uint64_t now_ns)
{
	if (h->state == HEALTH_EJECTED && now_ns >= h->until_ns && !h->probe_bad)
		go(p, h, HEALTH_TRIAL, "half open: a few requests will tell", now_ns);
	else if (h->state == HEALTH_TRIAL && !h->probe_bad &&
		 now_ns - h->since_ns >= HEALTH_SECONDS * SECOND)
		go(p, h, HEALTH_UP, "nothing has failed on trial", now_ns);
	else if (h->state == HEALTH_UP && h->ejections && now_ns - h->calm_ns >= CALM_NS) {
		h->ejections--;
		h->calm_ns = now_ns;
	}
	if (h->warm_ns && now_ns - h->warm_ns >= p->options.slow_start_ms * MS)
		h->warm_ns = 0;
}

void health_tick(struct health_pool *p, uint64_t now_ns)
{
	for (uint32_t i = 0; i < HEALTH_MEMBERS; i++)
		if (p->members[i].state != HEALTH_NONE)
			tick(p, &p->members[i], now_ns);
	keep_enough(p, now_ns);
}

bool health_takes(const struct health_pool *p, uint32_t id)
{
	return id < HEALTH_MEMBERS && takes(&p->members[id]);
}

uint32_t health_weight(const struct health_pool *p, uint32_t id, uint64_t now_ns)
{
	const struct health_options *o = &p->options;
	uint64_t passed;

	if (!health_takes(p, id))
		return 0;
	passed = (now_ns - p->members[id].warm_ns) / MS;
	if (p->members[id].state == HEALTH_TRIAL)
		return o->slow_start_from;
	if (!p->members[id].warm_ns || passed >= o->slow_start_ms)
		return HEALTH_FULL;
	return o->slow_start_from + (HEALTH_FULL - o->slow_start_from) * passed / o->slow_start_ms;
}

uint32_t health_limit(const struct health_pool *p, uint32_t id)
{
	bool trial = health_takes(p, id) && p->members[id].state == HEALTH_TRIAL;

	return trial && count(p, up) ? 1 : 0;
}

uint32_t health_taking(const struct health_pool *p)
{
	return count(p, takes);
}

const char *health_state_name(enum health_state state)
{
	static const char *const names[] = {
		[HEALTH_NONE] = "none", [HEALTH_NEW] = "new",	      [HEALTH_UP] = "up",
		[HEALTH_DOWN] = "down", [HEALTH_EJECTED] = "ejected", [HEALTH_TRIAL] = "trial",
	};

	return names[state];
}
