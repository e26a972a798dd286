// SPDX-License-Identifier: BSD-2-Clause
/* Request heads and hints: the host's build against the kernel's. */
#include "diff_world.h"

/* Tenancy, or no more. */
static void set_tenancy(bool on)
{
	kv_names_default(bpf.names);
	if (!on)
		return;
	NEED(!kv_names_set_tenant(bpf.names, "X-Tenant"));
	for (int i = 0; i < 4; i++)
		bpf.names->secret[i] = (__u64)chance(~0u) << 32 | chance(~0u);
}

static void same_hint(const struct kv_hint *a, const struct kv_hint *b)
{
	CHECK_EQ(a->total, b->total);
	CHECK_EQ(a->n, b->n);
	for (__u32 i = 0; i < b->n && i < KV_MAX_RUNGS; i++) {
		CHECK_EQ(a->rungs[i].depth, b->rungs[i].depth);
		CHECK_EQ(a->rungs[i].hash, b->rungs[i].hash);
	}
}

static int one_request(const struct text *t)
{
	static struct kv_request r;
	struct kv_source s = {.data = (const __u8 *)t->data, .len = t->len};
	unsigned int bad = check_state.bad;
	const struct kv_request *k = bpf.request;

	memset(&r, 0xa5, sizeof(r));
	memset(bpf.request, 0x5a, sizeof(*bpf.request));
	CHECK_EQ(run(bpf.skel->progs.run_request, t->data, t->len),
		 kv_request_parse(&r, &s, bpf.names));
#define SAME(field) CHECK_EQ(k->field, r.field)
	SAME(lane);
	SAME(reason);
	SAME(minor);
	SAME(hint_state);
	SAME(is_head);
	SAME(is_post);
	SAME(completion);
	SAME(has_body_len);
	SAME(chunked);
	SAME(expect_continue);
	SAME(close);
	SAME(keep_alive);
	SAME(upgrade);
	SAME(state);
	SAME(field);
	SAME(odd);
	SAME(is_options);
	SAME(method_known);
	SAME(has_host);
	SAME(has_session);
	SAME(head_len);
	SAME(n_fields);
	SAME(body_len);
	SAME(session);
	SAME(target_off);
	SAME(target_len);
	SAME(has_tenant);
	SAME(tenant_off);
	SAME(tenant_len);
#undef SAME
	CHECK_MEM(k, &r, offsetof(struct kv_request, hint));
	if (r.hint_state == KV_HINT_OK && r.head_len && r.lane != KV_LANE_REFUSE)
		same_hint(&k->hint, &r.hint);
	if (check_state.bad != bad)
		show(t->data, t->len);
	return r.lane;
}

static void any_request(struct text *t)
{
	static const char *const lines[] = {
		"GET / HTTP/1.1\r\n",	       "POST /v1/completions HTTP/1.1\r\n",
		"HEAD /x?y HTTP/1.1\r\n",      "POST /v1/chat/completions?a HTTP/1.1\r\n",
		"OPTIONS * HTTP/1.1\r\n",      "PUT http://a/b HTTP/1.1\r\n",
		"POST /generate HTTP/1.0\r\n", "BREW /pot HTTP/1.1\r\n",
	};
	static const char *const fields[] = {
		"Host: a\r\n",
		"host:b\r\n",
		"Content-Length: 12\r\n",
		"Content-Length: 9999999999999999999\r\n",
		"content-length:\t7 \r\n",
		"Transfer-Encoding: chunked\r\n",
		"transfer-encoding: gzip, chunked\r\n",
		"Connection: close\r\n",
		"Connection: keep-alive, TE , close,x\r\n",
		"Expect: 100-continue\r\n",
		"Upgrade: h2c\r\n",
		"X-Session-Id: conversation 17\r\n",
		"session_id: \t x\r\n",
		"KV-Prefix: 1;300,100:0123456789abcdef,200:FEDCBA9876543210\r\n",
		"kv-prefix:1;4294967295,1:ffffffffffffffff\t \r\n",
		"KV-Prefix: 2;1,1:0\r\n",
		"X: \xc3\xa9 and more of it\r\n",
		"A-name-of-more-than-thirty-two-bytes-indeed: a\r\n",
		" folded\r\n",
		"X-Tenant: a\r\n",
		"x-tenant:\tteam one of many \t\r\n",
		"Connection: x-tenant\r\n",
		"Accept: a, b;q=0.5, c; a long one to fill more than one unit of sixty-four "
		"bytes\r\n",
		"User-Agent: x\n",
	};

	t->len = 0;
	text_say(t, ONE_OF(lines));
	text_say(t, chance(8) ? fields[0] : "");
	for (__u32 n = chance(chance(20) ? 8 : 70); n; n--)
		text_say(t, ONE_OF(fields));
	text_say(t, "\r\n");
	text_say(t, chance(2) ? "{\"prompt\":\"x\"}" : "");
}

static void request_cases(void)
{
	static struct texts seeds;
	static struct text t;
	__u32 lanes[3] = {0};

	case_files(&seeds, "request", 0);
	for (__u32 i = 0; i < 4000; i++) {
		if (i < seeds.n || !chance(3))
			t = seeds.text[i < seeds.n ? i : chance(seeds.n)];
		else
			any_request(&t);
		for (__u32 n = i < seeds.n ? 0 : chance(4); n; n--)
			text_mutate(&t);
		lanes[one_request(&t) % 3]++;
	}
	/* the inputs are of every kind */
	CHECK(lanes[KV_LANE_EXPRESS] > 200 && lanes[KV_LANE_AGENT] > 200 &&
	      lanes[KV_LANE_REFUSE] > 200);
}

/* Values of every length and white space, with sessions and hints. */
static void tenant_cases(void)
{
	__u32 lanes[3] = {0}, mixed = 0;
	static struct text t;

	for (__u32 i = 0; i < 3000; i++) {
		__u32 n = chance(3) ? chance(40) : chance(300);

		set_tenancy(true);
		t.len = 0;
		text_say(&t, "POST /v1/completions HTTP/1.1\r\nHost: a\r\n");
		if (chance(2))
			text_say(&t, "X-Session-Id: s\r\n");
		text_say(&t, "X-TENANT:");
		for (__u32 k = 0; k < n; k++)
			text_say(&t, chance(5) ? "x" : chance(9) ? " " : "\xff");
		for (__u32 k = chance(4) ? 0 : chance(300); k; k--)
			text_say(&t, chance(2) ? " " : "\t");
		text_say(&t, chance(50) ? "\r\n" : "\r\nX-Tenant: b\r\n");
		if (chance(2))
			text_say(&t, "KV-Prefix: 1;300,100:0123456789abcdef,200:FEDCBA9876543210"
				     "\r\n");
		text_say(&t, "\r\n");
		lanes[one_request(&t) % 3]++;
		mixed += bpf.request->hint_state == KV_HINT_OK &&
			 bpf.request->lane != KV_LANE_REFUSE && bpf.request->session;
	}
	CHECK(lanes[KV_LANE_EXPRESS] > 500 && lanes[KV_LANE_REFUSE] > 200 && mixed > 200);
	set_tenancy(true);
	request_cases();
	set_tenancy(false);
}

static void request_prefixes(void)
{
	static struct texts seeds;
	static struct text t;

	case_files(&seeds, "request", 0);
	for (__u32 i = 0; i < seeds.n; i++)
		for (__u32 len = 0; len < seeds.text[i].len; len++) {
			t = seeds.text[i];
			t.len = len;
			one_request(&t);
		}
}

static int one_hint(const struct text *t)
{
	static struct diff_hint h;
	struct kv_source s = {.data = (const __u8 *)t->data, .len = t->len};
	unsigned int bad = check_state.bad;

	memset(&h, 0xa5, sizeof(h));
	memset(bpf.hint, 0x5a, sizeof(*bpf.hint));
	run(bpf.skel->progs.run_hint, t->data, t->len);
	h.ret = kv_hint_parse(&h.hint, &h.w, &s, 0, s.len);
	CHECK_EQ(bpf.hint->ret, h.ret);
	same_hint(&bpf.hint->hint, &h.hint);
	if (check_state.bad != bad)
		show(t->data, t->len);
	return h.ret;
}

static void hint_cases(void)
{
	static struct texts seeds;
	static struct text t;
	__u32 good = 0, cases = 2000;
	char part[64];

	case_files(&seeds, "hint", 0);
	for (__u32 i = 0; i < cases; i++) {
		if (i < seeds.n || !chance(4)) {
			t = seeds.text[i < seeds.n ? i : chance(seeds.n)];
		} else {
			__u32 depth = 0, total = 1u << chance(32);

			t.len = 0;
			snprintf(part, sizeof(part), "1;%u", total);
			text_say(&t, part);
			for (__u32 n = chance(36); n; n--) {
				depth += 1 + chance(1 + total / 20);
				snprintf(part, sizeof(part), ",%u:%08x%08X", depth, chance(~0u),
					 chance(~0u));
				text_say(&t, part);
			}
			text_say(&t, chance(4) ? "" : " \t ");
		}
		for (__u32 n = i < seeds.n ? 0 : chance(3); n; n--)
			text_mutate(&t);
		good += !one_hint(&t);
	}
	CHECK(good > cases / 10 && good < cases - cases / 10);
}

int main(int argc, char **argv)
{
	static const struct prog_test tests[] = {
		{"requests: 4000 heads", request_cases},
		{"requests: every cut of the seeds", request_prefixes},
		{"requests: tenants, 3000 and 4000 heads", tenant_cases},
		{"hints: 2000 values", hint_cases},
	};

	return diff_main(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
