// SPDX-License-Identifier: BSD-2-Clause
/* Predicted against found: the verdict and its cause, the window, the distribution of depths. */
#include "check.h"
#include "engines/proof.h"

#define SECOND 1000000000ull
#define NOW (1000 * SECOND)
#define K 1000ull

struct numbers {
	uint64_t prompt, predicted, cached;
};

static const struct {
	const char *what;
	struct numbers by_class[PROOF_CLASSES]; /* by usage */
	struct proof_counters counters;		/* from 0 */
	struct proof_facts facts;
	enum proof_cause cause;
	bool alarm, by_usage;
} cases[] = {
	{"nothing", {}, {}, {}, PROOF_TOO_LITTLE, false, false},
	{"a little",
	 {{9 * K, 5 * K, 0}},
	 {5 * K, 9 * K, 0, 9 * K},
	 {},
	 PROOF_TOO_LITTLE,
	 false,
	 false},
	{"as predicted", {{200 * K, 100 * K, 97 * K}}, {}, {}, PROOF_AGREES, false, true},
	{"just so", {{200 * K, 100 * K, 80 * K}}, {}, {}, PROOF_AGREES, false, true},
	{"just so, above", {{200 * K, 100 * K, 125 * K}}, {}, {}, PROOF_AGREES, false, true},
	{"by counters", {}, {100 * K, 200 * K, 97 * K, 200 * K}, {}, PROOF_AGREES, false, false},
	/* usage goes before counters, which are of all traffic */
	{"usage first",
	 {{200 * K, 100 * K, 97 * K}},
	 {100 * K, 200 * K, 1, 200 * K},
	 {},
	 PROOF_AGREES,
	 false,
	 true},
	{"no reuse foreseen, none found", {{200 * K, 0, 0}}, {}, {}, PROOF_TOO_LITTLE, false, true},
	{"block size",
	 {{200 * K, 100 * K, 40 * K}},
	 {},
	 {32, 16, 1000, 9000},
	 PROOF_BLOCK_SIZE,
	 true,
	 true},
	{"block size, but it works",
	 {{200 * K, 100 * K, 99 * K}},
	 {},
	 {32, 16, 0, 0},
	 PROOF_AGREES,
	 false,
	 true},
	{"capacity",
	 {{200 * K, 100 * K, 40 * K}},
	 {},
	 {16, 16, 100 * K, 262 * K},
	 PROOF_CAPACITY,
	 true,
	 true},
	{"capacity nearly right",
	 {{200 * K, 100 * K, 40 * K}},
	 {},
	 {16, 16, 95 * K, 100 * K},
	 PROOF_TEMPLATE,
	 true,
	 true},
	{"off",
	 {{200 * K, 100 * K, 0}},
	 {},
	 {16, 16, 100 * K, 262 * K},
	 PROOF_CACHING_OFF,
	 true,
	 true},
	{"salt",
	 {{200 * K, 100 * K, 99 * K}, {100 * K, 90 * K, 0}},
	 {},
	 {16, 16, 100 * K, 262 * K},
	 PROOF_SALT,
	 true,
	 true},
	{"adapter",
	 {{200 * K, 100 * K, 99 * K}, {}, {100 * K, 90 * K, 100}},
	 {},
	 {},
	 PROOF_LORA,
	 true,
	 true},
	{"all alike",
	 {{200 * K, 100 * K, 50 * K}, {100 * K, 90 * K, 40 * K}},
	 {},
	 {},
	 PROOF_TEMPLATE,
	 true,
	 true},
	{"others' requests",
	 {},
	 {100 * K, 200 * K, 50 * K, 900 * K},
	 {},
	 PROOF_OTHER_TRAFFIC,
	 true,
	 false},
	{"others' hits",
	 {},
	 {100 * K, 200 * K, 500 * K, 900 * K},
	 {},
	 PROOF_OTHER_TRAFFIC,
	 true,
	 false},
	{"more than known",
	 {},
	 {100 * K, 300 * K, 200 * K, 300 * K},
	 {},
	 PROOF_UNDERRATED,
	 true,
	 false},
	{"nothing known", {{200 * K, 0, 150 * K}}, {}, {}, PROOF_UNDERRATED, true, true},
	{"template", {}, {100 * K, 200 * K, 50 * K, 200 * K}, {}, PROOF_TEMPLATE, true, false},
};

static void give(struct proof *p, const struct numbers *by_class, const struct proof_counters *c,
		 uint64_t now)
{
	struct proof_counters zero = {0};

	p->real = p->reckoned = 1; /* our tokens are the engine's */
	for (int class = 0; class < PROOF_CLASSES; class ++) {
		struct proof_request r = {
			.class = class,
			.prompt = by_class[class].prompt,
			.predicted = by_class[class].predicted,
			.cached = by_class[class].cached,
			.has_cached = true,
		};

		if (r.prompt)
			proof_answered(p, &r, now);
	}
	proof_counted(p, &zero, now);
	proof_counted(p, c, now);
}

/* Prompts as text have tokens of 4 bytes with us. */
static void other_tokens(void)
{
	struct proof_facts none = {0};
	struct proof_counters zero = {0}, c = {.predicted = 100000, .prompt = 200000};
	struct proof p = {0};

	/* not known how long the engine's are: only what is far off is told */
	c.hits = 60000;
	c.queries = 150000;
	proof_counted(&p, &zero, NOW);
	proof_counted(&p, &c, NOW);
	CHECK(!proof_judge(&p, &none, NOW).alarm);
	CHECK(proof_judge(&p, &none, NOW).unscaled);
	/* an answer has told: four of ours are three of the engine's */
	p = (struct proof){0};
	proof_answered(&p, &(struct proof_request){.prompt = 750, .reckoned = 1000}, NOW);
	proof_counted(&p, &zero, NOW);
	proof_counted(&p, &c, NOW);
	CHECK_EQ(proof_judge(&p, &none, NOW).predicted, 75000);
	CHECK(!proof_judge(&p, &none, NOW).alarm); /* 60,000 of 75,000 */
	c.hits += 50000;
	c.predicted += 100000;
	proof_counted(&p, &c, NOW);
	CHECK(proof_judge(&p, &none, NOW).alarm); /* 110,000 of 150,000 */
}

static void verdicts(void)
{
	char text[512];

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct proof p = {0};
		struct proof_verdict v;

		give(&p, cases[i].by_class, &cases[i].counters, NOW);
		v = proof_judge(&p, &cases[i].facts, NOW + SECOND);
		proof_explain(&v, &cases[i].facts, text, sizeof(text));
		if (v.cause != cases[i].cause)
			printf("# %s: %s\n", cases[i].what, text);
		CHECK_EQ(v.cause, cases[i].cause);
		CHECK_EQ(v.alarm, cases[i].alarm);
		CHECK_EQ(v.by_usage, cases[i].by_usage);
		CHECK(strlen(text) > 20 && !strchr(text, '\n'));
	}
	for (int i = 0; i < PROOF_CAUSES; i++)
		CHECK(strlen(proof_cause_name(i)) > 3);
}

static void words(void)
{
	struct proof p = {0};
	struct proof_facts facts = {16, 16, 100000, 262144};
	struct numbers n[PROOF_CLASSES] = {{200 * K, 100 * K, 40 * K}};
	struct proof_counters c = {0};
	struct proof_verdict v;
	char text[512];

	give(&p, n, &c, NOW);
	v = proof_judge(&p, &facts, NOW);
	CHECK(v.ratio > 0.399 && v.ratio < 0.401);
	proof_explain(&v, &facts, text, sizeof(text));
	CHECK_STR(text, "In the last minute 100000 tokens were predicted to be cached, 40000 were "
			"(by the answers' usage). The engine's cache holds 100000 tokens, kvsteer "
			"reckons with 262144: set the backend's capacity.");
	v = (struct proof_verdict){.cause = PROOF_AGREES, .predicted = 20000, .actual = 19000};
	proof_explain(&v, &facts, text, sizeof(text));
	CHECK_STR(text, "In the last minute 20000 tokens were predicted to be cached, 19000 were "
			"(by the engine's counters): they agree.");
}

static void window(void)
{
	struct proof p = {0};
	struct proof_facts facts = {0};
	struct numbers bad[PROOF_CLASSES] = {{200 * K, 100 * K, 10 * K}};
	struct numbers good[PROOF_CLASSES] = {{200 * K, 100 * K, 100 * K}};
	struct proof_counters c = {0};
	struct proof_request silent = {.prompt = 500 * K, .predicted = 400 * K};

	give(&p, bad, &c, NOW);
	CHECK(proof_judge(&p, &facts, NOW + 54 * SECOND).alarm);
	CHECK_EQ(proof_judge(&p, &facts, NOW + 60 * SECOND).cause, PROOF_TOO_LITTLE);
	for (int i = 0; i < 12; i++)
		give(&p, good, &c, NOW + (60 + 5 * i) * SECOND);
	CHECK_EQ(proof_judge(&p, &facts, NOW + 115 * SECOND).cause, PROOF_AGREES);
	CHECK_EQ(p.total[PROOF_PLAIN].requests, 13);
	CHECK_EQ(p.total[PROOF_PLAIN].predicted, 1300 * K);
	CHECK_EQ(p.total[PROOF_PLAIN].cached, 1210 * K);
	/* an answer that does not say what was cached says nothing */
	proof_answered(&p, &silent, NOW + 115 * SECOND);
	CHECK_EQ(p.total[PROOF_PLAIN].requests, 13);
	CHECK_EQ(proof_judge(&p, &facts, NOW + 115 * SECOND).cause, PROOF_AGREES);
}

static void restart(void)
{
	struct proof p = {0};
	struct proof_facts facts = {0};
	struct proof_counters a = {100 * K, 200 * K, 900 * K, 950 * K},
			      b = {200 * K, 400 * K, 10, 20};

	/* an engine that has run for long: its sums so far are not ours */
	proof_counted(&p, &a, NOW);
	CHECK_EQ(proof_judge(&p, &facts, NOW).cause, PROOF_TOO_LITTLE);
	/* its sums fell: the time between says nothing */
	proof_counted(&p, &b, NOW + SECOND);
	CHECK_EQ(proof_judge(&p, &facts, NOW + SECOND).cause, PROOF_TOO_LITTLE);
	b.hits = 95 * K;
	b.queries = 200 * K;
	b.predicted += 100 * K;
	b.prompt += 200 * K;
	proof_counted(&p, &b, NOW + 2 * SECOND);
	CHECK_EQ(proof_judge(&p, &facts, NOW + 2 * SECOND).cause, PROOF_AGREES);
	proof_restarted(&p);
	CHECK_EQ(proof_judge(&p, &facts, NOW + 2 * SECOND).cause, PROOF_TOO_LITTLE);
}

static void depths(void)
{
	static const uint64_t matched[] = {0, 0, 1, 16, 17, 32, 1 << 19, 1 << 20, (1 << 20) + 1,
					   -1};
	static const unsigned int buckets[] = {0, 0, 1, 1, 2, 2, 16, 17, 17, 17};
	uint64_t expected[PROOF_DEPTHS] = {0};
	struct proof p = {0};

	CHECK_EQ(proof_depth_bound(0), 0);
	CHECK_EQ(proof_depth_bound(1), 16);
	CHECK_EQ(proof_depth_bound(PROOF_DEPTHS - 2), 1 << 19);
	CHECK_EQ(proof_depth_bound(PROOF_DEPTHS - 1), 0);
	for (size_t i = 0; i < sizeof(matched) / sizeof(*matched); i++) {
		proof_lookup(&p, i % PROOF_CLASSES, matched[i]);
		expected[buckets[i]]++;
	}
	for (int i = 0; i < PROOF_DEPTHS; i++)
		CHECK_EQ(p.depths[i], expected[i]);
	CHECK_EQ(p.lookups[PROOF_PLAIN], 4);
	CHECK_EQ(p.lookups[PROOF_SALTED], 3);
	CHECK_EQ(p.misses[PROOF_PLAIN], 1);
	CHECK_EQ(p.misses[PROOF_SALTED], 1);
	CHECK_EQ(p.misses[PROOF_ADAPTER], 0);
}

int main(void)
{
	TEST("verdicts and causes")
	verdicts();
	TEST("tokens of ours that are others than the engine's")
	other_tokens();
	TEST("in words")
	words();
	TEST("the last minute counts")
	window();
	TEST("counters of another process")
	restart();
	TEST("depths of matches")
	depths();
	return check_done();
}
