// SPDX-License-Identifier: BSD-2-Clause
#include "engines/prom.h"

#include <stdlib.h>
#include <string.h>

#define NUMBER_MAX 64

/* ASCII, whatever the locale. */
static bool is_alpha(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static char *skip_blanks(char *p)
{
	while (*p == ' ' || *p == '\t')
		p++;
	return p;
}

/* Behind a name; colon: allowed in it. NULL: there is none. */
static char *name_end(char *p, bool colon)
{
	if (!is_alpha(*p) && !(colon && *p == ':'))
		return NULL;
	while (is_alpha(*p) || is_digit(*p) || (colon && *p == ':'))
		p++;
	return p;
}

/* Decodes a quoted string in place: what is decoded is never longer. Returns what is behind the
 * closing quote, NULL if there is none. */
static char *unquote(char *p)
{
	char *out = p;

	for (; *p && *p != '"'; p++) {
		if (*p == '\\' && p[1]) {
			p++;
			*out++ = *p == 'n' ? '\n' : *p;
		} else {
			*out++ = *p;
		}
	}
	if (!*p)
		return NULL;
	*out = 0;
	return p + 1;
}

/* From behind the brace to behind its end. The name's end is overwritten by a NUL, so it is looked
 * at before. */
static char *read_labels(char *p, struct prom_label *labels, unsigned int *ret_n)
{
	unsigned int n = 0;
	char *end;

	for (p = skip_blanks(p); *p != '}'; p = skip_blanks(p)) {
		if (n == PROM_LABELS_MAX)
			return NULL;
		labels[n].name = p;
		end = name_end(p, false);
		if (!end)
			return NULL;
		p = skip_blanks(end);
		if (*p != '=')
			return NULL;
		*end = 0;
		p = skip_blanks(p + 1);
		if (*p != '"')
			return NULL;
		labels[n++].value = ++p;
		p = unquote(p);
		if (!p)
			return NULL;
		p = skip_blanks(p);
		if (*p == ',')
			p++;
		else if (*p != '}')
			return NULL;
	}
	*ret_n = n;
	return p + 1;
}

/* A number, and behind it blanks or the end. */
static char *read_number(char *p, double *ret)
{
	size_t len = strcspn(p, " \t");
	char *end;

	if (!len || len > NUMBER_MAX)
		return NULL;
	*ret = strtod(p, &end);
	return end == p + len ? skip_blanks(end) : NULL;
}

static bool read_line(struct prom_reader *r, char *p)
{
	struct prom_label labels[PROM_LABELS_MAX];
	struct prom_sample s = {.name = p, .labels = labels};
	char *end = name_end(p, true), ended_by;
	double timestamp;

	if (!end)
		return false;
	ended_by = *end;
	*end = 0;
	if (!r->sink.wants(r->sink.arg, s.name))
		return true;
	*end = ended_by;
	p = skip_blanks(end);
	if (*p == '{') {
		p = read_labels(p + 1, labels, &s.n_labels);
		if (!p)
			return false;
	} else if (p == end) {
		return false;
	}
	p = read_number(skip_blanks(p), &s.value);
	if (!p)
		return false;
	if (*p && *p != '#') /* OpenMetrics: an exemplar */
		p = read_number(p, &timestamp);
	if (!p || (*p && *p != '#'))
		return false;
	*end = 0;
	r->samples++;
	r->sink.sample(r->sink.arg, &s);
	return true;
}

static void line_done(struct prom_reader *r)
{
	size_t len = r->len;
	bool skipped = r->skipping;
	char *p;

	r->len = 0;
	r->skipping = false;
	if (len && r->line[len - 1] == '\r')
		len--;
	r->line[len] = 0;
	p = skip_blanks(r->line);
	if (!skipped && (!len || *p == '#' || p == r->line + len))
		return;
	if (skipped || strlen(r->line) != len || !read_line(r, p))
		r->malformed++;
}

void prom_begin(struct prom_reader *r, const struct prom_sink *sink, uint64_t limit)
{
	r->sink = *sink;
	r->limit = limit;
	r->bytes = r->samples = r->malformed = 0;
	r->cut = r->skipping = false;
	r->len = 0;
}

static void add(struct prom_reader *r, const char *data, size_t n)
{
	if (n > PROM_LINE_MAX - r->len)
		r->skipping = true;
	if (r->skipping)
		return;
	memcpy(r->line + r->len, data, n);
	r->len += n;
}

bool prom_feed(struct prom_reader *r, const char *data, size_t n)
{
	const char *newline;
	size_t len;

	if (n > r->limit - r->bytes) {
		r->cut = true;
		n = r->limit - r->bytes;
	}
	r->bytes += n;
	for (; n; data += len, n -= len) {
		newline = memchr(data, '\n', n);
		len = newline ? (size_t)(newline - data) : n;
		add(r, data, len);
		if (newline) {
			line_done(r);
			len++;
		}
	}
	return !r->cut;
}

void prom_end(struct prom_reader *r)
{
	/* Of a page that was cut off the last line is half a line. */
	if (!r->cut)
		line_done(r);
}

const char *prom_label(const struct prom_sample *s, const char *name)
{
	for (unsigned int i = 0; i < s->n_labels; i++)
		if (!strcmp(s->labels[i].name, name))
			return s->labels[i].value;
	return NULL;
}
