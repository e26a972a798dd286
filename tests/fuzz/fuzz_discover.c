// SPDX-License-Identifier: BSD-2-Clause
/* Any bytes as the answer of a DNS server: refused, or names and addresses of sane form. */
#include <stdint.h>
#include <stdlib.h>

#include "engines/dns_answer.c"

static void require(int condition)
{
	if (!condition)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const enum dns_type types[] = {DNS_A, DNS_AAAA, DNS_SRV};
	static struct dns_answer answer;

	for (int t = 0; t < 3; t++) {
		if (dns_answer_read(data, size, types[t], &answer))
			continue;
		require(answer.n <= DNS_MOST && answer.ttl <= INT32_MAX);
		for (__u32 i = 0; types[t] == DNS_SRV && i < answer.n; i++) {
			size_t len = strnlen(answer.srv[i].target, DNS_NAME_MAX);

			require(len && len < DNS_NAME_MAX && answer.srv[i].port);
		}
	}
	return 0;
}
