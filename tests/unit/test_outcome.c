// SPDX-License-Identifier: BSD-2-Clause
/* What attempts say about an engine; back-pressure; when an engine is another one than before. */
#include <errno.h>
#include <kvsteer/answer.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "engines/incarnation.h"
#include "engines/outcome.h"

#define SECOND 1000000000ull

static void statuses(void)
{
	for (int status = 0; status < 700; status++) {
		enum outcome expected = OUTCOME_FAILURE;

		if (status == 429 || status == 503)
			expected = OUTCOME_BUSY;
		else if ((status >= 200 && status < 500) || status == 501 || status == 505)
			expected = OUTCOME_SUCCESS;
		CHECK_EQ(outcome_of_status(status), expected);
		CHECK_EQ(kv_answer_caches(status), status >= 200 && status < 400);
	}
	CHECK_EQ(outcome_of_connect(0), OUTCOME_NEUTRAL);
	CHECK_EQ(outcome_of_connect(ECONNREFUSED), OUTCOME_REFUSED);
	CHECK_EQ(outcome_of_connect(ETIMEDOUT), OUTCOME_FAILURE);
	CHECK_EQ(outcome_of_connect(EHOSTUNREACH), OUTCOME_FAILURE);
	CHECK_EQ(outcome_of_connect(ECONNRESET), OUTCOME_FAILURE);
	CHECK_EQ(outcome_of_connect(EMFILE), OUTCOME_NEUTRAL);
	CHECK_EQ(outcome_of_connect(EADDRNOTAVAIL), OUTCOME_NEUTRAL);
}

static void retry_after(void)
{
	static const struct {
		const char *value;
		uint64_t ms;
	} cases[] = {
		{NULL, BUSY_MS},
		{"", BUSY_MS},
		{"0", BUSY_MS},
		{"5", 5000},
		{"60", 60000},
		{"61", BUSY_MOST_MS},
		{"-1", BUSY_MS},
		{"5s", BUSY_MS},
		{"99999999999999999999999", BUSY_MOST_MS},
		{"Wed, 21 Oct 2026 07:28:00 GMT", BUSY_MS},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct busy b = {0};
		const char *v = cases[i].value;

		CHECK(!busy_is(&b, SECOND));
		busy_note(&b, v, v ? strlen(v) : 0, SECOND);
		CHECK_EQ(b.until_ns, SECOND + cases[i].ms * 1000000);
		CHECK(busy_is(&b, SECOND) && !busy_is(&b, b.until_ns));
		/* a later answer that asks for less does not shorten it */
		busy_note(&b, NULL, 0, SECOND);
		CHECK_EQ(b.until_ns, SECOND + cases[i].ms * 1000000);
	}
}

static void passing_on(void)
{
	struct busy_case c = {.tries = 1, .tries_most = 3, .request_kept = true, .peer = true};

	CHECK(busy_pass_on(&c));
	c.tries = 3;
	CHECK(!busy_pass_on(&c));
	c.tries = 2;
	c.begun = true;
	CHECK(!busy_pass_on(&c));
	c.begun = false;
	c.peer = false;
	CHECK(!busy_pass_on(&c));
	c.peer = true;
	c.request_kept = false;
	CHECK(!busy_pass_on(&c));
}

/* One word a step: rf refused, ok answered, seq sequence back, mT metrics with start time T,
 * m- without one, cN counter N, wN waits N seconds. Expected: the restarts counted. */
static const struct {
	const char *script;
	unsigned int restarts;
} lives[] = {
	{"ok ok m100 m100 ok", 0},
	/* first sight of anything is no restart */
	{"m- m100", 0},
	{"rf ok m100", 1},
	{"seq", 1},
	/* the start time decides, where it is known */
	{"m100 m200", 1},
	{"m100 m101", 0},
	{"m100 m200 m300", 2},
	{"m100 rf ok m100 w9 ok", 0},
	{"m100 rf ok m200", 1},
	{"m100 rf ok w4 ok", 0},
	{"m100 rf ok w6 ok", 1},
	{"m100 rf ok w6 ok m200", 1},
	{"m100 rf ok rf w6 ok m100", 0},
	/* without it: refused and back */
	{"ok rf rf rf", 0},
	{"ok rf ok", 1},
	{"m- rf m-", 1},
	{"ok rf ok rf ok", 2},
	{"ok rf ok ok ok w70 ok", 1},
	/* counters */
	{"c100 c200 c200", 0},
	{"c100 c50", 1},
	{"c100 c50 c60 c10", 2},
	/* one restart, several signs in any order */
	{"m100 c100 rf ok seq m200", 1},
	{"m100 rf seq ok m200 c0", 1},
	{"c100 rf ok c0 seq", 1},
	{"seq rf ok", 1},
	{"seq m- m100", 1},
	/* the same sign again, or late: another */
	{"seq seq", 2},
	{"seq w59 rf ok", 1},
	{"seq w61 rf ok", 2},
	{"rf ok seq rf ok seq", 2},
};

static unsigned int live(const char *script)
{
	struct incarnation i = {0};
	uint64_t now = 1000 * SECOND;
	double started = 0;
	unsigned int n = 0;
	char word[16];
	int len;

	for (; sscanf(script, "%15s%n", word, &len) == 1; script += len) {
		now += SECOND / 10;
		if (!strcmp(word, "rf"))
			n += incarnation_refused(&i) != SIGN_NONE;
		else if (!strcmp(word, "ok"))
			n += incarnation_answered(&i, now) != SIGN_NONE;
		else if (!strcmp(word, "seq"))
			n += incarnation_sequence_back(&i, now) != SIGN_NONE;
		else if (word[0] == 'w')
			now += strtoul(word + 1, NULL, 10) * SECOND;
		else if (word[0] == 'c')
			n += incarnation_reported(&i, started, strtoul(word + 1, NULL, 10), now) !=
			     SIGN_NONE;
		else
			n += incarnation_reported(&i, word[1] == '-' ? 0 : strtod(word + 1, NULL),
						  i.counter, now) != SIGN_NONE;
	}
	CHECK_EQ(i.restarts, n);
	return n;
}

static void incarnations(void)
{
	for (size_t i = 0; i < sizeof(lives) / sizeof(*lives); i++) {
		unsigned int n = live(lives[i].script);

		if (n != lives[i].restarts)
			printf("# %s\n", lives[i].script);
		CHECK_EQ(n, lives[i].restarts);
	}
	for (int s = 0; s < SIGNS; s++)
		CHECK(strlen(incarnation_sign_text(s)) > 3);
}

int main(void)
{
	TEST("outcomes by status and errno")
	statuses();
	TEST("Retry-After")
	retry_after();
	TEST("429 and 503: to a peer, or to the client")
	passing_on();
	TEST("incarnations")
	incarnations();
	return check_done();
}
