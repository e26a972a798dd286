// SPDX-License-Identifier: BSD-2-Clause
/* SHA-256 (FIPS 180-4), because every test client's standard library has it. */
#ifndef ENGINE_SHA256_H
#define ENGINE_SHA256_H

#include <stddef.h>
#include <stdint.h>

struct sha256 {
	uint32_t h[8];
	uint64_t total;
	unsigned char block[64];
};

void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *data, size_t n);
/* Leaves s untouched, so that a running hash can be read. */
void sha256_hex(const struct sha256 *s, char ret_hex[65]);

#endif
