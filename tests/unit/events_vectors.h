/* SPDX-License-Identifier: BSD-2-Clause */
/* Files of tests/vectors/events/. */
#ifndef KVSTEER_TESTS_EVENTS_VECTORS_H
#define KVSTEER_TESTS_EVENTS_VECTORS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

static inline size_t unhex(const char *hex, unsigned char **ret)
{
	size_t n = strlen(hex) / 2;
	unsigned int byte;

	*ret = malloc(n + !n); /* exactly: the sanitizer sees what is read behind it */
	for (size_t i = 0; i < n; i++) {
		sscanf(hex + 2 * i, "%2x", &byte);
		(*ret)[i] = byte;
	}
	return n;
}

static inline yyjson_val *vector_named(yyjson_val *vectors, const char *name)
{
	yyjson_val *v;
	size_t i, max;

	yyjson_arr_foreach (vectors, i, max, v)
		if (yyjson_equals_str(yyjson_obj_get(v, "name"), name))
			return v;
	printf("# no vector %s\n", name);
	exit(1);
}

#endif
