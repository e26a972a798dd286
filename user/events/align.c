// SPDX-License-Identifier: BSD-2-Clause
#include "events/align.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/text.h"

#define MARKS 0xf5    /* bytes from here on are marks */
#define BEGINNING 32  /* bytes of a text that are looked for first … */
#define BEGINNINGS 16 /* … so often: a text may repeat itself */

struct bytes {
	char *p;
	size_t n, size;
};

/* ---- what a token stands for --------------------------------------------------------- */

/* Two ways are common. Byte-level vocabularies (GPT-2's way) have a character for each byte: those
 * that can be printed as they are, the others from U+0100 on. SentencePiece's have U+2581 for a
 * blank, and <0xE4> for a byte that is in no word. */
static int byte_of(uint32_t c)
{
	if ((c >= 0x21 && c <= 0x7e) || (c >= 0xa1 && c <= 0xac) || (c >= 0xae && c <= 0xff))
		return c;
	if (c >= 0x100 && c <= 0x120)
		return c - 0x100;
	if (c >= 0x121 && c <= 0x142)
		return c - 0x121 + 0x7f;
	return c == 0x143 ? 0xad : -1;
}

/* One character of UTF-8; a byte that is none stands for itself. */
static size_t character(const char *p, size_t n, uint32_t *ret)
{
	const unsigned char *b = (const unsigned char *)p;

	*ret = b[0];
	if (b[0] >= 0xc2 && b[0] < 0xe0 && n > 1 && (b[1] & 0xc0) == 0x80) {
		*ret = (b[0] & 0x1f) << 6 | (b[1] & 0x3f);
		return 2;
	}
	if ((b[0] & 0xf0) == 0xe0 && n > 2 && (b[1] & 0xc0) == 0x80 && (b[2] & 0xc0) == 0x80) {
		*ret = (b[0] & 0xf) << 12 | (b[1] & 0x3f) << 6 | (b[2] & 0x3f);
		return 3;
	}
	return 1;
}

static size_t byte_level(const struct kv_align_token *t, char *out)
{
	size_t n = 0, step;
	uint32_t c;

	for (size_t i = 0; i < t->len; i += step) {
		step = character(t->text + i, t->len - i, &c);
		if (byte_of(c) >= 0) {
			out[n++] = byte_of(c);
		} else {
			memcpy(out + n, t->text + i, step);
			n += step;
		}
	}
	return n;
}

static int hex(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static size_t sentence_piece(const struct kv_align_token *t, char *out)
{
	size_t n = 0;

	if (t->len == 6 && !memcmp(t->text, "<0x", 3) && hex(t->text[3]) >= 0 &&
	    hex(t->text[4]) >= 0 && t->text[5] == '>') {
		*out = hex(t->text[3]) << 4 | hex(t->text[4]);
		return 1;
	}
	for (size_t i = 0; i < t->len; i++) {
		if (t->len - i >= 3 && !memcmp(t->text + i, "\xe2\x96\x81", 3)) {
			out[n++] = ' ';
			i += 2;
		} else {
			out[n++] = t->text[i];
		}
	}
	return n;
}

static bool is_sentence_piece(const struct kv_align_token *tokens, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = 0; k + 2 < tokens[i].len; k++)
			if (!memcmp(tokens[i].text + k, "\xe2\x96\x81", 3))
				return true;
	return false;
}

/* No token stands for more bytes than its string has. */
static int put_together(struct kv_align *a, const struct kv_align_token *tokens, uint32_t n,
			struct bytes *ret)
{
	bool pieces = is_sentence_piece(tokens, n);
	size_t size = 1;

	for (uint32_t i = 0; i < n; i++)
		size += tokens[i].len;
	if (size > UINT32_MAX)
		return -E2BIG;
	ret->p = malloc(size);
	a->ends = malloc((n + 1ul) * sizeof(*a->ends));
	if (!ret->p || !a->ends)
		return -ENOMEM;
	a->n_tokens = n;
	for (uint32_t i = 0; i < n; i++) {
		ret->n += pieces ? sentence_piece(&tokens[i], ret->p + ret->n)
				 : byte_level(&tokens[i], ret->p + ret->n);
		a->ends[i] = ret->n;
	}
	return 0;
}

/* ---- finding the texts --------------------------------------------------------------- */

static bool blank(char c)
{
	return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static int add_part(struct kv_align *a, struct kv_align_part part)
{
	struct kv_align_part *parts;

	if (!(a->n_parts & (a->n_parts - 1))) {
		parts = reallocarray(a->parts, a->n_parts ? 2 * a->n_parts : 1, sizeof(*parts));
		if (!parts)
			return -ENOMEM;
		a->parts = parts;
	}
	a->parts[a->n_parts++] = part;
	return 0;
}

/* As memmem, which for long needles first looks at all of the needle: here it is mostly where its
 * beginning is found first. */
static const char *search(const char *p, size_t n, const char *what, size_t len)
{
	const char *end = p + n;

	for (int i = 0; i < BEGINNINGS && len > BEGINNING; i++) {
		const char *found = memmem(p, end - p, what, BEGINNING);

		if (!found || (size_t)(end - found) < len)
			return NULL;
		if (!memcmp(found, what, len))
			return found;
		p = found + 1;
	}
	return memmem(p, end - p, what, len);
}

/* The text from … to, behind *at of the tokens' text. 1: found; *at moves on. */
static int find(struct kv_align *a, const char *canonical, size_t from, size_t to,
		const struct bytes *text, size_t *at)
{
	const char *found;
	int err;

	/* Templates trim. */
	while (from < to && blank(canonical[from]))
		from++;
	while (to > from && blank(canonical[to - 1]))
		to--;
	if (from == to)
		return 1;
	found = search(text->p + *at, text->n - *at, canonical + from, to - from);
	if (!found)
		return 0;
	*at = found - text->p;
	err = add_part(a, (struct kv_align_part){from, to, *at});
	*at += to - from;
	return err ? err : 1;
}

int kv_align_init(struct kv_align *a, const char *canonical, size_t len,
		  const struct kv_align_token *tokens, uint32_t n)
{
	struct bytes text = {};
	size_t at = 0, end;
	int ret;

	memset(a, 0, sizeof(*a));
	ret = put_together(a, tokens, n, &text);
	for (size_t i = 0; !ret && i < len; i = end) {
		for (end = i + 1; end < len && (unsigned char)canonical[end] < MARKS; end++)
			;
		if ((unsigned char)canonical[i] == KV_MARK_TEXT) {
			ret = find(a, canonical, i + 1, end, &text, &at);
			if (ret <= 0)
				break;
			ret = 0;
		}
		a->known = end;
	}
	free(text.p);
	return ret;
}

void kv_align_exit(struct kv_align *a)
{
	free(a->ends);
	free(a->parts);
}

uint32_t kv_align_tokens(const struct kv_align *a, size_t bytes)
{
	size_t low = 0, high = a->n_parts, at = 0;
	uint32_t first = 0, last = a->n_tokens;

	if (bytes > a->known)
		return KV_ALIGN_UNKNOWN;
	/* the last part that begins before */
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (a->parts[middle].from < bytes)
			low = middle + 1;
		else
			high = middle;
	}
	if (low) {
		const struct kv_align_part *part = &a->parts[low - 1];

		if (bytes > part->to + KV_ALIGN_GAP)
			return KV_ALIGN_UNKNOWN;
		at = part->at + (bytes < part->to ? bytes : part->to) - part->from;
	}
	while (first < last) {
		uint32_t middle = first + (last - first) / 2;

		if (a->ends[middle] <= at)
			first = middle + 1;
		else
			last = middle;
	}
	return first;
}
