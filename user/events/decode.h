/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Engines' KV cache events: one msgpack message (vLLM's KVEventBatch and its relatives) into flat
 * arrays, without a tree.
 *
 * Both forms are read, positional arrays and maps; unknown event types, fields and elements are
 * skipped and counted. Memory is at most 16 times the message, whatever its bytes are, and is used
 * again for the next one.
 */
#ifndef KVSTEER_EVENTS_DECODE_H
#define KVSTEER_EVENTS_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/hash.h"

enum kv_event_kind { KV_EVENT_STORED = 1, KV_EVENT_REMOVED, KV_EVENT_CLEARED };

enum kv_tier { KV_TIER_GPU, KV_TIER_CPU, KV_TIER_DISK, KV_TIER_EXTERNAL, KV_TIERS };

/* What kind of cache the blocks belong to: only full attention reuses whole prefixes. */
enum kv_spec { KV_SPEC_UNSAID, KV_SPEC_FULL, KV_SPEC_OTHER };

/* What enters a block's hash beside its tokens: pictures, embeddings. */
struct kv_extra {
	uint64_t hash;
	uint32_t block; /* index within the event */
	uint32_t lone;	/* while decoding: a string that may be the LoRA's name or the salt */
};

/* Arrays are parts of the batch's: hashes[hash_at] and so on. */
struct kv_cache_event {
	uint8_t kind; /* enum kv_event_kind */
	uint8_t tier;
	uint8_t spec;
	bool has_parent;
	bool has_group;
	bool whole; /* removed: from all tiers, however often it was stored */
	uint32_t group;
	uint32_t block_size;
	uint32_t hash_at, n_hashes;
	uint32_t token_at, n_tokens;
	uint32_t extra_at, n_extras;
	uint64_t parent;
	uint64_t lora_id;	    /* 0: none */
	struct kv_bytes lora, salt; /* in the message */
};

struct kv_batch {
	double ts;
	int64_t rank; /* data-parallel rank; -1: not said */
	struct kv_cache_event *events;
	uint64_t *hashes; /* the engine's */
	uint32_t *tokens;
	struct kv_extra *extras;
	size_t n_events, n_hashes, n_tokens, n_extras;
	bool anew; /* what was told before was understood wrongly: void */
	/* of this message */
	uint64_t unknown_events, unknown_fields, malformed_events;
};

struct kv_decode;

struct kv_decode *kv_decode_new(void);
void kv_decode_free(struct kv_decode *d);

/* The message must stay where it is until the batch is no longer used. */
void kv_decode_begin(struct kv_decode *d, const void *message, size_t len);

/* What TensorRT-LLM's events show bit by bit, since none says it. Begins as zeros. */
struct kv_polled {
	uint32_t block;	 /* tokens of a full block */
	uint64_t window; /* the largest: of the layers with full attention */
	bool any;	 /* something has been told by these */
};

/* In place of kv_decode_begin: one event of TensorRT-LLM's, a JSON object. */
void kv_decode_begin_polled(struct kv_decode *d, const char *text, size_t len,
			    struct kv_polled *about);

/* Its number and its data-parallel rank, or -EBADMSG. */
int kv_polled_head(const char *text, size_t len, uint64_t *ret_number, uint32_t *ret_rank);

/* Reads about that many bytes more. 1: whole, 0: more to do, -EBADMSG: not a batch of events, or
 * broken off, or bytes behind it; -ENOMEM. */
int kv_decode_step(struct kv_decode *d, size_t bytes);

/* What has been decoded; valid until the next begin. */
const struct kv_batch *kv_decode_batch(const struct kv_decode *d);

/* All at once: 0 or an error as above. */
int kv_decode(struct kv_decode *d, const void *message, size_t len);

#endif
