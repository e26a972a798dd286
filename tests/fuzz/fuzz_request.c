// SPDX-License-Identifier: BSD-2-Clause
/*
 * Request heads: nothing is read behind the bytes, a head cut short is never taken for whole,
 * and the framing of an accepted head equals a plain reading of its lines.
 */
#include <stdlib.h>
#include <strings.h>

#include <kvsteer/request.h>

#define must(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond))                                                                       \
			abort();                                                                   \
	} while (0)

static void parse(struct kv_request *r, const __u8 *data, __u32 len)
{
	static struct kv_names names;
	__u8 *copy = malloc(len + !len);
	struct kv_source s = {copy, len};

	if (!names.n)
		kv_names_default(&names);
	memset(r, 0xa5, sizeof(*r));
	memcpy(copy, data, len);
	kv_request_parse(r, &s, &names);
	free(copy);
	must(r->head_len <= len);
	must(!!kv_reason_info(r->reason)->status == (r->lane == KV_LANE_REFUSE));
}

/* Line by line, as somebody behind us might read it. */
struct reading {
	unsigned int lengths, codings, hosts, fields;
	unsigned long long length;
	bool close;
};

static void read_field(struct reading *reading, char *line)
{
	char *value = strchr(line, ':'), *end;

	must(value && value > line);
	*value++ = 0;
	must(!strpbrk(line, " \t\r\n"));
	value += strspn(value, " \t");
	end = value + strlen(value);
	while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
		*--end = 0;
	reading->fields++;
	if (!strcasecmp(line, "host"))
		reading->hosts++;
	if (!strcasecmp(line, "transfer-encoding")) {
		reading->codings++;
		must(!strcasecmp(value, "chunked"));
	}
	if (!strcasecmp(line, "content-length")) {
		reading->lengths++;
		must(*value && strspn(value, "0123456789") == strlen(value));
		reading->length = strtoull(value, NULL, 10);
	}
	/* A word behind another one without a comma is no list; "close" is taken at its word. */
	if (!strcasecmp(line, "connection"))
		for (char *word = strtok(value, ", \t"); word; word = strtok(NULL, ", \t"))
			if (!strcasecmp(word, "close"))
				reading->close = true;
}

static void check_reading(const struct kv_request *r, const __u8 *data)
{
	char *text = strndup((const char *)data, r->head_len), *line = text, *end;
	struct reading reading = {0};

	must(strlen(text) == r->head_len);
	must(strspn(strchr(text, ' '), " ") == 1);
	end = strstr(text, "\r\n");
	must(end && !strncmp(end - 9, r->minor ? " HTTP/1.1" : " HTTP/1.0", 9));
	for (line = end + 2; (end = strstr(line, "\r\n")) != line; line = end + 2) {
		*end = 0;
		must(!strpbrk(line, "\r\n"));
		read_field(&reading, line);
	}
	must(line + 2 == text + r->head_len);
	must(reading.fields == r->n_fields);
	must(reading.hosts == 1 || !r->minor);
	must(reading.lengths == r->has_body_len && reading.codings == r->chunked);
	must(reading.lengths + reading.codings <= 1);
	must(reading.length == r->body_len);
	must(reading.close == r->close);
	free(text);
}

int LLVMFuzzerTestOneInput(const __u8 *data, size_t size);

int LLVMFuzzerTestOneInput(const __u8 *data, size_t size)
{
	static struct kv_request r, cut;

	parse(&r, data, size);
	must(!!r.head_len == (r.lane != KV_LANE_REFUSE && r.reason != KV_REASON_head_incomplete) ||
	     r.reason == KV_REASON_host_missing);
	if (r.head_len && r.lane != KV_LANE_REFUSE)
		check_reading(&r, data);
	/* Cut short at every byte of a small head, at some of a large one. */
	for (size_t n = 0; n < size; n += 1 + size / 64) {
		parse(&cut, data, n);
		if (r.head_len && n >= r.head_len)
			must(cut.lane == r.lane && cut.reason == r.reason &&
			     cut.head_len == r.head_len && cut.session == r.session);
		else if (cut.lane == KV_LANE_REFUSE)
			must(r.lane == KV_LANE_REFUSE && r.reason == cut.reason);
		else
			must(cut.reason == KV_REASON_head_incomplete && !cut.head_len);
	}
	return 0;
}
