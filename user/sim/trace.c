// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/array.h"
#include "sim/trace_csv.h"
#include "sim/trace_private.h"

#define FOUND_SHOWN 40 /* bytes of a line that a message shows */

int trace_wrong(const struct trace_reader *r, char *err, const char *format, ...)
{
	va_list args;
	int n = snprintf(err, TRACE_ERROR_LEN, "%s:%llu: ", r->file, (unsigned long long)r->number);

	va_start(args, format);
	if (n < TRACE_ERROR_LEN)
		vsnprintf(err + n, TRACE_ERROR_LEN - n, format, args);
	va_end(args);
	return -EINVAL;
}

/* The beginning of a line, fit for a message. */
static const char *found(const struct trace_reader *r, char text[FOUND_SHOWN + 1])
{
	snprintf(text, FOUND_SHOWN + 1, "%.*s", FOUND_SHOWN, r->line);
	for (char *c = text; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
	return text;
}

/* ---- CSV ----------------------------------------------------------------------------- */

static int read_csv(struct trace_reader *r, struct trace_line *ret, char *err)
{
	char text[FOUND_SHOWN + 1];
	size_t n;

	if (trace_csv_line(r->line, ret))
		return trace_wrong(r, err,
				   "\"%s\": expected " TRACE_CSV_EXPECTED
				   ", with 1 to %u context tokens",
				   found(r, text), TRACE_TOKENS_MAX);
	n = (ret->input_tokens + (uint64_t)r->block - 1) / r->block;
	if (sim_array_room((void **)&r->ids, &r->ids_room, n, sizeof(*r->ids)))
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		r->ids[i] = r->fresh++;
	ret->ids = r->ids;
	ret->n_ids = n;
	return 0;
}

/* ---- lines --------------------------------------------------------------------------- */

static bool is_broken(struct trace_reader *r)
{
	int gzerr = Z_OK;

	gzerror(r->in, &gzerr);
	return gzerr != Z_OK && gzerr != Z_STREAM_END;
}

/* The next line that is not empty, without its end. 1, 0 at the end, -errno. */
static int next_line(struct trace_reader *r, size_t *ret_len, char *err)
{
	size_t len;

	do {
		if (!gzgets(r->in, r->line, LINE_ROOM)) {
			r->number++;
			return is_broken(r)
				       ? trace_wrong(r, err, "the file is damaged or cut short")
				       : 0;
		}
		r->number++;
		len = strlen(r->line);
		if (len && r->line[len - 1] != '\n' && is_broken(r))
			return trace_wrong(r, err, "the file is damaged or cut short");
		if (len == LINE_ROOM - 1)
			return trace_wrong(r, err, "a line of 4 MiB or more");
		while (len && strchr("\r\n \t", r->line[len - 1]))
			r->line[--len] = 0;
	} while (!len);
	*ret_len = len;
	return 1;
}

static void read_ahead(struct trace_reader *r)
{
	int rc = next_line(r, &r->ahead_len, r->ahead_err);

	if (rc > 0) {
		rc = trace_json_head(r, r->ahead_len, r->ahead_err);
		if (rc > 0)
			return;
		rc = rc ?: 1;
	}
	r->ahead = true;
	r->ahead_rc = rc;
}

static int take_line(struct trace_reader *r, size_t *ret_len, char *err)
{
	if (!r->ahead)
		return next_line(r, ret_len, err);
	r->ahead = false;
	*ret_len = r->ahead_len;
	if (r->ahead_rc < 0)
		memcpy(err, r->ahead_err, sizeof(r->ahead_err));
	return r->ahead_rc;
}

static int recognise(struct trace_reader *r, char *err)
{
	char text[FOUND_SHOWN + 1];

	if (r->line[0] == '{')
		r->form = FORM_JSON;
	else if (!strcmp(r->line, TRACE_CSV_HEADER))
		r->form = FORM_CSV;
	else
		return trace_wrong(r, err,
				   "\"%s\": expected a JSON object with timestamp, input_length, "
				   "output_length, hash_ids, or the header " TRACE_CSV_HEADER,
				   found(r, text));
	return 0;
}

int trace_next(struct trace_reader *r, struct trace_line *ret, char *err)
{
	enum form was = r->form;
	size_t len;
	int rc = take_line(r, &len, err);

	if (rc <= 0)
		return rc;
	if (was == FORM_UNKNOWN)
		rc = recognise(r, err);
	if (rc < 0)
		return rc;
	if (was == FORM_UNKNOWN && r->form == FORM_CSV) {
		rc = next_line(r, &len, err); /* behind the header */
		if (rc <= 0)
			return rc;
	}
	*ret = (struct trace_line){0};
	rc = r->form == FORM_CSV ? read_csv(r, ret, err) : trace_json_line(r, len, ret, err);
	if (rc == -ENOMEM)
		snprintf(err, TRACE_ERROR_LEN, "%s: out of memory", r->file);
	if (rc)
		return rc;
	if (ret->at_s < r->last_s)
		return trace_wrong(
			r, err,
			"%.3f s, after %.3f s in the request before: expected requests in "
			"order of time",
			ret->at_s, r->last_s);
	r->last_s = ret->at_s;
	return 1;
}

int trace_open(const char *file, uint32_t block_tokens, struct trace_reader **ret, char *err)
{
	struct trace_reader *r = malloc(sizeof(*r));

	if (!r) {
		snprintf(err, TRACE_ERROR_LEN, "%s: out of memory", file);
		return -ENOMEM;
	}
	memset(r, 0, offsetof(struct trace_reader, line));
	r->file = strcmp(file, "-") ? file : "stdin";
	r->asked = block_tokens;
	r->block = block_tokens ?: TRACE_BLOCK_DEFAULT;
	r->fresh = 1;
	errno = 0;
	/* reads plain files too */
	r->in = strcmp(file, "-") ? gzopen(file, "rb") : gzdopen(dup(STDIN_FILENO), "rb");
	if (!r->in) {
		snprintf(err, TRACE_ERROR_LEN, "cannot open %s: %s", file,
			 strerror(errno ?: ENOMEM));
		free(r);
		return -(errno ?: ENOMEM);
	}
	gzbuffer(r->in, 1 << 17);
	read_ahead(r);
	*ret = r;
	return 0;
}

const struct trace_head *trace_head(const struct trace_reader *r)
{
	return &r->head;
}

uint32_t trace_block(const struct trace_reader *r)
{
	return r->block;
}

void trace_close(struct trace_reader *r)
{
	if (!r)
		return;
	gzclose(r->in);
	free(r->ids);
	free(r->boundaries);
	free(r);
}
