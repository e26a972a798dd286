/* SPDX-License-Identifier: BSD-2-Clause */
#include "check.h"
#include "kvsteer/seq.h"

#define TOP 0xffffffffu

/* Places around which everything must behave the same. */
static const __u32 places[] = {0, 1, 1000, 0x7fffffff, 0x80000000u, TOP - 5, TOP};

static void put(__u8 *opt, __u32 v)
{
	opt[0] = v >> 24;
	opt[1] = v >> 16;
	opt[2] = v >> 8;
	opt[3] = v;
}

static __u32 get(const __u8 *opt)
{
	return (__u32)opt[0] << 24 | opt[1] << 16 | opt[2] << 8 | opt[3];
}

struct scan {
	__u8 opt[KV_TCP_OPTIONS];
	struct kv_tcp_options found;
};

static struct scan scan(const void *bytes, __u32 len)
{
	struct scan s;

	memset(s.opt, 0xee, sizeof(s.opt));
	memset(&s.found, 0xee, sizeof(s.found));
	memcpy(s.opt, bytes, len);
	kv_tcp_options_scan(s.opt, len, &s.found);
	return s;
}

#define SCAN(...) scan((const __u8[]){__VA_ARGS__}, sizeof((const __u8[]){__VA_ARGS__}))
#define TS 8, 10, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 7
#define EDGES 0xff, 0xff, 0xff, 0xf0, 0, 0, 0, 0x10

static void check_found(const struct scan *s, __u32 ts, __u32 sack, __u32 n_sack, __u32 odd)
{
	CHECK_EQ(s->found.ts, ts);
	CHECK_EQ(s->found.sack, sack);
	CHECK_EQ(s->found.n_sack, n_sack);
	CHECK_EQ(s->found.odd, odd);
}

static void test_sequences(void)
{
	TEST("order, across the wrap")
	{
		for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
			__u32 a = places[i], b = a + 10, far = a + 0x7fffffff;

			CHECK(kv_seq_before(a, b) && !kv_seq_before(b, a) && !kv_seq_before(a, a));
			CHECK(kv_seq_after(b, a) && !kv_seq_after(a, b) && !kv_seq_after(a, a));
			CHECK(kv_seq_before_eq(a, b) && kv_seq_before_eq(a, a));
			CHECK(!kv_seq_before_eq(b, a));
			CHECK(kv_seq_after_eq(b, a) && kv_seq_after_eq(a, a) &&
			      !kv_seq_after_eq(a, b));
			CHECK(kv_seq_before(a, far) && !kv_seq_before(far, a));
			CHECK_EQ(kv_seq_max(a, b), b);
			CHECK_EQ(kv_seq_max(b, a), b);
			CHECK_EQ(kv_seq_min(a, b), a);
			CHECK_EQ(kv_seq_min(b, a), a);
		}
	}

	TEST("ranges, across the wrap")
	{
		for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
			__u32 a = places[i], b = a + 10;

			CHECK(!kv_seq_within(a - 1, a, b) && kv_seq_within(a, a, b));
			CHECK(kv_seq_within(b - 1, a, b) && !kv_seq_within(b, a, b));
			CHECK(!kv_seq_within(a, a, a));
			CHECK(!kv_seq_acks(a - 1, a, b) && kv_seq_acks(a, a, b));
			CHECK(kv_seq_acks(b, a, b) && !kv_seq_acks(b + 1, a, b));
			CHECK(kv_seq_acks(a, a, a) && !kv_seq_acks(a + 1, a, a));
		}
	}
}

static void test_near(void)
{
	TEST("near: so much below, so much above, across the wrap")
	{
		for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
			__u32 a = places[i];

			CHECK(kv_seq_near(a, a, 0, 0));
			CHECK(!kv_seq_near(a + 1, a, 0, 0) && !kv_seq_near(a - 1, a, 0, 0));
			CHECK(kv_seq_near(a - 10, a, 10, 0) && !kv_seq_near(a - 11, a, 10, 0));
			CHECK(kv_seq_near(a + 7, a, 10, 7) && !kv_seq_near(a + 8, a, 10, 7));
			CHECK(!kv_seq_near(a + 0x80000000u, a, 1 << 20, 1 << 20));
		}
	}

	TEST("window fields in bytes")
	{
		CHECK_EQ(kv_window_bytes(0, 7), 0);
		CHECK_EQ(kv_window_bytes(65535, 0), 65535);
		CHECK_EQ(kv_window_bytes(512, 7), 65536);
		CHECK_EQ(kv_window_bytes(65535, 14), 65535u << 14);
		CHECK_EQ(kv_window_bytes(65535, 15), 65535u << 14); /* RFC 7323: 14 at most */
	}
}

static void test_windows(void)
{
	TEST("windows between scales")
	{
		CHECK_EQ(kv_window_rescale(512, 7, 7), 512);
		CHECK_EQ(kv_window_rescale(512, 7, 0), 65535); /* 65536 does not fit */
		CHECK_EQ(kv_window_rescale(511, 7, 0), 511 * 128);
		CHECK_EQ(kv_window_rescale(65535, 0, 7), 511); /* down, never up */
		CHECK_EQ(kv_window_rescale(127, 0, 7), 0);
		CHECK_EQ(kv_window_rescale(65535, 14, 0), 65535);
		CHECK_EQ(kv_window_rescale(65535, 14, 14), 65535);
		CHECK_EQ(kv_window_rescale(1, 200, 0), 16384); /* no scale above 14 */
		CHECK_EQ(kv_window_rescale(1, 14, 99), 1);
		CHECK_EQ(kv_window_rescale(0, 14, 0), 0);
	}

	TEST("idle windows promise no more than 64 KiB")
	{
		CHECK_EQ(kv_window_idle(65535, 0), 65535);
		CHECK_EQ(kv_window_idle(65535, 7), 8192);
		CHECK_EQ(kv_window_idle(511, 7), 511);
		CHECK_EQ(kv_window_idle(65535, 14), 64);
		CHECK_EQ(kv_window_idle(65535, 255), 64);
		CHECK_EQ(kv_window_idle(0, 7), 0);
	}

	TEST("timestamps: ms of the clock plus the socket's offset")
	{
		CHECK_EQ(kv_tsval(0, 5), 5);
		CHECK_EQ(kv_tsval(1999999, 0), 1);
		CHECK_EQ(kv_tsval(3000000, TOP), 2);
		CHECK_EQ(kv_tsval((1ull << 32) * 1000000 + 7000000, 0), 7);
		CHECK_EQ(kv_tsval(~0ull, 0), (__u32)(~0ull / 1000000));
	}
}

static void test_scan(void)
{
	struct scan s;

	TEST("the usual layouts")
	{
		s = SCAN(1, 1, TS);
		check_found(&s, 4, 0, 0, 0);
		s = SCAN(1, 1, TS, 1, 1, 5, 10, EDGES);
		check_found(&s, 4, 16, 1, 0);
		s = SCAN(1, 1, TS, 1, 1, 5, 26, EDGES, EDGES, EDGES);
		check_found(&s, 4, 16, 3, 0);
		s = scan("", 0);
		check_found(&s, 0, 0, 0, 0);
	}

	TEST("other layouts")
	{
		s = SCAN(TS);
		check_found(&s, 2, 0, 0, 0);
		s = SCAN(5, 10, EDGES, TS, 0, 0);
		check_found(&s, 12, 2, 1, 0);
		s = SCAN(1, 1, 5, 34, EDGES, EDGES, EDGES, EDGES);
		check_found(&s, 0, 4, 4, 0);
		s = SCAN(2, 4, 5, 180, 4, 2, TS, 1, 3, 3, 7); /* a SYN's */
		check_found(&s, 8, 0, 0, 0);
		s = SCAN(1, 1, TS, 253, 4, 9, 9, 5, 10, EDGES, 1, 1);
		check_found(&s, 4, 18, 1, 0);
		s = SCAN(1, 1, TS, 5, 10, EDGES, 1, 1);
		check_found(&s, 4, 14, 1, 0);
		s = SCAN(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
			 1, 1, 1, 1, 1, TS);
		check_found(&s, 32, 0, 0, 0);
	}

	TEST("end of options")
	{
		s = SCAN(0, 1, TS, 0);
		check_found(&s, 0, 0, 0, 0);
		s = SCAN(1, 1, TS, 0, 5, 10, EDGES, 0);
		check_found(&s, 4, 0, 0, 0);
	}

	TEST("garbage keeps what came before it and says so")
	{
		s = SCAN(1, 1, TS, 254, 0, 5, 10);
		check_found(&s, 4, 0, 0, 1);
		s = SCAN(1, 1, TS, 254, 1, 5, 10);
		check_found(&s, 4, 0, 0, 1);
		s = SCAN(1, 1, TS, 254, 5, 0, 0); /* past the end */
		check_found(&s, 4, 0, 0, 1);
		s = SCAN(1, 1, TS, 1, 1, 1, 254); /* no length */
		check_found(&s, 4, 0, 0, 1);
		s = SCAN(5, 11, EDGES, 0, 0, 0); /* not whole blocks */
		CHECK_EQ(s.found.odd, 1);
		s = SCAN(5, 2, 1, 1);
		CHECK_EQ(s.found.odd, 1);
		s = SCAN(8, 9, 0, 0, 0, 0, 0, 0, 0, 0); /* a timestamp of another length is none */
		check_found(&s, 0, 0, 0, 0);
		s = SCAN(1, 1, TS, 1, 1, TS);
		CHECK_EQ(s.found.odd, 1);
		s = SCAN(5, 10, EDGES, 5, 10, EDGES);
		CHECK_EQ(s.found.odd, 1);
	}

	TEST("every length of a full header, and longer ones, stay in bounds")
	{
		__u8 bytes[KV_TCP_OPTIONS];
		__u32 seed = 1;

		for (int i = 0; i < 200000; i++) {
			for (size_t k = 0; k < sizeof(bytes); k++) {
				seed = seed * 1103515245 + 12345;
				/* mostly kinds and lengths that mean something */
				bytes[k] = seed & 1 << 20 ? (seed >> 24) % 12 : seed >> 24;
			}
			s = scan(bytes, (seed >> 16) % 41);
			kv_tcp_options_scan(s.opt, 41 + seed % 400, &s.found);
			CHECK(s.found.ts <= 32 && s.found.n_sack <= 4);
			CHECK(s.found.sack + 8 * s.found.n_sack <= 40 || s.found.odd);
			kv_tcp_ts_set(s.opt, &s.found, 1, 2);
			kv_tcp_sack_add(s.opt, &s.found, 3);
		}
	}
}

static void test_rewrite(void)
{
	struct scan s, before;

	TEST("timestamps are set, nothing else moves")
	{
		s = before = SCAN(1, 1, TS, 1, 1, 5, 10, EDGES);
		kv_tcp_ts_set(s.opt, &s.found, 0x01020304, 0xfffefdfc);
		CHECK_EQ(get(s.opt + 4), 0x01020304);
		CHECK_EQ(get(s.opt + 8), 0xfffefdfcu);
		put(s.opt + 4, TOP - 1);
		put(s.opt + 8, 7);
		CHECK_MEM(s.opt, before.opt, sizeof(s.opt));
		s = before = SCAN(5, 10, EDGES, 0, 0);
		kv_tcp_ts_set(s.opt, &s.found, 1, 2);
		CHECK_MEM(s.opt, before.opt, sizeof(s.opt));
	}

	TEST("SACK edges move by any delta, across the wrap")
	{
		for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
			s = before = SCAN(5, 34, EDGES, EDGES, EDGES, EDGES, 1, 1, 1, 1);
			for (__u32 k = 0; k < 8; k++)
				put(s.opt + 2 + 4 * k, TOP - 2 + k);
			kv_tcp_sack_add(s.opt, &s.found, places[i]);
			for (__u32 k = 0; k < 8; k++)
				CHECK_EQ(get(s.opt + 2 + 4 * k), TOP - 2 + k + places[i]);
			CHECK_MEM(s.opt, before.opt, 2);
			CHECK_MEM(s.opt + 34, before.opt + 34, 6);
		}
		s = before = SCAN(1, 1, TS);
		kv_tcp_sack_add(s.opt, &s.found, 1);
		CHECK_MEM(s.opt, before.opt, sizeof(s.opt));
	}
}

int main(void)
{
	test_sequences();
	test_near();
	test_windows();
	test_scan();
	test_rewrite();
	return check_done();
}
