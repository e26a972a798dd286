/* SPDX-License-Identifier: BSD-2-Clause */
/* Recordings: what trace.h reads, with a head. */
#ifndef KVSTEER_SIM_TRACE_WRITE_H
#define KVSTEER_SIM_TRACE_WRITE_H

#include <stdbool.h>

#include "sim/trace.h"

struct trace_writer;

/* A name that ends in .gz is compressed, - is standard output, a file that is there already is
 * -EEXIST unless forced. service: its name, NULL for all. 0, or -errno and why in err
 * (TRACE_ERROR_LEN). */
int trace_create(const char *file, bool force, const struct trace_head *head, const char *service,
		 struct trace_writer **ret, char *err);
/* output_tokens are not known, and not written. -errno. */
int trace_put(struct trace_writer *w, const struct trace_line *line);
/* So that nothing but the end of the file is missing, whatever happens then. -errno. */
int trace_flush(struct trace_writer *w);
/* The file is whole then, or it is -errno. Frees w. */
int trace_finish(struct trace_writer *w);

#endif
