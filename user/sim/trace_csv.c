// SPDX-License-Identifier: BSD-2-Clause
#include "sim/trace_csv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The traces of 2024 write their zone, which is always this one. */
#define UTC "+00:00"

int trace_csv_line(const char *line, struct trace_line *ret)
{
	unsigned long long input, output;
	struct tm day = {0};
	double second;
	int at = 0, end = 0;

	if (sscanf(line, "%4d-%2d-%2d %2d:%2d:%n", &day.tm_year, &day.tm_mon, &day.tm_mday,
		   &day.tm_hour, &day.tm_min, &at) != 5 ||
	    !at || strspn(line + at, "0123456789.") < 1)
		return -EINVAL;
	if (sscanf(line + at, "%lf%n", &second, &end) != 1 || second < 0 || second >= 61)
		return -EINVAL;
	line += at + end;
	if (!strncmp(line, UTC, strlen(UTC)))
		line += strlen(UTC);
	at = 0;
	if (sscanf(line, ",%10llu,%10llu%n", &input, &output, &at) != 2 || line[at])
		return -EINVAL;
	if (strchr(line, '-') || strchr(line, '+') || !input || input > TRACE_TOKENS_MAX ||
	    output > TRACE_TOKENS_MAX || day.tm_mon < 1 || day.tm_mon > 12 || day.tm_mday < 1 ||
	    day.tm_mday > 31 || day.tm_hour > 23 || day.tm_min > 59)
		return -EINVAL;
	day.tm_year -= 1900;
	day.tm_mon--;
	ret->at_s = timegm(&day) + second;
	ret->input_tokens = input;
	ret->output_tokens = output;
	return 0;
}
