/* SPDX-License-Identifier: BSD-2-Clause */
/* The addresses that a source names: sorted, each once. */
#ifndef ENGINES_ADDRESS_SET_H
#define ENGINES_ADDRESS_SET_H

#include <stdbool.h>

#include "common/addr.h"

#define ADDRESS_SET_MOST KV_MAX_BACKENDS

struct address_set {
	__u32 n;
	__u32 passed_over; /* no room */
	struct kv_addr at[ADDRESS_SET_MOST];
};

void address_set_add(struct address_set *s, const struct kv_addr *addr);
bool address_set_has(const struct address_set *s, const struct kv_addr *addr);
bool address_set_equal(const struct address_set *a, const struct address_set *b);
/* Those of a that are not in b. */
void address_set_minus(const struct address_set *a, const struct address_set *b,
		       struct address_set *ret);

#endif
