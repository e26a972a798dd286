// SPDX-License-Identifier: BSD-2-Clause
#include "engines/address_set.h"

#include <string.h>

static int compare(const struct kv_addr *a, const struct kv_addr *b)
{
	return memcmp(a, b, sizeof(*a));
}

/* Where it is, or would be. */
static __u32 place(const struct address_set *s, const struct kv_addr *addr)
{
	__u32 low = 0, high = s->n;

	while (low < high) {
		__u32 middle = (low + high) / 2;

		if (compare(&s->at[middle], addr) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool address_set_has(const struct address_set *s, const struct kv_addr *addr)
{
	__u32 i = place(s, addr);

	return i < s->n && !compare(&s->at[i], addr);
}

void address_set_add(struct address_set *s, const struct kv_addr *addr)
{
	__u32 i = place(s, addr);

	if (i < s->n && !compare(&s->at[i], addr))
		return;
	if (s->n == ADDRESS_SET_MOST) {
		s->passed_over++;
		return;
	}
	memmove(&s->at[i + 1], &s->at[i], (s->n - i) * sizeof(s->at[0]));
	s->at[i] = *addr;
	s->n++;
}

bool address_set_equal(const struct address_set *a, const struct address_set *b)
{
	return a->n == b->n && !memcmp(a->at, b->at, a->n * sizeof(a->at[0]));
}

void address_set_minus(const struct address_set *a, const struct address_set *b,
		       struct address_set *ret)
{
	ret->n = 0;
	ret->passed_over = 0;
	for (__u32 i = 0; i < a->n; i++)
		if (!address_set_has(b, &a->at[i]))
			ret->at[ret->n++] = a->at[i];
}
