// SPDX-License-Identifier: BSD-2-Clause
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/head.h"

size_t head_remove(char *text, size_t head_len, const char *name)
{
	size_t name_len = strlen(name), at = 0;

	while (at < head_len) {
		char *end = memchr(text + at, '\n', head_len - at);
		size_t len = end ? (size_t)(end - text) + 1 - at : head_len - at;

		if (len > name_len && text[at + name_len] == ':' &&
		    !strncasecmp(text + at, name, name_len)) {
			memmove(text + at, text + at + len, head_len - at - len);
			head_len -= len;
		} else {
			at += len;
		}
	}
	return head_len;
}

const char *head_value(const char *text, size_t len, const char *name, size_t *ret_len)
{
	size_t name_len = strlen(name);
	const char *end, *last = text + len;

	for (; (end = memchr(text, '\n', last - text)); text = end + 1) {
		if (end - text <= 1) /* the head's end */
			break;
		if ((size_t)(end - text) <= name_len || text[name_len] != ':' ||
		    strncasecmp(text, name, name_len))
			continue;
		text += name_len + 1;
		while (text < end && (*text == ' ' || *text == '\t'))
			text++;
		while (end > text && (end[-1] == '\r' || end[-1] == ' ' || end[-1] == '\t'))
			end--;
		*ret_len = end - text;
		return text;
	}
	*ret_len = 0;
	return NULL;
}

size_t chunked_data(const char *body, size_t len, char *out)
{
	const char *end = body + len;
	size_t n = 0;

	while (body < end) {
		size_t size = strtoull(body, NULL, 16);
		const char *line = memchr(body, '\n', end - body);

		if (!size || !line || size > (size_t)(end - line - 1))
			break;
		memcpy(out + n, line + 1, size);
		n += size;
		body = line + 1 + size;
		/* the CR LF behind the data */
		line = memchr(body, '\n', end - body);
		if (!line)
			break;
		body = line + 1;
	}
	return n;
}
