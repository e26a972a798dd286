/* SPDX-License-Identifier: BSD-2-Clause */
/* The internet checksum (RFC 1071), for packets made by hand. */
#ifndef KV_TOOLS_INET_SUM_H
#define KV_TOOLS_INET_SUM_H

#include <stddef.h>
#include <stdint.h>

/* Adds bytes by 16-bit words of network order, folded. A field that is to make the whole right
 * holds the complement. */
static inline uint32_t inet_sum(const void *data, size_t len, uint32_t sum)
{
	const uint8_t *bytes = data;

	for (size_t i = 0; i < len; i++)
		sum += i & 1 ? bytes[i] : bytes[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

#endif
