// SPDX-License-Identifier: BSD-2-Clause
#include "common/config_values.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct unit {
	const char *name;
	__u64 factor;
};

/* Ascending: formatting takes the last that divides. */
static const struct unit byte_units[] = {
	{"", 1},
	{"B", 1},
	{"kB", 1000},
	{"MB", 1000 * 1000},
	{"GB", 1000 * 1000 * 1000},
	{"KiB", 1ull << 10},
	{"MiB", 1ull << 20},
	{"GiB", 1ull << 30},
	{NULL, 0},
};

static const struct unit time_units[] = {
	{"ms", 1}, {"s", 1000}, {"min", 60 * 1000}, {"h", 3600 * 1000}, {NULL, 0},
};

/* Digits only: strtoull would take a sign and white space. */
static int digits(const char *text, const char **end, __u64 *ret)
{
	size_t n = strspn(text, "0123456789");

	if (!n)
		return -EINVAL;
	errno = 0;
	*ret = strtoull(text, NULL, 10);
	*end = text + n;
	return errno ? -ERANGE : 0;
}

static int with_unit(const char *text, const struct unit *units, __u64 *ret)
{
	const char *end;
	__u64 number, value;
	int err = digits(text, &end, &number);

	if (err)
		return err;
	for (; units->name; units++)
		if (!strcmp(end, units->name)) {
			if (__builtin_mul_overflow(number, units->factor, &value))
				return -ERANGE;
			*ret = value;
			return 0;
		}
	return -EINVAL;
}

int kv_parse_count(const char *text, __u64 *ret)
{
	const char *end;
	__u64 value;
	int err = digits(text, &end, &value);

	if (err)
		return err;
	if (*end)
		return -EINVAL;
	*ret = value;
	return 0;
}

int kv_parse_bytes(const char *text, __u64 *ret)
{
	return with_unit(text, byte_units, ret);
}

int kv_parse_duration(const char *text, __u64 *ret)
{
	return with_unit(text, time_units, ret);
}

int kv_parse_capacity(const char *text, __u64 *ret)
{
	const char *end;
	__u64 blocks, size = 1, value;
	int err = digits(text, &end, &blocks);

	if (!err && *end == 'x')
		err = digits(end + 1, &end, &size);
	if (err)
		return err;
	if (*end)
		return -EINVAL;
	if (__builtin_mul_overflow(blocks, size, &value))
		return -ERANGE;
	*ret = value;
	return 0;
}

static char *format_unit(__u64 value, const struct unit *units, char *buf)
{
	const struct unit *best = units;

	for (; units->name; units++)
		if (value && units->factor > best->factor && value % units->factor == 0)
			best = units;
	snprintf(buf, KV_VALUE_TEXT, "%" PRIu64 "%s", (uint64_t)(value / best->factor), best->name);
	return buf;
}

char *kv_format_count(__u64 n, char buf[KV_VALUE_TEXT])
{
	snprintf(buf, KV_VALUE_TEXT, "%" PRIu64, (uint64_t)n);
	return buf;
}

char *kv_format_bytes(__u64 bytes, char buf[KV_VALUE_TEXT])
{
	return format_unit(bytes, byte_units, buf);
}

char *kv_format_duration(__u64 ms, char buf[KV_VALUE_TEXT])
{
	return format_unit(ms, time_units, buf);
}
