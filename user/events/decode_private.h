/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of the decoder. */
#ifndef KVSTEER_EVENTS_DECODE_PRIVATE_H
#define KVSTEER_EVENTS_DECODE_PRIVATE_H

#include <msgpack.h>
#include <msgpack/unpack_define.h>

#include "events/decode.h"
#include "events/names.h"
#include "lib/json.h"

/* An array or map under way. */
struct frame {
	uint64_t left;
	uint32_t index;
	uint8_t role;
	uint8_t child; /* role of the next value */
	bool map;
	bool key; /* of a map: its next item is a key */
};

#define DEPTH MSGPACK_EMBED_STACK_SIZE
#define LONE_MAX 4 /* strings of the first block that may be its salt */

struct pool {
	void *at;
	size_t n, capacity;
};

/* An event of TensorRT-LLM's. */
struct polling {
	struct kv_polled *about; /* NULL: it is none */
	struct kv_json json;
	bool open;
	struct kv_json_iter items; /* blocks, or hashes */
	struct kv_value block;	   /* not known yet whether it is the last */
	uint32_t size;		   /* tokens of this event's blocks, 0: not known yet */
	uint64_t last;		   /* hash of the block before */
};

/* What has been read of a message. */
struct decoding {
	struct frame frames[DEPTH + 1];
	uint32_t depth; /* of frames; 0 is what stands around the message */
	struct pool events, hashes, tokens, extras;
	struct kv_batch batch;
	struct kv_cache_event event; /* under way */
	bool malformed;
	struct kv_bytes lone[LONE_MAX];
	uint32_t n_lone;
	struct polling polling;
};

struct value {
	/* V_OTHER: true, false, extensions */
	enum { V_INTEGER, V_FLOAT, V_NIL, V_OTHER, V_TEXT, V_BYTES } type;
	bool negative;
	uint64_t integer;
	double number; /* of integers and floats */
	const char *p; /* of text and bytes */
	size_t len;
};

/* decode_event.c: 0 or -ENOMEM */
int pool_grow(struct pool *p, size_t size);

#define ADD(pool, type, ...)                                                                       \
	({                                                                                         \
		int add_err = (pool)->n == (pool)->capacity ? pool_grow(pool, sizeof(type)) : 0;   \
		if (!add_err)                                                                      \
			((type *)(pool)->at)[(pool)->n++] = __VA_ARGS__;                           \
		add_err;                                                                           \
	})

static inline int add_token(struct decoding *d, uint64_t v, bool negative)
{
	if (!negative && v <= UINT32_MAX)
		return ADD(&d->tokens, uint32_t, v);
	d->malformed = true;
	return 0;
}

/* decode_event.c; each returns 0 or -ENOMEM */
void event_begin(struct decoding *d);
/* It is in the batch now, or counted as unknown or malformed. */
int event_end(struct decoding *d);
/* A field's value. A type that cannot stand there makes the event malformed, unless the field can
 * be done without: then it is as good as nothing. */
int event_field(struct decoding *d, uint8_t role, const struct value *v);

/* decode_polled.c: as kv_decode_step */
int polled_step(struct decoding *d, const char *text, size_t len, size_t bytes);
void polled_end(struct decoding *d);

#endif
