/* SPDX-License-Identifier: BSD-2-Clause */
/* What engines call things in their events, and in which order. */
#ifndef KVSTEER_EVENTS_NAMES_H
#define KVSTEER_EVENTS_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a value is: told by its place (in arrays) or name (in maps) within what holds it. */
enum kv_role {
	R_SKIP,
	R_BATCH,
	R_TS,
	R_EVENTS,
	R_RANK,
	R_EVENT,
	R_TAG,
	R_HASHES, /* from here on the children of an array are all alike, or a pair */
	R_HASH,
	R_PARENT,
	R_TOKENS,
	R_TOKEN,
	R_PAIR, /* with EAGLE: [token, next token] */
	R_BLOCK_SIZE,
	R_LORA_ID,
	R_MEDIUM,
	R_LORA_NAME, /* SGLang has a map of metadata in this place */
	R_META,
	R_EXTRAS,
	R_BLOCK_EXTRAS,
	R_EXTRA,
	R_PICTURE, /* [identifier, offset] */
	R_PICTURE_ID,
	R_GROUP,
	R_SPEC,
	R_SALT,
};

/* The role of an array's item. kind: of the event, 0 if not known yet. */
enum kv_role kv_role_at(enum kv_role array, uint32_t index, int kind);
/* Whether engines are known to send so many elements in an event. */
bool kv_event_has_place(uint32_t index);
/* The role of a map's value; *ret_unknown is set for a name that no engine is known to use. */
enum kv_role kv_role_named(enum kv_role map, const char *p, size_t n, bool *ret_unknown);

int kv_kind_named(const char *p, size_t n); /* enum kv_event_kind, or 0 */
int kv_tier_named(const char *p, size_t n); /* enum kv_tier */
int kv_spec_named(const char *p, size_t n); /* enum kv_spec */

/* As Dynamo does it: a digest's first 16 hex digits, or the hash of any other name. */
uint64_t kv_picture_hash(const char *p, size_t n);

#endif
