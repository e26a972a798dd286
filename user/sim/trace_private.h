/* SPDX-License-Identifier: BSD-2-Clause */
/* Between the parts of the reader. */
#ifndef KVSTEER_SIM_TRACE_PRIVATE_H
#define KVSTEER_SIM_TRACE_PRIVATE_H

#include <stdbool.h>
#include <zlib.h>

#include "sim/trace.h"

#define LINE_ROOM (4u << 20)

enum form {
	FORM_UNKNOWN,
	FORM_JSON,
	FORM_CSV,
};

struct trace_reader {
	gzFile in;
	const char *file;
	uint32_t block;
	uint32_t asked; /* block_tokens as the caller has it, 0: as the trace has it */
	struct trace_head head;
	enum form form;
	/* The first line has been read, to see whether it is a head: what came of that is told when
	 * it is asked for. */
	bool ahead;
	int ahead_rc;
	size_t ahead_len;
	char ahead_err[TRACE_ERROR_LEN];
	uint64_t number; /* of the line */
	double last_s;
	uint64_t fresh; /* next id of a form that has none */
	uint64_t *ids;
	uint32_t *boundaries;
	size_t ids_room, boundaries_room;
	char line[LINE_ROOM];
};

/* What is wrong with the line, into err: -EINVAL. */
int trace_wrong(const struct trace_reader *r, char *err, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The line, of len bytes, as a request: 0, or -errno and err. */
int trace_json_line(struct trace_reader *r, size_t len, struct trace_line *ret, char *err);
/* 1: the line is a recording's head, and read; 0: it is a line as any; -EINVAL: no head that can be
 * read. */
int trace_json_head(struct trace_reader *r, size_t len, char *err);

#endif
