// SPDX-License-Identifier: BSD-2-Clause
/* The parsers, the framing and the TCP options: the host's build against the kernel's. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <sys/mman.h>

#include <kvsteer/framing.h>
#include <kvsteer/request.h>
#include <kvsteer/seq.h>

/* of steering only the types are needed here */
#define WORLD_SLOTS 1u
#include "../unit/steer_world.h"

#include "tests/prog/diff.skel.h"

#include "cases.h"
#include "diff.h"

static struct {
	struct diff_bpf *skel;
	struct kv_names *names;
	struct kv_request *request;
	struct diff_hint *hint;
	struct kv_framing *framing;
	struct diff_options *options;
} bpf;

static void *memory(const struct bpf_map *map)
{
	void *at = mmap(NULL, bpf_map__value_size(map), PROT_READ | PROT_WRITE, MAP_SHARED,
			bpf_map__fd(map), 0);

	NEED(at != MAP_FAILED);
	return at;
}

static void load(void)
{
	bpf.skel = diff_bpf__open_and_load();
	NEED(bpf.skel);
	bpf.names = memory(bpf.skel->maps.diff_names);
	bpf.request = memory(bpf.skel->maps.diff_request);
	bpf.hint = memory(bpf.skel->maps.diff_hint);
	bpf.framing = memory(bpf.skel->maps.diff_framing);
	bpf.options = memory(bpf.skel->maps.diff_options);
	kv_names_default(bpf.names);
}

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

/* Runs a program on these bytes, behind an Ethernet header of no protocol of ours. */
static __u32 run(struct bpf_program *prog, const void *data, __u32 len)
{
	__u8 frame[DIFF_BASE + CASE_MAX] = {0};
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = frame, .data_size_in = DIFF_BASE + len);

	memcpy(frame + DIFF_BASE, data, len);
	NEED(!bpf_prog_test_run_opts(bpf_program__fd(prog), &opts));
	return opts.retval;
}

/* The input of a failed case, once per group. */
static void show(const void *data, __u32 len)
{
	const __u8 *p = data;

	if (check_state.bad > 10)
		return;
	printf("# input of %u bytes: ", len);
	for (__u32 i = 0; i < len && i < 600; i++)
		printf(p[i] >= ' ' && p[i] < 0x7f && p[i] != '\\' ? "%c" : "\\x%02x", p[i]);
	printf("\n");
}

/* ---- hints and requests -------------------------------------------------------------- */

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

/* ---- responses ----------------------------------------------------------------------- */

static void any_response(struct text *t)
{
	static const char *const lines[] = {
		"HTTP/1.1 200 OK\r\n",	   "HTTP/1.1 204 No Content\r\n",
		"HTTP/1.0 200 OK\r\n",	   "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n",
		"HTTP/1.1 404\r\n",	   "HTTP/1.1 304 Not Modified\r\n",
		"HTTP/1.1 101 Switch\r\n", "HTTP/1.1 600 x\r\n",
	};
	static const char *const fields[] = {
		"Content-Length: 12\r\n",
		"content-length: 300 \r\n",
		"Transfer-Encoding: chunked\r\n",
		"transfer-encoding:\tChunked\r\n",
		"Transfer-Encoding: gzip\r\n",
		"Connection: close\r\n",
		"Connection: keep-alive, x\r\n",
		"Date: Sat, 29 Nov 2025 21:00:00 GMT\r\n",
		"Content-Type: text/event-stream; charset=utf-8 and more than sixty-four bytes\r\n",
		"A-name-of-more-than-thirty-two-bytes-indeed: a\r\n",
		"Content-Lengthy: 7\r\n",
		"X:\r\n",
		"X : y\r\n",
	};
	static const char *const bodies[] = {
		"",
		"hello world!",
		"5\r\nhello\r\n0\r\n\r\n",
		"a;x=y\r\n0123456789\r\n10\r\n0123456789abcdef\r\n0\r\nT: 1\r\nU: 2\r\n\r\n",
		"1\r\nx\r\n",
		"fffffffffffffffff\r\n",
		"0000000000000001\r\nx\r\n00\r\n\r\nHTTP/1.1 200 OK",
	};

	t->len = 0;
	text_say(t, ONE_OF(lines));
	for (__u32 n = chance(6); n; n--)
		text_say(t, fields[chance(3) ? chance(4) : chance(13)]);
	text_say(t, "\r\n");
	for (__u32 n = chance(3); n; n--)
		text_say(t, ONE_OF(bodies));
	if (!chance(4))
		text_add(t, t->data, chance(t->len + 1));
}

/* In random segments, each side with its own state; returns the state at the end. */
static int one_response(const struct text *t)
{
	struct kv_framing f;
	unsigned int bad = check_state.bad;
	bool head = !chance(6), small = chance(2);
	__u32 at = 0, n, used = 0;

	kv_framing_init(&f, head);
	*bpf.framing = f;
	while (at < t->len && !kv_framing_done(&f)) {
		struct kv_source s = {.data = (const __u8 *)t->data + at};

		n = 1 + chance(small ? 9 : t->len);
		if (n > t->len - at)
			n = t->len - at;
		s.len = n;
		used = kv_framing_run(&f, &s, 0, n);
		CHECK_EQ(run(bpf.skel->progs.run_framing, t->data + at, n), used);
#define SAME(field) CHECK_EQ(bpf.framing->field, f.field)
		SAME(left);
		SAME(state);
		SAME(flags);
		SAME(status);
		SAME(head_seen);
		SAME(match);
		SAME(index);
		SAME(field);
		SAME(past);
		SAME(at);
		SAME(done);
#undef SAME
		CHECK_MEM(bpf.framing, &f, sizeof(f));
		if (check_state.bad != bad) {
			printf("# from byte %u, %u bytes\n", at, n);
			show(t->data, t->len);
			break;
		}
		at += n;
	}
	return f.state;
}

static void framing_cases(void)
{
	static struct texts seeds;
	static struct text t;
	__u32 done = 0, broken = 0, open = 0;
	int state;

	case_files(&seeds, "framing", 1);
	for (__u32 i = 0; i < 4000; i++) {
		if (i < 4 * seeds.n || !chance(4))
			t = seeds.text[i % seeds.n];
		else
			any_response(&t);
		for (__u32 n = i < 4 * seeds.n ? 0 : chance(3); n; n--)
			text_mutate(&t);
		state = one_response(&t);
		done += state == KV_FRAMING_DONE;
		broken += state == KV_FRAMING_BROKEN;
		open += state < KV_FRAMING_BROKEN;
	}
	CHECK(done > 400 && broken > 400 && open > 400);
}

/* Over the limits of heads, chunk lines and trailers. */
static void framing_limits(void)
{
	static const char *const starts[] = {
		"HTTP/1.1 200 OK\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
	};
	static struct text t;

	for (__u32 i = 0; i < 3; i++) {
		struct kv_framing f;

		kv_framing_init(&f, false);
		*bpf.framing = f;
		t.len = 0;
		text_say(&t, starts[i]);
		for (__u32 k = 0; k < 40 && f.state != KV_FRAMING_BROKEN; k++) {
			struct kv_source s = {.data = (const __u8 *)t.data, .len = t.len};
			__u32 used = kv_framing_run(&f, &s, 0, t.len);

			CHECK_EQ(run(bpf.skel->progs.run_framing, t.data, t.len), used);
			CHECK_MEM(bpf.framing, &f, sizeof(f));
			t.len = 0;
			while (t.len < 3000)
				text_say(&t, i == 1 ? "x" : "X-Field: some value of it\r\n");
		}
		CHECK_EQ(f.state, KV_FRAMING_BROKEN);
	}
}

/* ---- TCP options --------------------------------------------------------------------- */

static void any_options(struct diff_options *o)
{
	static const __u8 parts[][12] = {
		{1},
		{0},
		{8, 10, 1, 2, 3, 4, 5, 6, 7, 8},
		{5, 10, 1, 2, 3, 4, 255, 255, 255, 250},
		{2, 4, 5, 180},
		{3, 3, 7},
		{4, 2},
		{5, 18},
		{254, 6, 1, 2, 3, 4},
		{8, 9},
		{5, 11},
		{1, 1},
	};
	static const __u32 lens[] = {1, 1, 10, 10, 4, 3, 2, 18, 6, 9, 11, 2};
	__u32 at = 0, k;

	for (__u32 i = 0; i < sizeof(o->opt); i++)
		o->opt[i] = chance(256);
	o->len = chance(46);
	if (!chance(4))
		return;
	if (chance(2)) { /* the usual start */
		memcpy(o->opt, "\1\1\x8\xa", 4);
		at = 12;
	}
	while (at < KV_TCP_OPTIONS && chance(10)) {
		k = chance(12);
		memcpy(o->opt + at, parts[k], sizeof(parts[k]));
		at += lens[k];
	}
	if (chance(4))
		o->len = 4 * chance(11);
}

static void option_cases(void)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts);
	__u32 stamps = 0, sacks = 0, odd = 0;
	struct diff_options o, in;

	for (__u32 i = 0; i < 4000; i++) {
		unsigned int bad = check_state.bad;

		memset(&o, 0, sizeof(o));
		any_options(&o);
		o.tsval = chance(~0u);
		o.tsecr = chance(~0u);
		o.delta = chance(~0u);
		*bpf.options = in = o;
		NEED(!bpf_prog_test_run_opts(bpf_program__fd(bpf.skel->progs.run_options), &opts));
		kv_tcp_options_scan(o.opt, o.len, &o.found);
		kv_tcp_ts_set(o.opt, &o.found, o.tsval, o.tsecr);
		kv_tcp_sack_add(o.opt, &o.found, o.delta);
		CHECK_EQ(bpf.options->found.ts, o.found.ts);
		CHECK_EQ(bpf.options->found.sack, o.found.sack);
		CHECK_EQ(bpf.options->found.n_sack, o.found.n_sack);
		CHECK_EQ(bpf.options->found.odd, o.found.odd);
		CHECK_MEM(bpf.options->opt, o.opt, sizeof(o.opt));
		if (check_state.bad != bad)
			show(in.opt, o.len);
		stamps += o.found.ts != 0;
		sacks += o.found.sack != 0;
		odd += o.found.odd != 0;
	}
	CHECK(stamps > 400 && sacks > 400 && odd > 400);
}

int main(int argc, char **argv)
{
	static const struct prog_test tests[] = {
		{"requests: 4000 heads", request_cases},
		{"requests: every cut of the seeds", request_prefixes},
		{"requests: tenants, 3000 and 4000 heads", tenant_cases},
		{"hints: 2000 values", hint_cases},
		{"framing: 4000 responses in random segments", framing_cases},
		{"framing: limits", framing_limits},
		{"TCP options: 4000 headers", option_cases},
	};
	const unsigned int n = sizeof(tests) / sizeof(tests[0]);

	if (prog_begin(tests, n, "")) {
		case_seed(argc, argv);
		load();
		prog_run(tests, n, "");
		diff_bpf__destroy(bpf.skel);
	}
	return check_done();
}
