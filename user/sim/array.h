/* SPDX-License-Identifier: BSD-2-Clause */
/* Arrays that grow. */
#ifndef KVSTEER_SIM_ARRAY_H
#define KVSTEER_SIM_ARRAY_H

#include <errno.h>
#include <stdlib.h>

/* Room for n elements at least. 0 or -ENOMEM. */
static inline int sim_array_room(void **array, size_t *room, size_t n, size_t size)
{
	void *grown;

	if (n <= *room)
		return 0;
	grown = reallocarray(*array, 2 * n, size);
	if (!grown)
		return -ENOMEM;
	*array = grown;
	*room = 2 * n;
	return 0;
}

#endif
