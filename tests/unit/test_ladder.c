/* SPDX-License-Identifier: BSD-2-Clause */
#include "check.h"
#include "kvsteer/ladder.h"

static const struct {
	__u32 blocks, n;
	__u32 depths[KV_MAX_RUNGS];
} known[] = {
	{1, 1, {1}},
	{2, 2, {1, 2}},
	{3, 3, {1, 2, 3}},
	{5, 4, {1, 2, 4, 5}},
	{8, 6, {1, 2, 4, 6, 7, 8}},
	{17, 8, {1, 2, 4, 8, 12, 14, 16, 17}},
	{100, 13, {1, 2, 4, 8, 16, 32, 64, 80, 88, 96, 98, 99, 100}},
	{1000,
	 19,
	 {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 768, 896, 960, 976, 992, 996, 998, 999, 1000}},
	{1023,
	 19,
	 {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 768, 896, 960, 992, 1008, 1016, 1020, 1022, 1023}},
	{8000, 25, {1,	  2,	4,    8,    16,	  32,	64,   128,  256,  512,	1024, 2048, 4096,
		    6144, 7168, 7680, 7808, 7936, 7968, 7984, 7992, 7996, 7998, 7999, 8000}},
};

/* FNV-1a over count and depths of the ladders of 1 … 10,000 blocks, of the reference's sets. */
#define REFERENCE_SUM 0x3df99d2d98da9c47ull

int main(void)
{
	__u32 depths[KV_MAX_RUNGS], n;

	TEST("known ladders")
	{
		for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
			n = kv_ladder(known[i].blocks, NULL, 0, depths);
			CHECK_EQ(n, known[i].n);
			CHECK_MEM(depths, known[i].depths, known[i].n * sizeof(__u32));
		}
		CHECK_EQ(kv_ladder(0, NULL, 0, depths), 0);
	}

	TEST("the reference's sets for 1 to 10,000 blocks")
	{
		__u64 sum = 1469598103934665603ull;

		for (__u32 blocks = 1; blocks <= 10000; blocks++) {
			n = kv_ladder(blocks, NULL, 0, depths);
			sum = (sum ^ n) * 1099511628211ull;
			for (__u32 i = 0; i < n; i++)
				sum = (sum ^ depths[i]) * 1099511628211ull;
		}
		CHECK_EQ(sum, REFERENCE_SUM);
	}

	TEST("boundaries: latest first, as many as fit, none twice, none past the end")
	{
		const __u32 some[] = {0, 3, 64, 70, 101};
		__u32 many[64];

		n = kv_ladder(100, some, 5, depths);
		CHECK_EQ(n, 15); /* 3 and 70 are new, 64 is there, 0 and 101 do not count */
		CHECK_EQ(depths[2], 3);
		CHECK_EQ(depths[8], 70);
		for (__u32 i = 0; i < 64; i++)
			many[i] = 5000 + i;
		n = kv_ladder(8000, many, 64, depths);
		CHECK_EQ(n, 32);
		CHECK_EQ(depths[12], 4096);
		for (__u32 i = 0; i < 7; i++)
			CHECK_EQ(depths[13 + i], 5057 + i);
		CHECK_EQ(depths[20], 6144);
	}

	TEST("sorted, unique, within bounds at any length")
	{
		const __u32 odd[] = {98303, 98304, 131071, (1u << 31) + 1, ~0u};

		for (size_t k = 0; k < sizeof(odd) / sizeof(odd[0]); k++) {
			n = kv_ladder(odd[k], NULL, 0, depths);
			CHECK(n && n <= KV_MAX_RUNGS);
			CHECK_EQ(depths[n - 1], odd[k]);
			for (__u32 i = 1; i < n; i++)
				CHECK(depths[i - 1] < depths[i]);
		}
		/* the last two blocks and the longest power of two are always there */
		n = kv_ladder(~0u, NULL, 0, depths);
		CHECK_EQ(n, 32);
		CHECK_EQ(depths[30], ~0u - 1);
		CHECK(depths[0] <= 1u << 31);
	}
	return check_done();
}
