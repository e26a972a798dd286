// SPDX-License-Identifier: BSD-2-Clause
/* KV-Prefix values: the parser against a plain reading of the same text. */
#include <stdlib.h>

#include <kvsteer/hint.h>

#define must(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond))                                                                       \
			abort();                                                                   \
	} while (0)

/* 1 … 10 digits up to 2^32 - 1; NULL if there are none. */
static const char *number(const char *p, unsigned long long *ret)
{
	int n = strspn(p, "0123456789");

	*ret = n && n <= 10 ? strtoull(p, NULL, 10) : ~0ull;
	return *ret > 0xffffffff ? NULL : p + n;
}

static int plain(struct kv_hint *hint, const char *p)
{
	const char *start = p;
	unsigned long long n, last = 0;

	hint->n = 0;
	if (strncmp(p, "1;", 2))
		return -1;
	p = number(p + 2, &n);
	if (!p)
		return -1;
	hint->total = n;
	while (*p == ',') {
		char hex[17] = {0};

		p = number(p + 1, &n);
		if (!p || *p != ':' || n <= last || n > hint->total || hint->n == KV_MAX_RUNGS)
			return -1;
		last = n;
		strncpy(hex, p + 1, 16);
		if (strspn(hex, "0123456789abcdefABCDEF") != 16)
			return -1;
		p += 17;
		hint->rungs[hint->n].depth = n;
		hint->rungs[hint->n++].hash = strtoull(hex, NULL, 16);
	}
	if (!hint->n || p - start > KV_HINT_MAX)
		return -1;
	n = strspn(p, " \t");
	return n > KV_UNIT || p[n] ? -1 : 0;
}

int LLVMFuzzerTestOneInput(const __u8 *data, size_t len);

int LLVMFuzzerTestOneInput(const __u8 *data, size_t len)
{
	struct kv_source s = {data, len};
	struct kv_hint hint, expected;
	struct kv_window w;
	char *text;
	int ret;

	if (len > KV_HINT_MAX + KV_UNIT)
		return 0;
	ret = kv_hint_parse(&hint, &w, &s, 0, len);
	if (memchr(data, 0, len)) {
		must(ret);
		return 0;
	}
	text = strndup((const char *)data, len);
	must(ret == plain(&expected, text));
	free(text);
	if (ret)
		return 0;
	must(hint.n == expected.n && hint.total == expected.total);
	for (__u32 i = 0; i < hint.n; i++)
		must(hint.rungs[i].depth == expected.rungs[i].depth &&
		     hint.rungs[i].hash == expected.rungs[i].hash);
	return 0;
}
