/* SPDX-License-Identifier: BSD-2-Clause */
/* A queue in an array that grows: where its elements are is the owner's business. */
#ifndef KVSTEER_SIM_RING_H
#define KVSTEER_SIM_RING_H

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct sim_ring {
	char *data;
	uint32_t head, tail; /* ever rising */
	uint32_t room;	     /* a power of two, or 0 */
};

static inline void *sim_ring_at(const struct sim_ring *r, uint32_t i, size_t size)
{
	return r->data + (i & (r->room - 1)) * size;
}

static inline void *sim_ring_head(const struct sim_ring *r, size_t size)
{
	return sim_ring_at(r, r->head, size);
}

/* A new last element; NULL: out of memory. */
static inline void *sim_ring_push(struct sim_ring *r, size_t size)
{
	if (r->tail - r->head == r->room) {
		struct sim_ring grown = {.room = r->room ? 2 * r->room : 16};

		grown.data = reallocarray(NULL, grown.room, size);
		if (!grown.data)
			return NULL;
		for (uint32_t i = r->head; i != r->tail; i++)
			memcpy(sim_ring_at(&grown, grown.tail++, size), sim_ring_at(r, i, size),
			       size);
		free(r->data);
		*r = grown;
	}
	return sim_ring_at(r, r->tail++, size);
}

#endif
