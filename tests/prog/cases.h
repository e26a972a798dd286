/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inputs for the differential tests: the fuzzers' seeds, texts put together from parts that mean
 * something, and both with a few bytes changed. The same ones in every run, from one seed.
 */
#ifndef KVSTEER_TESTS_CASES_H
#define KVSTEER_TESTS_CASES_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <linux/types.h>

#include "prog.h"

#define CASE_MAX 3500
#define CASE_FILES 32

struct text {
	__u32 len;
	char data[CASE_MAX];
};

struct texts {
	__u32 n;
	struct text text[CASE_FILES];
};

static __u64 case_state;

static inline void case_seed(int argc, char **argv)
{
	case_state = argc > 1 ? strtoull(argv[1], NULL, 0) : 20251129;
	case_state += !case_state; /* zero stays zero */
	printf("# seed %llu; another one: give it as argument\n", (unsigned long long)case_state);
}

static inline __u32 chance(__u32 n)
{
	case_state ^= case_state << 13;
	case_state ^= case_state >> 7;
	case_state ^= case_state << 17;
	return (__u32)(case_state * 0x2545f4914f6cdd1dull >> 33) % n;
}

/* The fuzzer's seeds of that name, without their first skip bytes. */
static inline void case_files(struct texts *t, const char *name, __u32 skip)
{
	char path[300];
	struct dirent *e;
	struct text *at;
	FILE *f;
	DIR *d;

	snprintf(path, sizeof(path), "tests/fuzz/seeds/%s", name);
	d = opendir(path); /* from the root of the source tree */
	NEED(d);
	while ((e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		NEED(t->n < CASE_FILES);
		at = &t->text[t->n++];
		snprintf(path, sizeof(path), "tests/fuzz/seeds/%s/%s", name, e->d_name);
		f = fopen(path, "r");
		NEED(f);
		at->len = fread(at->data, 1, CASE_MAX, f);
		fclose(f);
		NEED(at->len >= skip);
		at->len -= skip;
		memmove(at->data, at->data + skip, at->len);
	}
	closedir(d);
	NEED(t->n);
}

static inline void text_add(struct text *t, const void *data, __u32 len)
{
	if (len > CASE_MAX - t->len)
		len = CASE_MAX - t->len;
	if (len)
		memcpy(t->data + t->len, data, len);
	t->len += len;
}

static inline void text_say(struct text *t, const char *part)
{
	text_add(t, part, strlen(part));
}

#define ONE_OF(list) ((list)[chance(sizeof(list) / sizeof((list)[0]))])

static inline void text_replace(struct text *t, __u32 at, __u32 n, const void *with, __u32 len)
{
	static struct text rest;

	rest.len = 0;
	text_add(&rest, t->data + at + n, t->len - at - n);
	t->len = at;
	text_add(t, with, len);
	text_add(t, rest.data, rest.len);
}

/* One small change: a byte, a cut, a run taken out or said twice. */
static inline void text_mutate(struct text *t)
{
	static const char bytes[] = "\r\n \t:;,/0123456789aAfF-\0\x7f\x80\xff\"";
	__u32 at = chance(t->len + 1), n = chance(12);
	char byte = bytes[chance(sizeof(bytes) - 1)], run[12];

	if (n > t->len - at)
		n = t->len - at;
	memcpy(run, t->data + at, n);
	switch (chance(6)) {
	case 0:
		t->len = at;
		break;
	case 1:
		text_replace(t, at, n, NULL, 0);
		break;
	case 2:
		text_replace(t, at, 0, run, n);
		break;
	case 3:
		text_replace(t, at, 0, &byte, 1);
		break;
	default:
		text_replace(t, at, at < t->len, &byte, 1);
	}
}

#endif /* KVSTEER_TESTS_CASES_H */
