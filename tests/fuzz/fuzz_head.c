// SPDX-License-Identifier: BSD-2-Clause
/*
 * What the agent does with the bytes of a request that the parsers have accepted: fields taken out
 * of a head, and the data of a chunked body. The first byte chooses; the rest is a request. Only
 * what was accepted comes here, so only that is tried.
 */
#include <stdlib.h>
#include <strings.h>

#include <kvsteer/framing.h>
#include <kvsteer/request.h>

#include "agent/head.c"

#define must(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond))                                                                       \
			abort();                                                                   \
	} while (0)

static struct kv_request r;

static int parse(const char *data, size_t len)
{
	struct kv_source s = {(const __u8 *)data, len};
	static struct kv_names names;

	kv_names_default(&names);
	return kv_request_parse(&r, &s, &names);
}

/* How many lines of the head begin with this name and a colon. */
static unsigned int lines(const char *text, size_t len, const char *name)
{
	size_t n = strlen(name);
	unsigned int found = 0;

	for (size_t at = 0; at < len;) {
		const char *end = memchr(text + at, '\n', len - at);

		if (len - at > n && text[at + n] == ':' && !strncasecmp(text + at, name, n))
			found++;
		at = end ? (size_t)(end - text) + 1 : len;
	}
	return found;
}

/* The field is gone, no other is, and the request is the same one but for it. */
static void remove_field(const char *data, size_t len, const char *name)
{
	char *copy = malloc(len);
	struct kv_request before = r;
	unsigned int n = lines(data, r.head_len, name);
	size_t left;

	memcpy(copy, data, len);
	must(!head_value(copy, r.head_len, name, &left) == !n && left < len);
	left = head_remove(copy, r.head_len, name);
	must(left <= r.head_len && !lines(copy, left, name));
	must(parse(copy, left) != KV_LANE_REFUSE && r.head_len == left);
	must(r.n_fields == before.n_fields - n);
	must(r.chunked == before.chunked && r.body_len == before.body_len &&
	     r.session == before.session && r.hint_state == before.hint_state);
	free(copy);
	r = before;
}

/* A plain reading of the same chunks. */
static size_t plain(const char *p, const char *end, char *out)
{
	size_t n = 0, size;

	while (p < end && (size = strtoul(p, NULL, 16))) {
		p = strstr(p, "\r\n") + 2;
		memcpy(out + n, p, size);
		n += size;
		p += size + 2;
	}
	return n;
}

static void chunks(const char *body, size_t len)
{
	static const char head[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
	struct kv_source h = {(const __u8 *)head, sizeof(head) - 1};
	struct kv_source s = {(const __u8 *)body, len};
	struct kv_framing f;
	char *exact, *a, *b;
	size_t n;

	kv_framing_init(&f, false);
	kv_framing_run(&f, &h, 0, h.len);
	len = kv_framing_run(&f, &s, 0, s.len);
	if (!kv_framing_done(&f) || kv_framing_broken(&f))
		return;
	/* As in the agent: the decoder's room is the body's own size; what follows is not ours. */
	exact = malloc(len + 1);
	memcpy(exact, body, len);
	exact[len] = 0;
	a = malloc(len);
	b = malloc(len);
	n = chunked_data(exact, len, a);
	must(n < len && n == plain(exact, exact + len, b) && !memcmp(a, b, n));
	free(a);
	free(b);
	free(exact);
}

int LLVMFuzzerTestOneInput(const __u8 *bytes, size_t size);

int LLVMFuzzerTestOneInput(const __u8 *bytes, size_t size)
{
	static const char *const names[] = {"Expect", "Upgrade", "HTTP2-Settings", "Connection"};
	const char *data = (const char *)bytes + 1;

	if (!size--)
		return 0;
	if (parse(data, size) == KV_LANE_REFUSE || !r.head_len)
		return 0;
	remove_field(data, size, names[bytes[0] % 4]);
	if (r.chunked)
		chunks(data + r.head_len, size - r.head_len);
	return 0;
}
