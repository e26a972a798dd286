// SPDX-License-Identifier: BSD-2-Clause
/* The parsers as the host compiles them: request heads, and response framing in segments. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kvsteer/framing.h>
#include <kvsteer/request.h>

#include "common/cleanup.h"
#include "micro.h"

#define RUNGS 25
#define SEGMENT 1448
#define EVENT_BYTES 200
#define STREAM_BYTES (1 << 20)

static size_t make_head(char *out, size_t size)
{
	size_t at = snprintf(out, size,
			     "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway:8000\r\n"
			     "Accept: application/json\r\nContent-Type: application/json\r\n"
			     "Authorization: Bearer sk-0123456789abcdef0123456789abcdef\r\n"
			     "User-Agent: OpenAI/Python 1.50.0\r\nContent-Length: 220000\r\n"
			     "KV-Prefix: 1;55000");

	for (int i = 0; i < RUNGS; i++)
		at += snprintf(out + at, size - at, ",%d:%016llx", 2200 * (i + 1),
			       (i + 1) * 0x9e3779b97f4a7c15ull);
	return at + snprintf(out + at, size - at, "\r\n\r\n");
}

static int parse_request(struct micro *m)
{
	static struct kv_request request;
	static struct kv_names names;
	double from = micro_now(), now;
	struct kv_source source;
	uint64_t runs = 0;
	char head[2048];

	source.len = make_head(head, sizeof(head));
	source.data = (const __u8 *)head;
	do {
		for (int i = 0; i < 1000; i++, runs++)
			if (kv_request_parse(&request, &source, &names) != KV_LANE_EXPRESS ||
			    request.hint_state != KV_HINT_OK)
				return -EPROTO;
		now = micro_now();
	} while (now - from < m->seconds);
	micro_add(m, "parse_request_ns", (now - from) / runs * 1e9);
	micro_add(m, "parse_request_gb_s", runs * source.len / (now - from) / 1e9);
	return 0;
}

/* A chunk for every event, as uvicorn sends them. */
static size_t make_stream(char *out)
{
	size_t at = sprintf(out, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");

	while (at < STREAM_BYTES) {
		at += sprintf(out + at, "%x\r\n", EVENT_BYTES);
		memset(out + at, 'x', EVENT_BYTES);
		at += EVENT_BYTES;
		at += sprintf(out + at, "\r\n");
	}
	return at + sprintf(out + at, "0\r\n\r\n");
}

static int parse_response(struct micro *m)
{
	_cleanup_free_ char *stream = malloc(STREAM_BYTES + 2 * EVENT_BYTES);
	double from = micro_now(), now;
	struct kv_framing framing;
	struct kv_source source;
	uint64_t bytes = 0;
	size_t len, n;

	if (!stream)
		return -ENOMEM;
	len = make_stream(stream);
	source.data = (const __u8 *)stream;
	source.len = len;
	do {
		kv_framing_init(&framing, false);
		for (size_t at = 0; at < len; at += n) {
			n = len - at < SEGMENT ? len - at : SEGMENT;
			if (kv_framing_run(&framing, &source, at, n) != n)
				return -EPROTO;
		}
		if (!kv_framing_done(&framing))
			return -EPROTO;
		bytes += len;
		now = micro_now();
	} while (now - from < m->seconds);
	micro_add(m, "parse_stream_gb_s", bytes / (now - from) / 1e9);
	return 0;
}

int micro_parse(struct micro *m)
{
	int err = parse_request(m);

	return err ? err : parse_response(m);
}
