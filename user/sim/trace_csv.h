/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef KVSTEER_SIM_TRACE_CSV_H
#define KVSTEER_SIM_TRACE_CSV_H

#include "sim/trace.h"

#define TRACE_CSV_HEADER "TIMESTAMP,ContextTokens,GeneratedTokens"
#define TRACE_CSV_EXPECTED "YEAR-MONTH-DAY HOUR:MINUTE:SECOND,CONTEXT,GENERATED"

/* Fills times and lengths. 0 or -EINVAL. */
int trace_csv_line(const char *line, struct trace_line *ret);

#endif
