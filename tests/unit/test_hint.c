// SPDX-License-Identifier: BSD-2-Clause
/* KV-Prefix values: what is a hint and what is not. */
#include <stdlib.h>

#include <kvsteer/hint.h>

#include "check.h"

#define H1 "0123456789abcdef"
#define H2 "FEDCBA9876543210"

static int parse(struct kv_hint *hint, const char *text, unsigned int len)
{
	/* Bytes before and behind the value must not matter. */
	__u8 *copy = malloc(len + 32);
	struct kv_source s = {copy, len + 32};
	struct kv_window w;
	int ret;

	memset(copy, '7', len + 32);
	memset(&w, '7', sizeof(w));
	memcpy(copy + 16, text, len);
	ret = kv_hint_parse(hint, &w, &s, 16, len);
	free(copy);
	return ret;
}

static const char *const malformed[] = {
	"",
	" ",
	"1",
	"1;",
	"1;16",
	"1;16,",
	"2;16,16:" H1,
	"11;16,16:" H1,
	"1 ;16,16:" H1,
	"1,16,16:" H1,
	"x;16,16:" H1,
	"1;,16:" H1,
	"1;-16,16:" H1,
	"1;+16,16:" H1,
	"1;0x16,16:" H1,
	"1;16 ,16:" H1,
	"1;16, 16:" H1,
	"1;16,16 :" H1,
	"1;16,16: " H1,
	"1;16,16:" H1 ",",
	"1;16,16:" H1 ",;",
	"1;16,16:" H1 " x",
	"1;16,16:" H1 "0",
	"1;16,16:" H1 "\t\t,",
	"1;16,16:012345678abcdef",
	"1;16,16:0123456789abcdeg",
	"1;16,16:0123456789abcde@",
	"1;16,16:0123456789abcde`",
	"1;16,16:0123456789abcde/",
	"1;16,16:0123456789abcde:",
	"1;16,16:0123456789abcde\xb0",
	"1;16,16:0123456789abcde\x10",
	"1;16,16:012345 789abcdef",
	"1;16,16;" H1,
	"1;16,16" H1,
	"1;16,:" H1,
	"1;16,17:" H1,		 /* deeper than the prompt */
	"1;16,0:" H1,		 /* a rung of nothing */
	"1;64,16:" H1 ",16:" H2, /* not rising */
	"1;64,32:" H1 ",16:" H2,
	"1;4294967296,16:" H1, /* over 32 bits */
	"1;4294967328,16:" H1, /* 32 beyond it */
	"1;4294967295,4294967296:" H1,
	"1;64,4294967312:" H1,
	"1;99999999999,16:" H1,
	"1;16,00000000016:" H1,
	"1;0,0:" H1,
};

/* "1;TOTAL" and n rungs. */
static unsigned int ladder(char *text, unsigned int n, unsigned int digits)
{
	char *p = text + sprintf(text, "1;%0*u", digits, n * 16);

	for (unsigned int i = 1; i <= n; i++)
		p += sprintf(p, ",%0*u:%016llx", digits, i * 16, i * 0x9e3779b97f4a7c15ull);
	return p - text;
}

int main(void)
{
	struct kv_hint hint;
	char text[2048];
	unsigned int len;

	TEST("one rung")
	{
		CHECK_EQ(parse(&hint, "1;20,16:" H1, 24), 0);
		CHECK_EQ(hint.total, 20);
		CHECK_EQ(hint.n, 1);
		CHECK_EQ(hint.rungs[0].depth, 16);
		CHECK_EQ(hint.rungs[0].hash, 0x0123456789abcdefull);
	}
	TEST("digits of either case, the largest numbers, white space behind")
	{
		const char *t = "1;4294967295,1:fEdCbA9876543210,4294967295:" H2 " \t";

		CHECK_EQ(parse(&hint, t, strlen(t)), 0);
		CHECK_EQ(hint.total, 0xffffffff);
		CHECK_EQ(hint.n, 2);
		CHECK_EQ(hint.rungs[0].hash, 0xfedcba9876543210ull);
		CHECK_EQ(hint.rungs[0].zero, 0);
		CHECK_EQ(hint.rungs[1].depth, 0xffffffff);
	}
	TEST("every hex digit at every place")
	{
		for (unsigned int place = 0; place < 16; place++) {
			for (unsigned int c = 1; c < 256; c++) {
				char one[2] = {c}, *end;
				unsigned long long digit = strtoull(one, &end, 16);
				bool hex = end != one;

				strcpy(text, "1;20,16:0000000000000000");
				text[8 + place] = c;
				CHECK_EQ(parse(&hint, text, 24), hex ? 0 : -1);
				if (hex)
					CHECK_EQ(hint.rungs[0].hash, digit << 4 * (15 - place));
			}
		}
	}
	TEST("1 … 32 rungs")
	{
		for (unsigned int n = 1; n <= 32; n++) {
			len = ladder(text, n, 1);
			CHECK_EQ(parse(&hint, text, len), 0);
			CHECK_EQ(hint.n, n);
			CHECK_EQ(hint.total, n * 16);
			for (unsigned int i = 0; i < hint.n; i++) {
				CHECK_EQ(hint.rungs[i].depth, (i + 1) * 16);
				CHECK_EQ(hint.rungs[i].hash, (i + 1) * 0x9e3779b97f4a7c15ull);
			}
		}
		CHECK_EQ(parse(&hint, text, ladder(text, 33, 1)), -1);
	}
	TEST("800 bytes")
	{
		/* 28 rungs of 28 bytes and 12 bytes of head: 796. */
		len = ladder(text, 28, 10);
		CHECK_EQ(len, 796);
		CHECK_EQ(parse(&hint, text, len), 0);
		memcpy(text + len, "                ", 16);
		CHECK_EQ(parse(&hint, text, len + 16), 0);
		len = ladder(text, 29, 10);
		CHECK_EQ(parse(&hint, text, len), -1);
		/* 32 rungs with as many digits as it takes. */
		len = sprintf(text, "1;00006400");
		for (unsigned int i = 1; i <= 32; i++)
			len += sprintf(text + len, ",%0*u:" H1, i <= 22 ? 7 : 6, i * 200);
		CHECK_EQ(len, 800);
		CHECK_EQ(parse(&hint, text, len), 0);
		memmove(text + 3, text + 2, len);
		text[2] = '0';
		CHECK_EQ(parse(&hint, text, len + 1), -1);
	}
	TEST("malformed")
	{
		for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
			int ret = parse(&hint, malformed[i], strlen(malformed[i]));

			if (!ret)
				printf("# taken for a hint: %s\n", malformed[i]);
			CHECK_EQ(ret, -1);
		}
	}
	TEST("NUL inside")
	{
		CHECK_EQ(parse(&hint, "1;20\0,16:" H1, 25), -1);
		CHECK_EQ(parse(&hint, "1;20,16:" H1 "\0", 25), -1);
	}
	TEST("cut short at every byte")
	{
		len = ladder(text, 20, 3);
		for (unsigned int n = 0; n < len; n++) {
			/* Whole only behind a rung. */
			bool whole = n > 5 && (n - 5) % 21 == 0;

			CHECK_EQ(parse(&hint, text, n), whole ? 0 : -1);
		}
	}
	return check_done();
}
