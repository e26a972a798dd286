// SPDX-License-Identifier: BSD-2-Clause
#include "sim/trace_write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yyjson.h>
#include <zlib.h>

#include "common/cleanup.h"

#define NUMBER_MAX 21 /* of 64 bits, and a comma */
#define LINE_REST 256 /* of a line, beside its lists */

struct trace_writer {
	gzFile out;
	char *line;
	size_t room;
};

static int put_bytes(struct trace_writer *w, const char *data, size_t len)
{
	errno = 0;
	if (gzwrite(w->out, data, len) == (int)len)
		return 0;
	return -(errno ?: EIO);
}

static int put_head(struct trace_writer *w, const struct trace_head *head, const char *service)
{
	_cleanup_json_mut_ yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *root = yyjson_mut_obj(doc);
	_cleanup_free_ char *text = NULL;
	size_t len;

	yyjson_mut_doc_set_root(doc, root);
	yyjson_mut_obj_add_uint(doc, root, TRACE_HEAD_KEY, TRACE_HEAD_VERSION);
	yyjson_mut_obj_add_uint(doc, root, "block_tokens", head->block_tokens);
	if (service)
		yyjson_mut_obj_add_str(doc, root, "service", service);
	yyjson_mut_obj_add_uint(doc, root, "backends", head->backends);
	yyjson_mut_obj_add_uint(doc, root, "cache_tokens", head->cache_tokens);
	yyjson_mut_obj_add_real(doc, root, "rate_tokens_per_s", head->rate);
	text = yyjson_mut_write(doc, YYJSON_WRITE_NEWLINE_AT_END, &len);
	return text ? put_bytes(w, text, len) : -ENOMEM;
}

static int open_file(const char *file, bool force)
{
	if (!strcmp(file, "-"))
		return dup(STDOUT_FILENO);
	/* whose prompts have something in common is nobody else's business */
	return open(file, O_WRONLY | O_CREAT | O_CLOEXEC | (force ? O_TRUNC : O_EXCL), 0600);
}

int trace_create(const char *file, bool force, const struct trace_head *head, const char *service,
		 struct trace_writer **ret, char *err)
{
	const char *end = strrchr(file, '.');
	struct trace_writer *w = calloc(1, sizeof(*w));
	int fd = w ? open_file(file, force) : -1, rc = w ? -errno : -ENOMEM;

	if (fd >= 0) {
		w->out = gzdopen(fd, end && !strcmp(end, ".gz") ? "wb" : "wbT");
		rc = w->out ? 0 : -ENOMEM;
	}
	if (!rc) {
		gzbuffer(w->out, 1 << 17);
		rc = put_head(w, head, service) ?: trace_flush(w);
	} else if (fd >= 0) {
		close(fd);
	}
	if (!rc) {
		*ret = w;
		return 0;
	}
	if (rc == -EEXIST)
		snprintf(err, TRACE_ERROR_LEN, "%s is there already: --force writes over it", file);
	else
		snprintf(err, TRACE_ERROR_LEN, "cannot write %s: %s", file, strerror(-rc));
	if (w)
		trace_finish(w);
	return rc;
}

static char *number(char *at, uint64_t n)
{
	char digits[NUMBER_MAX], *d = digits + sizeof(digits);

	do
		*--d = '0' + n % 10;
	while (n /= 10);
	memcpy(at, d, digits + sizeof(digits) - d);
	return at + (digits + sizeof(digits) - d);
}

int trace_put(struct trace_writer *w, const struct trace_line *line)
{
	size_t need = LINE_REST + NUMBER_MAX * ((size_t)line->n_ids + line->n_boundaries);
	char *at;

	if (need > w->room) {
		char *grown = realloc(w->line, need);

		if (!grown)
			return -ENOMEM;
		w->line = grown;
		w->room = need;
	}
	at = w->line + sprintf(w->line, "{\"timestamp\":%.3f,\"input_length\":%u",
			       line->at_s * 1000, line->input_tokens);
	if (line->session)
		at = number(stpcpy(at, ",\"session\":"), line->session);
	at = stpcpy(at, ",\"hash_ids\":[");
	for (uint32_t i = 0; i < line->n_ids; i++) {
		if (i)
			*at++ = ',';
		at = number(at, line->ids[i]);
	}
	*at++ = ']';
	for (uint32_t i = 0; i < line->n_boundaries; i++) {
		if (!i)
			at = stpcpy(at, ",\"boundaries\":[");
		else
			*at++ = ',';
		at = number(at, line->boundaries[i]);
	}
	if (line->n_boundaries)
		*at++ = ']';
	at = stpcpy(at, "}\n");
	return put_bytes(w, w->line, at - w->line);
}

int trace_flush(struct trace_writer *w)
{
	errno = 0;
	return gzflush(w->out, Z_SYNC_FLUSH) == Z_OK ? 0 : -(errno ?: EIO);
}

int trace_finish(struct trace_writer *w)
{
	int rc = 0;

	errno = 0;
	if (w->out && gzclose(w->out) != Z_OK)
		rc = -(errno ?: EIO);
	free(w->line);
	free(w);
	return rc;
}
