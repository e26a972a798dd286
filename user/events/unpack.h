/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * msgpack-c's parser (unpack_template.h) with callbacks instead of its tree: the tree's arrays are
 * allocated by the length that a header claims, 24 bytes for each element, before any is there.
 *
 * The including file defines container, integer and scalar (all other values; integers may be given
 * to it as well). Each returns 0 or an error.
 */
#ifndef KVSTEER_EVENTS_UNPACK_H
#define KVSTEER_EVENTS_UNPACK_H

#include <msgpack.h>
#include <stdbool.h>
#include <stdint.h>

#include "events/decode_private.h"

typedef char object; /* the parser's own stack has nothing to keep */

#define msgpack_unpack_struct(name) struct template##name
#define msgpack_unpack_func(ret, name) static inline ret template##name
#define msgpack_unpack_callback(name) template_callback##name
#define msgpack_unpack_object object
#define msgpack_unpack_user struct decoding *

static inline object template_callback_root(struct decoding **user)
{
	(void)user;
	return 0;
}

static int container(struct decoding *d, uint64_t n, bool map);
static int integer(struct decoding *d, uint64_t v, bool negative);
static int scalar(struct decoding *d, const struct value *v);

#define UNSIGNED(name, c_type)                                                                     \
	static inline int template_callback##name(struct decoding **d, c_type v, object *ret)      \
	{                                                                                          \
		*ret = 0;                                                                          \
		return integer(*d, v, false);                                                      \
	}
#define SIGNED(name, c_type)                                                                       \
	static inline int template_callback##name(struct decoding **d, c_type v, object *ret)      \
	{                                                                                          \
		*ret = 0;                                                                          \
		return integer(*d, (uint64_t)(int64_t)v, v < 0);                                   \
	}
#define FLOATING(name, c_type)                                                                     \
	static inline int template_callback##name(struct decoding **d, c_type v, object *ret)      \
	{                                                                                          \
		*ret = 0;                                                                          \
		return scalar(*d, &(struct value){.type = V_FLOAT, .number = v});                  \
	}
#define SIMPLE(name, which)                                                                        \
	static inline int template_callback##name(struct decoding **d, object *ret)                \
	{                                                                                          \
		*ret = 0;                                                                          \
		return scalar(*d, &(struct value){.type = which});                                 \
	}
#define CONTAINER(name, map)                                                                       \
	static inline int template_callback##name(struct decoding **d, unsigned int n,             \
						  object *ret)                                     \
	{                                                                                          \
		*ret = 0;                                                                          \
		return container(*d, n, map);                                                      \
	}
#define STRING(name, which)                                                                        \
	static inline int template_callback##name(struct decoding **d, const char *base,           \
						  const char *p, unsigned int n, object *ret)      \
	{                                                                                          \
		(void)base;                                                                        \
		*ret = 0;                                                                          \
		/* the parser does not say where an empty one is */                                \
		return scalar(*d, &(struct value){.type = which, .p = n ? p : "", .len = n});      \
	}

UNSIGNED(_uint8, uint8_t)
UNSIGNED(_uint16, uint16_t)
UNSIGNED(_uint32, uint32_t)
UNSIGNED(_uint64, uint64_t)
SIGNED(_int8, int8_t)
SIGNED(_int16, int16_t)
SIGNED(_int32, int32_t)
SIGNED(_int64, int64_t)
FLOATING(_float, float)
FLOATING(_double, double)
SIMPLE(_nil, V_NIL)
SIMPLE(_true, V_OTHER)
SIMPLE(_false, V_OTHER)
CONTAINER(_array, false)
CONTAINER(_map, true)
STRING(_str, V_TEXT)
STRING(_bin, V_BYTES)
STRING(_ext, V_OTHER)

static inline int template_callback_array_item(struct decoding **d, object *array, object item)
{
	(void)d;
	(void)array;
	(void)item;
	return 0;
}

static inline int template_callback_map_item(struct decoding **d, object *map, object key,
					     object value)
{
	(void)d;
	(void)map;
	(void)key;
	(void)value;
	return 0;
}

/* msgpack-c's parser. It is resumable, and calls the above for every value as it meets it. */
#include <msgpack/unpack_template.h>

#endif
