// SPDX-License-Identifier: BSD-2-Clause
#include "common/log.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LINE_LEN 1024

static const char *const level_names[] = {
	[KV_LOG_ERROR] = "error",
	[KV_LOG_WARN] = "warning",
	[KV_LOG_INFO] = "info",
	[KV_LOG_DEBUG] = "debug",
};

static enum kv_log_level threshold = KV_LOG_INFO;

void kv_log_set_level(enum kv_log_level level)
{
	threshold = level;
}

enum kv_log_level kv_log_level(void)
{
	return threshold;
}

int kv_log_level_parse(const char *text, enum kv_log_level *ret)
{
	for (size_t i = 0; i < sizeof(level_names) / sizeof(*level_names); i++)
		if (!strcmp(text, level_names[i])) {
			*ret = i;
			return 0;
		}
	return -EINVAL;
}

/* One fprintf, so that lines of several threads do not mix; line breaks inside become spaces. */
static void log_line(enum kv_log_level level, const char *format, va_list args)
{
	char line[LINE_LEN];
	size_t len;

	if (level > threshold)
		return;
	vsnprintf(line, sizeof(line), format, args);
	len = strlen(line);
	while (len && line[len - 1] == '\n')
		line[--len] = 0;
	if (!len)
		return;
	for (char *c = line; (c = strpbrk(c, "\r\n"));)
		*c = ' ';
	fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, level_names[level], line);
}

void kv_log(enum kv_log_level level, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	log_line(level, format, args);
	va_end(args);
}

static int print_libbpf(enum libbpf_print_level level, const char *format, va_list args)
{
	switch (level) {
	case LIBBPF_WARN:
		log_line(KV_LOG_INFO, format, args);
		break;
	case LIBBPF_INFO:
		log_line(KV_LOG_DEBUG, format, args);
		break;
	case LIBBPF_DEBUG:
		break;
	}
	return 0;
}

void kv_log_libbpf(void)
{
	libbpf_set_print(print_libbpf);
}
