// SPDX-License-Identifier: BSD-2-Clause
/* The framing of responses and the TCP options: the host's build against the kernel's. */
#include "diff_world.h"

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
		{"framing: 4000 responses in random segments", framing_cases},
		{"framing: limits", framing_limits},
		{"TCP options: 4000 headers", option_cases},
	};

	return diff_main(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
