// SPDX-License-Identifier: BSD-2-Clause
/*
 * Request heads: nothing is read behind the bytes, a head cut short is never taken for whole,
 * and the framing of an accepted head equals a plain reading of its lines. With tenancy the same
 * head has the same meaning, but for its hashes, and its tenant is that of a plain reading.
 */
#include <stdlib.h>
#include <strings.h>

#include <kvsteer/request.h>

#define must(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond))                                                                       \
			abort();                                                                   \
	} while (0)

static struct kv_names without, with;

static void parse(struct kv_request *r, const __u8 *data, __u32 len, const struct kv_names *names)
{
	__u8 *copy = malloc(len + !len);
	struct kv_source s = {copy, len};

	memset(r, 0xa5, sizeof(*r));
	memcpy(copy, data, len);
	kv_request_parse(r, &s, names);
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

/* ---- tenancy ------------------------------------------------------------------------- */

/* SipHash-2-4 as its paper has it, of bytes. */
static __u64 turn(__u64 x, int n)
{
	return x << n | x >> (64 - n);
}

static void rounds(__u64 v[4], int n)
{
	while (n--) {
		v[0] += v[1], v[2] += v[3];
		v[1] = turn(v[1], 13) ^ v[0], v[3] = turn(v[3], 16) ^ v[2];
		v[0] = turn(v[0], 32);
		v[2] += v[1], v[0] += v[3];
		v[1] = turn(v[1], 17) ^ v[2], v[3] = turn(v[3], 21) ^ v[0];
		v[2] = turn(v[2], 32);
	}
}

static __u64 siphash(const __u64 key[2], const __u8 *p, size_t len)
{
	__u64 v[4] = {key[0] ^ 0x736f6d6570736575ull, key[1] ^ 0x646f72616e646f6dull,
		      key[0] ^ 0x6c7967656e657261ull, key[1] ^ 0x7465646279746573ull};

	for (size_t i = 0; i <= len; i += 8) {
		__u64 m = i + 8 > len ? (__u64)len << 56 : 0;

		for (size_t k = 0; k < 8 && i + k < len; k++)
			m |= (__u64)p[i + k] << (8 * k);
		v[3] ^= m;
		rounds(v, 2);
		v[0] ^= m;
	}
	v[2] ^= 0xff;
	rounds(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* The tenant's value as a plain reading has it; NULL: none. Sets how often its field is there, and
 * whether Connection names it. */
static const char *read_tenant(char *text, unsigned int *ret_n, bool *ret_named)
{
	const char *tenant = NULL;
	char *line = strstr(text, "\r\n") + 2, *end;

	*ret_n = 0;
	*ret_named = false;
	for (; (end = strstr(line, "\r\n")) != line; line = end + 2) {
		char *value = memchr(line, ':', end - line) + 1;
		size_t name_len = value - 1 - line;

		*end = 0;
		value += strspn(value, " \t");
		for (char *p = end; p > value && (p[-1] == ' ' || p[-1] == '\t');)
			*--p = 0;
		if (name_len == 8 && !strncasecmp(line, "x-tenant", 8)) {
			tenant = value;
			++*ret_n;
		}
		if (name_len == 10 && !strncasecmp(line, "connection", 10))
			for (char *w = strtok(value, ", \t"); w; w = strtok(NULL, ", \t"))
				*ret_named |= !strcasecmp(w, "x-tenant");
	}
	return tenant;
}

static void check_hashes(const struct kv_request *r, const struct kv_request *t, const char *tenant)
{
	__u8 message[KV_TENANT_MAX + 24] = {0};
	__u64 pair[2], n = tenant ? strlen(tenant) : ~0ull;
	size_t len = tenant ? (n + 7) / 8 * 8 : 0;

	memcpy(message, tenant ?: "", tenant ? n : 0);
	memcpy(message + len, &n, 8);
	pair[0] = siphash(with.secret, message, len + 8);
	must(!t->session == !r->session && t->hint_state == r->hint_state);
	pair[1] = r->session;
	if (r->session)
		must(t->session == siphash(with.secret + 2, (__u8 *)pair, 16));
	for (__u32 i = 0; r->hint_state == KV_HINT_OK && i < r->hint.n; i++) {
		pair[1] = r->hint.rungs[i].hash;
		must(t->hint.rungs[i].hash == siphash(with.secret + 2, (__u8 *)pair, 16));
		must(t->hint.rungs[i].depth == r->hint.rungs[i].depth);
	}
}

static void check_tenancy(const struct kv_request *r, const __u8 *data, __u32 size)
{
	static struct kv_request t;
	const char *tenant;
	unsigned int n;
	bool named;
	char *text;

	parse(&t, data, size, &with);
	if (r->lane == KV_LANE_REFUSE) {
		must(t.lane == KV_LANE_REFUSE);
		return;
	}
	if (!r->head_len) {
		must(t.lane == KV_LANE_REFUSE || !t.head_len);
		return;
	}
	text = strndup((const char *)data, r->head_len);
	tenant = read_tenant(text, &n, &named);
	if (n > 1)
		must(t.reason == KV_REASON_tenant_repeated ||
		     (named && t.reason == KV_REASON_tenant_malformed));
	else if (named || (tenant && (!*tenant || strlen(tenant) > KV_TENANT_MAX)))
		must(t.reason == KV_REASON_tenant_malformed);
	else if (t.lane == KV_LANE_REFUSE) /* too much white space */
		must(t.reason == KV_REASON_tenant_malformed && tenant);
	else
		check_hashes(r, &t, tenant);
	if (t.lane != KV_LANE_REFUSE)
		must(t.lane == r->lane && t.reason == r->reason && t.head_len == r->head_len &&
		     t.body_len == r->body_len && t.n_fields == r->n_fields);
	free(text);
}

int LLVMFuzzerTestOneInput(const __u8 *data, size_t size);

int LLVMFuzzerTestOneInput(const __u8 *data, size_t size)
{
	static struct kv_request r, cut;

	if (!with.n) {
		kv_names_default(&without);
		kv_names_default(&with);
		must(!kv_names_set_tenant(&with, "X-Tenant"));
		for (int i = 0; i < 4; i++)
			with.secret[i] = 0x0123456789abcdefull * (2 * i + 1);
	}
	parse(&r, data, size, &without);
	must(!!r.head_len == (r.lane != KV_LANE_REFUSE && r.reason != KV_REASON_head_incomplete) ||
	     r.reason == KV_REASON_host_missing);
	if (r.head_len && r.lane != KV_LANE_REFUSE)
		check_reading(&r, data);
	check_tenancy(&r, data, size);
	/* Cut short at every byte of a small head, at some of a large one. */
	for (size_t n = 0; n < size; n += 1 + size / 64) {
		parse(&cut, data, n, &without);
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
