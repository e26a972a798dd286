/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The unit tests' harness: TAP on stdout, one line per TEST block, details of failures as
 * comments before it.
 *
 *	int main(void)
 *	{
 *		TEST("addition") {
 *			CHECK(1 + 1 == 2);
 *			CHECK_EQ(1 + 1, 2);
 *			CHECK_STR("a", "a");
 *		}
 *		return check_done();
 *	}
 *
 * A failed check is reported and the block goes on; `break` leaves a block early.
 */
#ifndef KVSTEER_TESTS_CHECK_H
#define KVSTEER_TESTS_CHECK_H

#include <stdio.h>
#include <string.h>

static struct {
	const char *name;
	unsigned int n, failed; /* groups */
	unsigned int bad;	/* checks of the current group */
} check_state;

static inline void check_end(void)
{
	if (!check_state.name)
		return;
	check_state.n++;
	check_state.failed += check_state.bad > 0;
	printf("%sok %u - %s\n", check_state.bad ? "not " : "", check_state.n, check_state.name);
	fflush(stdout);
	check_state.name = NULL;
}

static inline int check_begin(const char *name)
{
	check_end();
	check_state.name = name;
	check_state.bad = 0;
	return 1;
}

static inline int check_fail(const char *file, int line)
{
	/* Ten lines tell enough: a table's common fault would fill the screen. */
	if (check_state.bad++ >= 10)
		return 0;
	printf("# %s:%d: ", file, line);
	return 1;
}

static inline int check_done(void)
{
	check_end();
	printf("1..%u\n", check_state.n);
	return check_state.failed || !check_state.n;
}

#define TEST(title) for (int check_once = check_begin(title); check_once; check_once = 0)

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond) && check_fail(__FILE__, __LINE__))                                     \
			printf("%s\n", #cond);                                                     \
	} while (0)

/* Integers of any type; shown signed and in hex. */
#define CHECK_EQ(a, b)                                                                             \
	do {                                                                                       \
		long long check_a = (long long)(a), check_b = (long long)(b);                      \
		if (check_a != check_b && check_fail(__FILE__, __LINE__))                          \
			printf("%s == %s: %lld (0x%llx), expected %lld (0x%llx)\n", #a, #b,        \
			       check_a, check_a, check_b, check_b);                                \
	} while (0)

#define CHECK_STR(a, b)                                                                            \
	do {                                                                                       \
		const char *check_a = (a), *check_b = (b);                                         \
		if ((!check_a || !check_b || strcmp(check_a, check_b)) &&                          \
		    check_fail(__FILE__, __LINE__))                                                \
			printf("%s == %s: \"%s\", expected \"%s\"\n", #a, #b,                      \
			       check_a ? check_a : "(null)", check_b ? check_b : "(null)");        \
	} while (0)

#define CHECK_MEM(a, b, n)                                                                         \
	do {                                                                                       \
		if (memcmp(a, b, n) && check_fail(__FILE__, __LINE__))                             \
			printf("%s == %s, %zu bytes\n", #a, #b, (size_t)(n));                      \
	} while (0)

#endif /* KVSTEER_TESTS_CHECK_H */
