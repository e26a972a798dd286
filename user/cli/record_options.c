// SPDX-License-Identifier: BSD-2-Clause
#include "record.h"

#include <string.h>
#include <unistd.h>

#include "common/config_values.h"

#define BUFFER_DEFAULT (8 << 20) /* some 14,000 dispatches of many rungs */
#define BUFFER_MAX (1u << 30)
#define BLOCK_DEFAULT 64 /* of prompts that are text */
#define SAMPLE_MAX 1000000

static int read_duration(struct cli *cli, const char *text, __u64 *ret)
{
	__u64 ms, s;

	if (!text)
		return 0;
	if (!kv_parse_count(text, &s) && s <= 1u << 30)
		ms = 1000 * s;
	else if (kv_parse_duration(text, &ms))
		ms = 0;
	if (!ms || ms > 1ull << 40)
		return cli_usage(cli, "--duration: found \"%s\": expected a time as 60s, 5min, 1h",
				 text);
	*ret = ms * 1000000;
	return 0;
}

static int read_sample(struct cli *cli, const char *text, __u32 *ret)
{
	__u64 n;

	*ret = 1;
	if (!text)
		return 0;
	if (strncmp(text, "1/", 2) || kv_parse_count(text + 2, &n) || !n || n > SAMPLE_MAX)
		return cli_usage(cli, "--sample: found \"%s\": expected 1/N, N from 1 to %d", text,
				 SAMPLE_MAX);
	*ret = n;
	return 0;
}

static int read_block(struct cli *cli, const char *text, __u32 *ret)
{
	__u64 n = BLOCK_DEFAULT;

	if (text && (kv_parse_count(text, &n) || !n || n > TRACE_BLOCK_MAX))
		return cli_usage(cli, "--block: found \"%s\": expected tokens from 1 to %u", text,
				 TRACE_BLOCK_MAX);
	*ret = n;
	return 0;
}

static int read_buffer(struct cli *cli, const char *text, __u32 *ret)
{
	__u64 n = BUFFER_DEFAULT, page = sysconf(_SC_PAGESIZE);

	if (text && (kv_parse_bytes(text, &n) || n < page || n > BUFFER_MAX || n & (n - 1)))
		return cli_usage(cli,
				 "--buffer: found \"%s\": expected a power of two, from %llu to "
				 "1GiB",
				 text, (unsigned long long)page);
	*ret = n;
	return 0;
}

int record_options(struct cli *cli, int argc, char **argv, struct record_options *o)
{
	const char *duration = NULL, *sample = NULL, *block = NULL, *buffer = NULL;
	const struct cli_option options[] = {
		{"-o", &o->file, NULL},
		{"--duration", &duration, NULL},
		{"--sample", &sample, NULL},
		{"--block", &block, NULL},
		{"--service", &o->service_name, NULL},
		{"--force", NULL, &o->force},
		{"--buffer", &buffer, NULL},
		{0},
	};

	o->file = "-";
	return cli_arguments(cli, &argc, argv, options, 0, 0)
	       ?: read_duration(cli, duration, &o->duration_ns)
	       ?: read_sample(cli, sample, &o->sample)
	       ?: read_block(cli, block, &o->block)
	       ?: read_buffer(cli, buffer, &o->buffer);
}
