/* SPDX-License-Identifier: BSD-2-Clause */
/* A packet of the ring becomes wire segments: cut, complete checksums, or damaged ones. */
#ifndef KVSTEER_TESTS_IMPAIR_CUT_H
#define KVSTEER_TESTS_IMPAIR_CUT_H

#include <stddef.h>
#include <stdint.h>

#include "impair.h"

/* Takes one finished Ethernet frame. */
typedef void (*cut_emit)(void *ctx, const uint8_t *frame, size_t len);

/* Emits the frames that h and its data become; returns how many. */
unsigned int cut_packet(const struct impair_held *h, const uint8_t *data, uint32_t cut_min,
			uint32_t cut_max, cut_emit emit, void *ctx);

#endif
