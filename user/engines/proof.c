// SPDX-License-Identifier: BSD-2-Clause
#include "engines/proof.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DEPTH_FIRST 16 /* tokens: bound of the first bucket behind that for 0 */

uint64_t proof_depth_bound(unsigned int bucket)
{
	if (bucket >= PROOF_DEPTHS - 1)
		return 0;
	return bucket ? (uint64_t)DEPTH_FIRST << (bucket - 1) : 0;
}

void proof_lookup(struct proof *p, enum proof_class class, uint64_t matched)
{
	unsigned int bucket = 0;

	while (bucket < PROOF_DEPTHS - 1 && matched > proof_depth_bound(bucket))
		bucket++;
	p->depths[bucket]++;
	p->depth_sum += matched;
	p->lookups[class]++;
	p->misses[class] += !matched;
}

static struct proof_slice *slice_of(struct proof *p, uint64_t now_ns)
{
	uint64_t slice = now_ns / PROOF_SLICE_NS;
	struct proof_slice *s = &p->slices[slice % PROOF_SLICES];

	if (s->slice != slice)
		*s = (struct proof_slice){.slice = slice};
	return s;
}

static void add(struct proof_tokens *t, const struct proof_request *r)
{
	t->requests++;
	t->prompt += r->prompt;
	t->predicted += r->predicted;
	t->cached += r->cached;
}

/* Our count of tokens in the engine's. */
static uint64_t scaled(const struct proof *p, uint64_t tokens)
{
	return p->reckoned ? tokens * ((double)p->real / p->reckoned) : tokens;
}

bool proof_answered(struct proof *p, const struct proof_request *r, uint64_t now_ns)
{
	if (r->prompt && r->reckoned) {
		p->real += r->prompt;
		p->reckoned += r->reckoned;
	}
	if (!r->has_cached)
		return false;
	add(&slice_of(p, now_ns)->by_class[r->class], r);
	add(&p->total[r->class], r);
	return worth_add(&p->worth, WORTH_USAGE, r->predicted,
			 r->cached < r->predicted ? r->cached : r->predicted);
}

bool proof_counted(struct proof *p, const struct proof_counters *c, uint64_t now_ns)
{
	const struct proof_counters *last = &p->last;
	struct proof_counters *sum = &slice_of(p, now_ns)->counters;
	uint64_t predicted, hits;
	bool otherwise = false;

	/* Sums that fell are another process's: nothing can be said of the time between. */
	if (p->has_last && c->hits >= last->hits && c->queries >= last->queries &&
	    c->predicted >= last->predicted && c->prompt >= last->prompt) {
		predicted = scaled(p, c->predicted - last->predicted);
		hits = c->hits - last->hits;
		otherwise = worth_add(&p->worth, WORTH_COUNTERS, predicted, hits);
		sum->predicted += predicted;
		sum->prompt += scaled(p, c->prompt - last->prompt);
		sum->hits += hits;
		sum->queries += c->queries - last->queries;
	}
	p->last = *c;
	p->has_last = true;
	return otherwise;
}

void proof_restarted(struct proof *p)
{
	p->has_last = false;
	memset(p->slices, 0, sizeof(p->slices));
	worth_forget(&p->worth);
}

static void sum_up(const struct proof *p, uint64_t now_ns, struct proof_slice *ret)
{
	uint64_t now = now_ns / PROOF_SLICE_NS;

	*ret = (struct proof_slice){};
	for (int i = 0; i < PROOF_SLICES; i++) {
		const struct proof_slice *s = &p->slices[i];

		if (s->slice + PROOF_SLICES <= now)
			continue;
		ret->counters.predicted += s->counters.predicted;
		ret->counters.prompt += s->counters.prompt;
		ret->counters.hits += s->counters.hits;
		ret->counters.queries += s->counters.queries;
		for (int c = 0; c < PROOF_CLASSES; c++) {
			ret->by_class[c].requests += s->by_class[c].requests;
			ret->by_class[c].prompt += s->by_class[c].prompt;
			ret->by_class[c].predicted += s->by_class[c].predicted;
			ret->by_class[c].cached += s->by_class[c].cached;
		}
	}
}

static bool low(uint64_t actual, uint64_t predicted)
{
	return actual * 100 < predicted * PROOF_LOW;
}

static bool too_low(const struct proof_verdict *v)
{
	return v->actual * 100 < v->predicted * (v->unscaled ? PROOF_UNSCALED_LOW : PROOF_LOW);
}

static bool too_high(const struct proof_verdict *v)
{
	return v->actual * 100 > v->predicted * (v->unscaled ? PROOF_UNSCALED_HIGH : PROOF_HIGH);
}

/* One kind of request is what fails, while all others do not. */
static bool only(const struct proof_slice *s, enum proof_class class, uint64_t predicted,
		 uint64_t actual)
{
	const struct proof_tokens *t = &s->by_class[class];

	return t->predicted && low(t->cached, t->predicted) &&
	       !low(actual - t->cached, predicted - t->predicted);
}

static bool unequal(uint64_t a, uint64_t b)
{
	return a && b && a != b;
}

/* Less than 90 % of what we reckon with. */
static bool smaller(const struct proof_facts *f)
{
	return f->capacity && f->our_capacity && f->capacity * 10 < f->our_capacity * 9;
}

static enum proof_cause why_low(const struct proof_slice *s, const struct proof_facts *f,
				const struct proof_verdict *v)
{
	if (unequal(f->block_size, f->our_block_size))
		return PROOF_BLOCK_SIZE;
	if (!v->actual)
		return PROOF_CACHING_OFF;
	if (v->by_usage && only(s, PROOF_SALTED, v->predicted, v->actual))
		return PROOF_SALT;
	if (v->by_usage && only(s, PROOF_ADAPTER, v->predicted, v->actual))
		return PROOF_LORA;
	if (smaller(f))
		return PROOF_CAPACITY;
	/* a quarter of what it was asked for does not come from us, and takes its cache */
	if (s->counters.queries && s->counters.queries * 3 > s->counters.prompt * 4)
		return PROOF_OTHER_TRAFFIC;
	return PROOF_TEMPLATE;
}

static enum proof_cause why_high(const struct proof_slice *s, const struct proof_verdict *v)
{
	/* the hits may be those of requests that we have not seen */
	if (!v->by_usage && s->counters.queries * 3 > s->counters.prompt * 4)
		return PROOF_OTHER_TRAFFIC;
	return PROOF_UNDERRATED;
}

struct proof_verdict proof_judge(const struct proof *p, const struct proof_facts *facts,
				 uint64_t now_ns)
{
	struct proof_verdict v = {.ratio = 1};
	struct proof_slice s;
	uint64_t prompt = 0;

	sum_up(p, now_ns, &s);
	for (int c = 0; c < PROOF_CLASSES; c++) {
		v.predicted += s.by_class[c].predicted;
		v.actual += s.by_class[c].cached;
		prompt += s.by_class[c].prompt;
	}
	v.by_usage = prompt >= PROOF_LEAST || v.predicted >= PROOF_LEAST;
	if (!v.by_usage) {
		v.unscaled = !p->reckoned;
		v.predicted = s.counters.predicted;
		v.actual = s.counters.hits;
	}
	if (v.predicted)
		v.ratio = (double)v.actual / v.predicted;
	else if (v.actual)
		v.ratio = PROOF_HIGH; /* more than any number: nothing was predicted */
	if (v.predicted < PROOF_LEAST && v.actual < PROOF_LEAST)
		v.cause = PROOF_TOO_LITTLE;
	else if (too_low(&v))
		v.cause = why_low(&s, facts, &v);
	else if (too_high(&v))
		v.cause = why_high(&s, &v);
	v.alarm = v.cause > PROOF_TOO_LITTLE;
	return v;
}

const char *proof_cause_text(const struct proof_verdict *v, const struct proof_facts *f, char *text,
			     size_t size)
{
	static const char *const texts[PROOF_CAUSES] = {
		[PROOF_AGREES] = "they agree.",
		[PROOF_CACHING_OFF] = "Prefix caching seems to be off, or the start of each prompt "
				      "differs (a date or a random number in the system prompt).",
		[PROOF_SALT] = "Only requests with a cache salt miss: the engine's salt is not the "
			       "one that the requests are hashed with.",
		[PROOF_LORA] = "Only requests for an adapter miss: is it loaded under the same "
			       "name on this engine, or loaded anew each time?",
		[PROOF_OTHER_TRAFFIC] = "Much of what the engine serves does not come by kvsteer: "
					"its cache cannot be foreseen.",
		[PROOF_TEMPLATE] = "The chat template probably rewrites earlier turns (drops "
				   "reasoning, adds a date): what is the same text here is other "
				   "tokens there. KV events tell exactly.",
		[PROOF_UNDERRATED] = "The engine holds more than kvsteer knows: its capacity is "
				     "larger than configured, or kvsteer has just been started.",
	};

	if (v->cause == PROOF_BLOCK_SIZE)
		snprintf(text, size,
			 "The engine's blocks have %" PRIu64
			 " tokens, kvsteer reckons with %" PRIu64 ".",
			 f->block_size, f->our_block_size);
	else if (v->cause == PROOF_CAPACITY)
		snprintf(text, size,
			 "The engine's cache holds %" PRIu64
			 " tokens, kvsteer reckons with %" PRIu64 ": set the backend's capacity.",
			 f->capacity, f->our_capacity);
	else
		snprintf(text, size, "%s", texts[v->cause] ?: "");
	return text;
}

void proof_explain(const struct proof_verdict *v, const struct proof_facts *facts, char *text,
		   size_t size)
{
	char cause[320];

	if (v->cause == PROOF_TOO_LITTLE) {
		snprintf(text, size, "Too little traffic in the last minute to compare.");
		return;
	}
	proof_cause_text(v, facts, cause, sizeof(cause));
	snprintf(text, size,
		 "In the last minute %" PRIu64 " tokens were predicted to be cached, %" PRIu64
		 " were (by %s)%c %s",
		 v->predicted, v->actual,
		 v->by_usage ? "the answers' usage" : "the engine's counters",
		 v->cause == PROOF_AGREES ? ':' : '.', cause);
}

const char *proof_cause_name(enum proof_cause cause)
{
	static const char *const names[PROOF_CAUSES] = {
		[PROOF_AGREES] = "agrees",
		[PROOF_TOO_LITTLE] = "too-little-traffic",
		[PROOF_BLOCK_SIZE] = "block-size",
		[PROOF_CAPACITY] = "capacity",
		[PROOF_CACHING_OFF] = "caching-off",
		[PROOF_SALT] = "salt",
		[PROOF_LORA] = "lora",
		[PROOF_OTHER_TRAFFIC] = "other-traffic",
		[PROOF_TEMPLATE] = "template",
		[PROOF_UNDERRATED] = "underrated",
	};

	return names[cause];
}
