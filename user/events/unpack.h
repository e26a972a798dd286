/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * msgpack-c's parser (unpack_template.h) with callbacks instead of its tree: the tree's arrays are
 * allocated by the length that a header claims, 24 bytes for each element, before any is there.
 *
 * The including file defines container, integer, other and string. Each returns 0 or an error.
 */
#ifndef KVSTEER_EVENTS_UNPACK_H
#define KVSTEER_EVENTS_UNPACK_H

#include <msgpack.h>
#include <msgpack/unpack_define.h>
#include <stdbool.h>
#include <stdint.h>

struct kv_decode;

typedef char object; /* the parser's own stack has nothing to keep */

#define msgpack_unpack_struct(name) struct template##name
#define msgpack_unpack_func(ret, name) static inline ret template##name
#define msgpack_unpack_callback(name) template_callback##name
#define msgpack_unpack_object object
#define msgpack_unpack_user struct kv_decode *

static inline object template_callback_root(struct kv_decode **user)
{
	(void)user;
	return 0;
}

static int container(struct kv_decode *d, uint64_t n, bool map);
static int integer(struct kv_decode *d, uint64_t v, bool negative);
static int other(struct kv_decode *d, double v, bool number, bool nil);
static int string(struct kv_decode *d, const char *p, size_t n, bool bin);

#define UNSIGNED(name, type)                                                                       \
	static inline int template_callback##name(struct kv_decode **d, type v, object *ret)       \
	{                                                                                          \
		*ret = 0;                                                                          \
		return integer(*d, v, false);                                                      \
	}
#define SIGNED(name, type)                                                                         \
	static inline int template_callback##name(struct kv_decode **d, type v, object *ret)       \
	{                                                                                          \
		*ret = 0;                                                                          \
		return integer(*d, (uint64_t)(int64_t)v, v < 0);                                   \
	}
#define FLOATING(name, type)                                                                       \
	static inline int template_callback##name(struct kv_decode **d, type v, object *ret)       \
	{                                                                                          \
		*ret = 0;                                                                          \
		return other(*d, v, true, false);                                                  \
	}
#define SIMPLE(name, nil)                                                                          \
	static inline int template_callback##name(struct kv_decode **d, object *ret)               \
	{                                                                                          \
		*ret = 0;                                                                          \
		return other(*d, 0, false, nil);                                                   \
	}
#define CONTAINER(name, map)                                                                       \
	static inline int template_callback##name(struct kv_decode **d, unsigned int n,            \
						  object *ret)                                     \
	{                                                                                          \
		*ret = 0;                                                                          \
		return container(*d, n, map);                                                      \
	}
#define STRING(name, call)                                                                         \
	static inline int template_callback##name(struct kv_decode **d, const char *base,          \
						  const char *p, unsigned int n, object *ret)      \
	{                                                                                          \
		(void)base;                                                                        \
		(void)p;                                                                           \
		(void)n;                                                                           \
		*ret = 0;                                                                          \
		return call;                                                                       \
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
SIMPLE(_nil, true)
SIMPLE(_true, false)
SIMPLE(_false, false)
CONTAINER(_array, false)
CONTAINER(_map, true)
STRING(_str, string(*d, p, n, false))
STRING(_bin, string(*d, p, n, true))
STRING(_ext, other(*d, 0, false, false))

static inline int template_callback_array_item(struct kv_decode **d, object *array, object item)
{
	(void)d;
	(void)array;
	(void)item;
	return 0;
}

static inline int template_callback_map_item(struct kv_decode **d, object *map, object key,
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
