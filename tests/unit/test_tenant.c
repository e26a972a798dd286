// SPDX-License-Identifier: BSD-2-Clause
/* Tenancy: which header names the tenant, and that nothing of one is anything of another. */
#include <stdio.h>
#include <stdlib.h>

#include <kvsteer/request.h>

#include "check.h"

#define GET "GET / HTTP/1.1\r\nHost: a\r\n"
#define HASH1 0x0123456789abcdefull
#define HASH2 0xfedcba9876543210ull
#define HINT "KV-Prefix: 1;300,100:0123456789abcdef,200:FEDCBA9876543210\r\n"

static struct kv_names names;

static void tenancy(__u64 secret)
{
	kv_names_default(&names);
	CHECK_EQ(kv_names_set_tenant(&names, "X-Tenant"), 0);
	for (int i = 0; i < 4; i++)
		names.secret[i] = secret * (2 * i + 3);
}

/* The request of this head, in memory of its own size. */
static struct kv_request *parse_bytes(const char *text, __u32 len)
{
	static struct kv_request r;
	__u8 *copy = malloc(len + !len);
	struct kv_source s = {copy, len};

	memcpy(copy, text, len);
	memset(&r, 0xa5, sizeof(r));
	kv_request_parse(&r, &s, &names);
	free(copy);
	return &r;
}

static struct kv_request *parse(const char *fields)
{
	char text[4096];
	int len = snprintf(text, sizeof(text), GET "%s\r\n", fields);

	return parse_bytes(text, len);
}

/* The session of a request with these fields and one session header. */
static __u64 session_of(const char *fields)
{
	char text[4096];

	snprintf(text, sizeof(text), "%sX-Session-Id: s\r\n", fields);
	CHECK_EQ(parse(text)->lane, KV_LANE_EXPRESS);
	return parse(text)->session;
}

/* A head with a tenant of n bytes, and behind them white space. */
static struct kv_request *parse_long(__u32 n, __u32 spaces)
{
	char fields[2048];
	int at = sprintf(fields, "X-Tenant: ");

	memset(fields + at, 'a', n);
	memset(fields + at + n, ' ', spaces);
	strcpy(fields + at + n + spaces, "\r\n");
	return parse(fields);
}

int main(void)
{
	TEST("SipHash-2-4: the authors' vectors")
	{
		const __u64 key[2] = {0x0706050403020100ull, 0x0f0e0d0c0b0a0908ull};
		struct kv_sip s;

		kv_sip_init(&s, key);
		CHECK_EQ(kv_sip_end(&s, 0), 0x726fdb47dd0e0e31ull);
		kv_sip_word(&s, key[0]);
		CHECK_EQ(kv_sip_end(&s, 8), 0x93f5f5799a932462ull);
		kv_sip_word(&s, key[1]);
		CHECK_EQ(kv_sip_end(&s, 16), 0x3f2acc7f57c29bdbull);
	}

	TEST("no tenancy: hashes are what they were")
	{
		struct kv_request *r;

		kv_names_default(&names);
		r = parse("X-Tenant: a\r\n" HINT "X-Session-Id: s\r\n");
		CHECK_EQ(r->lane, KV_LANE_EXPRESS);
		CHECK_EQ(r->hint.rungs[0].hash, HASH1);
		CHECK_EQ(r->hint.rungs[1].hash, HASH2);
		CHECK_EQ(r->session, kv_session_hash("s", 1));
		CHECK_EQ(parse("X-Tenant: a\r\nX-Tenant: b\r\n")->lane, KV_LANE_EXPRESS);
		CHECK_EQ(parse("Connection: X-Tenant\r\n")->lane, KV_LANE_EXPRESS);
	}

	TEST("tenancy: every hash is the tenant's own, whoever else has the same")
	{
		static const char *const tenants[] = {
			"",
			"X-Tenant: a\r\n",
			"X-Tenant: b\r\n",
			"X-Tenant: A\r\n",
			"X-Tenant: aa\r\n",
			"X-Tenant: aaaaaaaa\r\n",
			"X-Tenant: aaaaaaaaa\r\n",
			"X-Tenant: aaaaaaaaaaaaaaaa\r\n",
			"X-Tenant: a a\r\n",
			"X-Tenant: a\ta\r\n",
			"X-Tenant: a,b\r\n",
			"X-Tenant: \xff\xff\xff\xff\xff\xff\xff\xff\r\n",
		};
		enum { N = sizeof(tenants) / sizeof(tenants[0]) };
		__u64 seen[3 * N];
		char fields[512];
		int n = 0;

		tenancy(0x1234567);
		for (int i = 0; i < N; i++) {
			struct kv_request *r;

			snprintf(fields, sizeof(fields), "%s" HINT "X-Session-Id: s\r\n",
				 tenants[i]);
			r = parse(fields);
			CHECK_EQ(r->lane, KV_LANE_EXPRESS);
			CHECK_EQ(r->hint_state, KV_HINT_OK);
			CHECK_EQ(r->hint.n, 2);
			CHECK_EQ(r->hint.rungs[0].depth, 100);
			seen[n++] = r->hint.rungs[0].hash;
			seen[n++] = r->hint.rungs[1].hash;
			seen[n++] = r->session;
			/* what the agent makes of a body's hash, and the CLI of a name */
			CHECK_EQ(kv_tenant_mix(&r->tenant, HASH1), r->hint.rungs[0].hash);
			CHECK_EQ(kv_tenant_mix(&r->tenant, kv_session_hash("s", 1)), r->session);
		}
		for (int i = 0; i < n; i++) {
			CHECK(seen[i] != HASH1 && seen[i] != HASH2 && seen[i]);
			for (int j = 0; j < i; j++)
				CHECK(seen[i] != seen[j]);
		}
	}

	TEST("tenancy: the same tenant, however it is written")
	{
		__u64 a;

		tenancy(77);
		a = session_of("X-Tenant: team one\r\n");
		CHECK_EQ(session_of("x-tenant:team one\r\n"), a);
		CHECK_EQ(session_of("X-TENANT: \t team one \t \r\n"), a);
		CHECK_EQ(session_of("Accept: x\r\nX-Tenant: team one\r\n"), a);
		CHECK_EQ(parse("X-Session-Id: s\r\nX-Tenant: team one\r\n")->session, a);
	}

	TEST("tenancy: names that are not the header's")
	{
		__u64 none;

		tenancy(77);
		none = session_of("");
		CHECK_EQ(session_of("X_Tenant: a\r\n"), none);
		CHECK_EQ(session_of("X-Tenan: a\r\n"), none);
		CHECK_EQ(session_of("X-Tenants: a\r\n"), none);
		CHECK_EQ(session_of("XX-Tenant: a\r\n"), none);
		CHECK_EQ(session_of("Y: X-Tenant: a\r\n"), none);
		CHECK_EQ(session_of("abcdefghijklmnopqrstuvwxyz012345X-Tenant: a\r\n"), none);
		CHECK_EQ(parse("X-Tenant : a\r\n")->reason, KV_REASON_bad_field_name);
		CHECK_EQ(parse("Y: b\r\n X-Tenant: a\r\n")->reason, KV_REASON_line_folded);
		CHECK_EQ(parse("X-Tenant: a\r\n b\r\n")->reason, KV_REASON_line_folded);
		CHECK_EQ(parse("Y: b\nX-Tenant: a\r\n")->reason, KV_REASON_bare_lf);
		/* behind the head it is a body's or a further request's */
		CHECK_EQ(parse("X-Session-Id: s\r\n\r\nX-Tenant: a\r\n")->session, none);
	}

	TEST("tenancy: two headers, none in one, one that Connection takes out")
	{
		static const char *const malformed[] = {
			"X-Tenant:\r\n",
			"X-Tenant: \t \r\n",
			"Connection: X-Tenant\r\nX-Tenant: a\r\n",
			"X-Tenant: a\r\nConnection: close, x-tenant\r\n",
			"X-Tenant: a\r\nConnection:,,X-TENANT ,keep-alive\r\n",
			"Connection: X-Tenant\r\n",
		};

		tenancy(77);
		for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
			CHECK_EQ(parse(malformed[i])->lane, KV_LANE_REFUSE);
			CHECK_EQ(parse(malformed[i])->reason, KV_REASON_tenant_malformed);
		}
		CHECK_EQ(parse("X-Tenant: a\r\nx-tenant: a\r\n")->reason,
			 KV_REASON_tenant_repeated);
		CHECK_EQ(parse("X-Tenant:\r\nX-Tenant: a\r\n")->reason, KV_REASON_tenant_repeated);
		CHECK_EQ(kv_reason_info(KV_REASON_tenant_repeated)->status, 400);
		CHECK_EQ(kv_reason_info(KV_REASON_tenant_malformed)->status, 400);
		CHECK_EQ(parse("Connection: X-Tenants, a;X-Tenant, \"X-Tenant\"\r\n")->lane,
			 KV_LANE_EXPRESS);
	}

	TEST("tenancy: lengths of the value")
	{
		__u64 seen[KV_TENANT_MAX + 1];

		tenancy(77);
		for (__u32 n = 1; n <= KV_TENANT_MAX; n++) {
			struct kv_request *r = parse_long(n, 0);

			CHECK_EQ(r->lane, KV_LANE_EXPRESS);
			seen[n] = kv_tenant_mix(&r->tenant, 1);
			for (__u32 i = 1; i < n; i++)
				CHECK(seen[i] != seen[n]);
			/* white space fits into the same load, or the value is refused */
			r = parse_long(n, KV_LOAD_MAX - n);
			CHECK_EQ(r->lane, KV_LANE_EXPRESS);
			CHECK_EQ(kv_tenant_mix(&r->tenant, 1), seen[n]);
			CHECK_EQ(parse_long(n, KV_LOAD_MAX - n + 1)->reason,
				 KV_REASON_tenant_malformed);
		}
		CHECK_EQ(parse_long(KV_TENANT_MAX + 1, 0)->reason, KV_REASON_tenant_malformed);
		CHECK_EQ(parse_long(900, 0)->reason, KV_REASON_tenant_malformed);
	}

	TEST("tenancy: another gateway, other hashes")
	{
		__u64 here, there;

		tenancy(77);
		here = session_of("X-Tenant: a\r\n");
		tenancy(78);
		there = session_of("X-Tenant: a\r\n");
		CHECK(here != there);
		/* either half of the secret alone changes them */
		tenancy(77);
		names.secret[0] ^= 1;
		CHECK(session_of("X-Tenant: a\r\n") != here);
		tenancy(77);
		names.secret[3] ^= 1ull << 63;
		CHECK(session_of("X-Tenant: a\r\n") != here);
	}

	TEST("tenancy: a head cut short is not whole")
	{
		static const char head[] = GET "X-Tenant: team one\r\n" HINT "\r\n";
		__u64 hash;

		tenancy(77);
		hash = parse_bytes(head, sizeof(head) - 1)->hint.rungs[1].hash;
		for (__u32 n = 0; n < sizeof(head) - 1; n++) {
			CHECK_EQ(parse_bytes(head, n)->head_len, 0);
			CHECK_EQ(parse_bytes(head, n)->lane, KV_LANE_AGENT);
		}
		CHECK_EQ(parse_bytes(head, sizeof(head) - 1)->hint.rungs[1].hash, hash);
	}

	TEST("tenancy: which names can be its header's")
	{
		kv_names_default(&names);
		CHECK_EQ(kv_names_set_tenant(&names, ""), -EINVAL);
		CHECK_EQ(kv_names_set_tenant(&names, "a b"), -EINVAL);
		CHECK_EQ(kv_names_set_tenant(&names, "abcdefghijklmnopqrstuvwxyz012345"), -EINVAL);
		CHECK_EQ(kv_names_set_tenant(&names, "Host"), -EPERM);
		CHECK_EQ(kv_names_set_tenant(&names, "X-Session-ID"), -EPERM);
		CHECK_EQ(names.tenant[0], 0);
		CHECK_EQ(kv_names_set_tenant(&names, "abcdefghijklmnopqrstuvwxyz01234"), 0);
		CHECK(kv_tenancy(&names));
	}

	return check_done();
}
