// SPDX-License-Identifier: BSD-2-Clause
#include "sim/trace.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yyjson.h>
#include <zlib.h>

#include "common/cleanup.h"
#include "sim/trace_csv.h"

#define LINE_ROOM (4u << 20)
#define FOUND_SHOWN 40 /* bytes of a line that a message shows */

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

static int __attribute__((format(printf, 3, 4)))
wrong(const struct trace_reader *r, char *err, const char *format, ...)
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

static int make_room(void **array, size_t *room, size_t n, size_t size)
{
	void *grown;

	if (n <= *room)
		return 0;
	grown = reallocarray(*array, 2 * n, size);
	if (!grown)
		return -ENOMEM;
	*array = grown;
	*room = 2 * n;
	return 0;
}

/* ---- JSON lines ---------------------------------------------------------------------- */

static int read_length(struct trace_reader *r, yyjson_val *root, const char *key, uint64_t least,
		       uint32_t *ret, char *err)
{
	yyjson_val *v = yyjson_obj_get(root, key);

	if (!v)
		return wrong(r, err, "\"%s\" is missing: expected tokens", key);
	if (!yyjson_is_uint(v) || yyjson_get_uint(v) < least ||
	    yyjson_get_uint(v) > TRACE_TOKENS_MAX)
		return wrong(r, err, "\"%s\": expected tokens, a whole number from %d to %u", key,
			     (int)least, TRACE_TOKENS_MAX);
	*ret = yyjson_get_uint(v);
	return 0;
}

/* Of a recording it need not be known. */
static int read_output(struct trace_reader *r, yyjson_val *root, struct trace_line *ret, char *err)
{
	if (r->head.block_tokens && !yyjson_obj_get(root, "output_length"))
		return 0;
	return read_length(r, root, "output_length", 0, &ret->output_tokens, err);
}

static int read_ids(struct trace_reader *r, yyjson_val *root, struct trace_line *ret, char *err)
{
	yyjson_val *ids = yyjson_obj_get(root, "hash_ids"), *id;
	uint64_t want = r->head.block_tokens
				? trace_recorded_blocks(ret->input_tokens, r->block)
				: (ret->input_tokens + (uint64_t)r->block - 1) / r->block;
	size_t i, max, n = yyjson_arr_size(ids);

	if (!yyjson_is_arr(ids))
		return wrong(r, err,
			     "\"hash_ids\" is %s: expected an array of whole numbers, one per "
			     "block",
			     ids ? "no array" : "missing");
	if (n != want)
		return wrong(r, err,
			     "%zu hash_ids for %u tokens: expected %llu, as blocks have %u tokens "
			     "(--block)",
			     n, ret->input_tokens, (unsigned long long)want, r->block);
	if (make_room((void **)&r->ids, &r->ids_room, n, sizeof(*r->ids)))
		return -ENOMEM;
	yyjson_arr_foreach (ids, i, max, id) {
		if (!yyjson_is_uint(id))
			return wrong(r, err, "hash_ids[%zu]: expected a whole number", i);
		r->ids[i] = yyjson_get_uint(id);
	}
	ret->ids = r->ids;
	ret->n_ids = n;
	return 0;
}

static int read_boundaries(struct trace_reader *r, yyjson_val *root, struct trace_line *ret,
			   char *err)
{
	yyjson_val *list = yyjson_obj_get(root, "boundaries"), *v;
	size_t i, max, n = yyjson_arr_size(list);
	uint32_t last = 0;

	if (list && !yyjson_is_arr(list))
		return wrong(r, err, "\"boundaries\" is no array: expected depths in tokens");
	if (make_room((void **)&r->boundaries, &r->boundaries_room, n, sizeof(*r->boundaries)))
		return -ENOMEM;
	yyjson_arr_foreach (list, i, max, v) {
		if (!yyjson_is_uint(v) || yyjson_get_uint(v) < last ||
		    yyjson_get_uint(v) > ret->input_tokens)
			return wrong(r, err,
				     "boundaries[%zu]: expected rising depths in tokens, up to %u",
				     i, ret->input_tokens);
		r->boundaries[i] = last = yyjson_get_uint(v);
	}
	ret->boundaries = r->boundaries;
	ret->n_boundaries = n;
	return 0;
}

static int read_json(struct trace_reader *r, size_t len, struct trace_line *ret, char *err)
{
	yyjson_read_err why;
	_cleanup_json_ yyjson_doc *doc = yyjson_read_opts(r->line, len, 0, NULL, &why);
	yyjson_val *root = yyjson_doc_get_root(doc), *at;

	if (!doc)
		return wrong(r, err,
			     "no JSON (byte %zu: %s): expected one object a line with timestamp, "
			     "input_length, output_length, hash_ids",
			     why.pos + 1, why.msg);
	if (!yyjson_is_obj(root))
		return wrong(r, err,
			     "expected an object with timestamp, input_length, output_length, "
			     "hash_ids");
	at = yyjson_obj_get(root, "timestamp");
	if (!yyjson_is_num(at) || !(yyjson_get_num(at) >= 0 && yyjson_get_num(at) < 1e15))
		return wrong(r, err, "\"timestamp\"%s: expected milliseconds, a number from 0 on",
			     at ? "" : " is missing");
	ret->at_s = yyjson_get_num(at) / 1000;
	return read_length(r, root, "input_length", 1, &ret->input_tokens, err)
	       ?: read_output(r, root, ret, err)
	       ?: read_ids(r, root, ret, err)
	       ?: read_boundaries(r, root, ret, err);
}

/* ---- a recording's head --------------------------------------------------------------- */

static int read_head(struct trace_reader *r, yyjson_val *root, char *err)
{
	yyjson_val *block = yyjson_obj_get(root, "block_tokens");
	uint64_t backends = yyjson_get_uint(yyjson_obj_get(root, "backends"));
	double rate = yyjson_get_num(yyjson_obj_get(root, "rate_tokens_per_s"));

	if (yyjson_get_uint(yyjson_obj_get(root, TRACE_HEAD_KEY)) != TRACE_HEAD_VERSION)
		return wrong(
			r, err,
			"a recording of another form than this program's: use the kvsteer that "
			"recorded it");
	if (!yyjson_is_uint(block) || !yyjson_get_uint(block) ||
	    yyjson_get_uint(block) > TRACE_BLOCK_MAX)
		return wrong(r, err, "\"block_tokens\": expected a whole number from 1 to %u",
			     TRACE_BLOCK_MAX);
	if (r->asked && r->asked != yyjson_get_uint(block))
		return wrong(r, err, "recorded in blocks of %llu tokens: expected no other --block",
			     (unsigned long long)yyjson_get_uint(block));
	r->head = (struct trace_head){
		.block_tokens = yyjson_get_uint(block),
		.backends = backends <= UINT32_MAX ? backends : 0,
		.cache_tokens = yyjson_get_uint(yyjson_obj_get(root, "cache_tokens")),
		.rate = rate > 0 ? rate : 0,
	};
	r->block = r->head.block_tokens;
	return 0;
}

/* 1: the line is a head; 0: it is a line as any; -EINVAL: it is none that can be read. */
static int try_head(struct trace_reader *r, size_t len, char *err)
{
	_cleanup_json_ yyjson_doc *doc = NULL;
	yyjson_val *root;

	if (r->line[0] != '{')
		return 0;
	doc = yyjson_read(r->line, len, 0);
	root = yyjson_doc_get_root(doc);
	if (!yyjson_obj_get(root, TRACE_HEAD_KEY))
		return 0;
	return read_head(r, root, err) ?: 1;
}

/* ---- CSV ----------------------------------------------------------------------------- */

static int read_csv(struct trace_reader *r, struct trace_line *ret, char *err)
{
	char text[FOUND_SHOWN + 1];
	size_t n;

	if (trace_csv_line(r->line, ret))
		return wrong(r, err,
			     "\"%s\": expected " TRACE_CSV_EXPECTED ", with 1 to %u context tokens",
			     found(r, text), TRACE_TOKENS_MAX);
	n = (ret->input_tokens + (uint64_t)r->block - 1) / r->block;
	if (make_room((void **)&r->ids, &r->ids_room, n, sizeof(*r->ids)))
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
			return is_broken(r) ? wrong(r, err, "the file is damaged or cut short") : 0;
		}
		r->number++;
		len = strlen(r->line);
		if (len && r->line[len - 1] != '\n' && is_broken(r))
			return wrong(r, err, "the file is damaged or cut short");
		if (len == LINE_ROOM - 1)
			return wrong(r, err, "a line of 4 MiB or more");
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
		rc = try_head(r, r->ahead_len, r->ahead_err);
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
		return wrong(r, err,
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
	rc = r->form == FORM_CSV ? read_csv(r, ret, err) : read_json(r, len, ret, err);
	if (rc == -ENOMEM)
		snprintf(err, TRACE_ERROR_LEN, "%s: out of memory", r->file);
	if (rc)
		return rc;
	if (ret->at_s < r->last_s)
		return wrong(r, err,
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
