// SPDX-License-Identifier: BSD-2-Clause
/* Whether affinity is worth it: how much counts of what a backend is believed to hold. */
#include "check.h"
#include "engines/proof.h"

#define SECOND 1000000000ull

static struct worth w;

/* So many requests of 1,024 predicted tokens each, a part of which is found. Returns after how many
 * of them it was judged otherwise; 0: never. */
static unsigned int answers(unsigned int n, unsigned int percent)
{
	unsigned int turned = 0;

	for (unsigned int i = 1; i <= n; i++)
		if (worth_add(&w, WORTH_USAGE, 1024, (1024 * percent + 99) / 100))
			turned = turned ?: i;
	return turned;
}

/* Looks at the counters, of 4,096 predicted tokens each. */
static unsigned int looks(unsigned int n, unsigned int percent)
{
	unsigned int turned = 0;

	for (unsigned int i = 1; i <= n; i++)
		if (worth_add(&w, WORTH_COUNTERS, 4096, 4096 * percent / 100))
			turned = turned ?: i;
	return turned;
}

static void turns(void)
{
	TEST("nothing predicted, nothing found: nothing said")
	{
		worth_forget(&w);
		for (int i = 0; i < 1000; i++)
			CHECK(!worth_add(&w, WORTH_USAGE, 0, 0));
		CHECK_EQ(w.verdict.predicted, 0);
		CHECK(!w.down);
	}

	TEST("down after 64 Ki predicted tokens of which next to nothing was there, not by less")
	{
		worth_forget(&w);
		CHECK_EQ(answers(63, 0), 0);
		CHECK_EQ(w.verdict.predicted, 0);
		CHECK_EQ(answers(1, 0), 1);
		CHECK(w.down);
		CHECK_EQ(w.verdict.predicted, 65536);
		CHECK_EQ(w.verdict.found, 0);
	}

	TEST("it counts by the share of the last 64 Ki, and so comes back by degrees")
	{
		CHECK_EQ(w.discount, 100);
		for (unsigned int i = 1; i <= 4; i++) {
			CHECK_EQ(answers(8, 100), 0);
			CHECK_EQ(w.discount, 100 - 100 * i / 8);
			CHECK(w.down);
		}
		CHECK_EQ(answers(8, 100), 8);
		CHECK(!w.down);
		CHECK_EQ(w.discount, 38);
		CHECK_EQ(answers(8, 100), 0);
		CHECK_EQ(w.discount, 25);
		CHECK_EQ(answers(8, 100), 0);
		CHECK_EQ(w.discount, 0); /* seven eighths */
	}

	TEST("nothing measured counts whole, and from four fifths on all does")
	{
		worth_forget(&w);
		answers(63, 0);
		CHECK_EQ(w.discount, 0);
		for (unsigned int percent = 0; percent <= 100; percent++) {
			worth_forget(&w);
			answers(64, percent);
			CHECK_EQ(w.discount, percent < 80 ? 100 - percent : 0);
		}
	}

	TEST("another agent goes on from what the one before has found, by either source")
	{
		struct worth_sums before = {65536, 65536 / 10}, none = {};

		worth_go_on(&w, &before);
		CHECK(w.down);
		CHECK_EQ(w.discount, 91);
		CHECK_EQ(answers(7, 100), 0);
		CHECK_EQ(w.discount, 91);
		CHECK_EQ(answers(1, 100), 0);
		CHECK_EQ(w.discount, 79); /* an eighth anew, and a tenth of the others */
		worth_go_on(&w, &before);
		CHECK(looks(16, 100));
		CHECK_EQ(w.discount, 0);
		worth_go_on(&w, &none);
		CHECK(!w.down);
		CHECK_EQ(w.discount, 0);
		answers(63, 0);
		CHECK_EQ(w.discount, 0);
	}

	TEST("hysteresis of what is said: between a fifth and a half it stays what it is")
	{
		worth_forget(&w);
		CHECK_EQ(answers(1000, 20), 0);
		CHECK_EQ(answers(1000, 50), 0);
		CHECK(answers(100, 19));
		CHECK(w.down);
		CHECK_EQ(answers(1000, 20), 0);
		CHECK_EQ(answers(1000, 50), 0);
		CHECK(w.down);
		CHECK(answers(100, 51));
		CHECK(!w.down);
	}

	TEST("the window: what was long ago does not count")
	{
		unsigned int bad;

		worth_forget(&w);
		answers(100000, 100);
		bad = answers(64, 0);
		CHECK(bad > 48 && bad <= 56); /* until less than a fifth is left */
		CHECK_EQ(w.verdict.predicted, 65536);
	}

	TEST("one long prompt is no evidence")
	{
		worth_forget(&w);
		for (int i = 0; i < WORTH_SLICES - 1; i++)
			CHECK(!worth_add(&w, WORTH_USAGE, 1000000, 0));
		CHECK(worth_add(&w, WORTH_USAGE, 1000000, 0));
	}
}

static void sources(void)
{
	TEST("by the engine's counters where answers say nothing")
	{
		worth_forget(&w);
		CHECK_EQ(looks(15, 0), 0);
		CHECK_EQ(looks(1, 0), 1);
		CHECK_EQ(w.discount, 100);
		CHECK_EQ(looks(16, 50), 0);
		CHECK_EQ(w.discount, 50);
	}

	TEST("counters that are ahead, or hold others' hits, count as what was predicted")
	{
		worth_forget(&w);
		for (int i = 0; i < 16; i++) {
			worth_add(&w, WORTH_COUNTERS, 0, 4096);
			worth_add(&w, WORTH_COUNTERS, 4096, 0);
		}
		CHECK_EQ(w.verdict.predicted, 65536);
		CHECK_EQ(w.verdict.found, 65536);
		looks(16, 500);
		CHECK_EQ(w.verdict.found, 65536);
	}

	TEST("answers before counters where they cover a quarter, else the other way round")
	{
		worth_forget(&w);
		for (int i = 0; i < 16; i++) {
			answers(1, 0);
			looks(1, 100);
		}
		CHECK(w.down);
		worth_forget(&w);
		for (int i = 0; i < 16; i++) {
			if (i % 2)
				answers(1, 0);
			looks(1, 100);
		}
		CHECK_EQ(w.verdict.predicted, 65536);
		CHECK(!w.down);
	}
}

/* By way of proof.h, as the follower feeds it. */
static void proofs(void)
{
	struct proof_request r = {.prompt = 4096, .reckoned = 4096, .predicted = 2048};
	struct proof_counters c = {0};
	struct proof p = {0};

	TEST("answers that do not say what was cached say nothing, an engine without counters "
	     "neither")
	{
		for (int i = 0; i < 1000; i++)
			CHECK(!proof_answered(&p, &r, SECOND));
		CHECK_EQ(p.worth.verdict.predicted, 0);
		r.has_cached = true;
		for (int i = 0; i < 31; i++)
			CHECK(!proof_answered(&p, &r, SECOND));
		CHECK(proof_answered(&p, &r, SECOND));
		CHECK(p.worth.down);
	}

	TEST("found is what was predicted, no more: others' hits are no merit of ours")
	{
		r.cached = 4096;
		proof_answered(&p, &r, SECOND);
		r.cached = 0;
		for (int i = 0; i < 7; i++)
			CHECK(!proof_answered(&p, &r, SECOND));
		CHECK_EQ(p.worth.verdict.predicted, 65536);
		CHECK_EQ(p.worth.verdict.found, 2048);
	}

	TEST("another process is trusted, and its counters begin anew")
	{
		proof_restarted(&p);
		CHECK(!p.worth.down);
		CHECK_EQ(p.worth.verdict.predicted, 0);
		for (int i = 0; i < 9; i++) {
			CHECK(!proof_counted(&p, &c, SECOND));
			c.predicted += i < 7 ? 8192 : 8191;
		}
		c.predicted = 0; /* the maps are others: nothing can be said */
		CHECK(!proof_counted(&p, &c, SECOND));
		c.predicted = 1;
		CHECK(proof_counted(&p, &c, SECOND));
		CHECK(p.worth.down);
	}
}

int main(void)
{
	turns();
	sources();
	proofs();
	return check_done();
}
