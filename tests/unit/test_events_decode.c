// SPDX-License-Identifier: BSD-2-Clause
/* Messages of KV events against vectors of all engines. Run in the source tree's root. */
#include <errno.h>

#include "check.h"
#include "events/decode.h"
#include "events_vectors.h"

#define VECTORS "tests/vectors/events/kv-events.json"

static uint64_t number(yyjson_val *v)
{
	return yyjson_is_sint(v) ? (uint64_t)yyjson_get_sint(v) : yyjson_get_uint(v);
}

static void check_text(struct kv_bytes got, yyjson_val *want)
{
	const char *text = yyjson_get_str(want) ? yyjson_get_str(want) : "";

	CHECK_EQ(got.len, strlen(text));
	if (got.len == strlen(text) && got.len)
		CHECK_MEM(got.data, text, got.len);
}

static uint8_t want_tier(yyjson_val *event)
{
	const char *medium = yyjson_get_str(yyjson_obj_get(event, "medium"));

	return !medium || !strcmp(medium, "GPU") ? KV_TIER_GPU : KV_TIER_CPU;
}

static void check_event(const struct kv_batch *b, const struct kv_cache_event *e, yyjson_val *want)
{
	const char *type = yyjson_get_str(yyjson_obj_get(want, "type"));
	const char *spec = yyjson_get_str(yyjson_obj_get(want, "spec_kind"));
	yyjson_val *parent = yyjson_obj_get(want, "parent"), *item;
	yyjson_val *group = yyjson_obj_get(want, "group_idx");
	size_t i, max;

	CHECK_STR(e->kind == KV_EVENT_STORED	? "BlockStored"
		  : e->kind == KV_EVENT_REMOVED ? "BlockRemoved"
						: "AllBlocksCleared",
		  type);
	CHECK_EQ(e->n_hashes, yyjson_arr_size(yyjson_obj_get(want, "block_hashes")));
	yyjson_arr_foreach (yyjson_obj_get(want, "block_hashes"), i, max, item)
		CHECK_EQ(b->hashes[e->hash_at + i], number(item));
	CHECK_EQ(e->n_tokens, yyjson_arr_size(yyjson_obj_get(want, "token_ids")));
	yyjson_arr_foreach (yyjson_obj_get(want, "token_ids"), i, max, item)
		CHECK_EQ(b->tokens[e->token_at + i],
			 yyjson_get_uint(yyjson_is_arr(item) ? yyjson_arr_get_first(item) : item));
	CHECK_EQ(e->has_parent, number(parent) != 0);
	if (e->has_parent)
		CHECK_EQ(e->parent, number(parent));
	CHECK_EQ(e->block_size, yyjson_get_uint(yyjson_obj_get(want, "block_size")));
	CHECK_EQ(e->lora_id, yyjson_get_uint(yyjson_obj_get(want, "lora_id")));
	check_text(e->lora, yyjson_obj_get(want, "lora_name"));
	CHECK_EQ(e->tier, want_tier(want));
	CHECK_EQ(e->has_group, group != NULL);
	CHECK_EQ(e->group, yyjson_get_uint(group));
	CHECK_EQ(e->spec, !spec				    ? KV_SPEC_UNSAID
			  : !strcmp(spec, "full_attention") ? KV_SPEC_FULL
							    : KV_SPEC_OTHER);
	if (yyjson_obj_get(want, "cache_salt"))
		check_text(e->salt, yyjson_obj_get(want, "cache_salt"));
}

/* The named vector's batch; valid until the next. */
static const struct kv_batch *decoded(struct kv_decode *d, yyjson_val *vectors, const char *name)
{
	static unsigned char *message;
	size_t n;

	free(message);
	n = unhex(yyjson_get_str(yyjson_obj_get(vector_named(vectors, name), "hex")), &message);
	CHECK_EQ(kv_decode(d, message, n), 0);
	return kv_decode_batch(d);
}

static bool text_is(struct kv_bytes b, const char *text)
{
	return b.len == strlen(text) && !memcmp(b.data, text, b.len);
}

/* In steps of one byte what it is at once. */
static void check_steps(const unsigned char *message, size_t n, const struct kv_batch *whole,
			int expected)
{
	struct kv_decode *d = kv_decode_new();
	const struct kv_batch *b = kv_decode_batch(d);
	int ret;

	kv_decode_begin(d, message, n);
	do
		ret = kv_decode_step(d, 1);
	while (!ret);
	CHECK_EQ(ret < 0 ? ret : 0, expected);
	if (!expected) {
		CHECK_EQ(b->n_events, whole->n_events);
		CHECK_EQ(b->n_hashes, whole->n_hashes);
		CHECK_EQ(b->n_tokens, whole->n_tokens);
		CHECK(!b->n_tokens || !memcmp(b->tokens, whole->tokens, 4 * b->n_tokens));
	}
	kv_decode_free(d);
}

int main(void)
{
	yyjson_doc *doc = yyjson_read_file(VECTORS, 0, NULL, NULL);
	yyjson_val *vectors = yyjson_obj_get(yyjson_doc_get_root(doc), "vectors"), *v, *item;
	struct kv_decode *d = kv_decode_new();
	const struct kv_batch *b = kv_decode_batch(d);
	unsigned char *message;
	size_t i, max, j, max_j, n, good = 0, bad = 0;

	TEST("every vector: vLLM's eras, SGLang, TensorRT-LLM through Dynamo, simulator, malformed")
	{
		yyjson_arr_foreach (vectors, i, max, v) {
			yyjson_val *want = yyjson_obj_get(v, "expect");
			yyjson_val *rank = yyjson_obj_get(want, "dp_rank");
			bool ok = yyjson_get_bool(yyjson_obj_get(v, "ok")) &&
				  !strcmp(yyjson_get_str(yyjson_obj_get(v, "kind")), "payload");
			unsigned int failed = check_state.bad;

			n = unhex(yyjson_get_str(yyjson_obj_get(v, "hex")), &message);
			CHECK_EQ(kv_decode(d, message, n), ok ? 0 : -EBADMSG);
			check_steps(message, n, b, ok ? 0 : -EBADMSG);
			good += ok;
			bad += !ok;
			if (ok) {
				yyjson_val *events = yyjson_obj_get(want, "events");

				CHECK(b->ts == 1754000000.5 || b->ts == 1754000000);
				CHECK_EQ(b->rank,
					 yyjson_is_uint(rank) ? yyjson_get_sint(rank) : -1);
				CHECK_EQ(b->n_events, yyjson_arr_size(events));
				yyjson_arr_foreach (events, j, max_j, item)
					check_event(b, &b->events[j], item);
			}
			if (check_state.bad != failed)
				printf("# in %s\n", yyjson_get_str(yyjson_obj_get(v, "name")));
			free(message);
		}
		CHECK_EQ(good, 48);
		CHECK_EQ(bad, 18);
	}

	TEST("extra keys: LoRA's name, salt, pictures in both forms, embeddings")
	{
		decoded(d, vectors, "vllm-E-extra-keys-lora-salt");
		CHECK(text_is(b->events[0].lora, "sql-adapter"));
		CHECK(text_is(b->events[0].salt, "tenant-a"));
		CHECK_EQ(b->events[0].n_extras, 0);
		decoded(d, vectors, "vllm-E-extra-keys-mm");
		CHECK_EQ(b->events[0].n_extras, 2);
		CHECK_EQ(b->extras[0].hash, 0x6f1ed002ab559585);
		CHECK_EQ(b->extras[0].block, 0);
		CHECK_EQ(b->extras[1].block, 1);
		decoded(d, vectors, "vllm-E-extra-keys-mm-bare");
		CHECK_EQ(b->events[0].n_extras, 1);
		CHECK_EQ(b->events[0].salt.len, 0);
		CHECK_EQ(b->extras[0].hash, 0x6f1ed002ab559585);
		decoded(d, vectors, "vllm-E-extra-keys-embeds");
		CHECK_EQ(b->events[0].n_extras, 1);
		CHECK_EQ(b->events[0].salt.len, 0);
	}

	TEST("what is unknown is counted and skipped")
	{
		decoded(d, vectors, "unknown-event-type");
		CHECK_EQ(b->n_events, 1);
		CHECK_EQ(b->unknown_events, 2);
		decoded(d, vectors, "unknown-field-and-order");
		CHECK(b->unknown_fields > 0);
		CHECK_EQ(b->malformed_events, 0);
		decoded(d, vectors, "vllm-J-map-full");
		CHECK_EQ(b->unknown_fields, 0);
	}

	TEST("every truncation of every vector is refused or the same; any one byte changed is "
	     "harmless")
	{
		yyjson_arr_foreach (vectors, i, max, v) {
			n = unhex(yyjson_get_str(yyjson_obj_get(v, "hex")), &message);
			n = n < 400 ? n : 400;
			/* this one is whole without its end */
			bool garbage = !strcmp(yyjson_get_str(yyjson_obj_get(v, "name")),
					       "bad-trailing-garbage");

			for (size_t len = 0; len < n; len++) {
				unsigned char *part = malloc(len + !len);

				memcpy(part, message, len);
				CHECK(kv_decode(d, part, len) == -EBADMSG || garbage);
				free(part);
			}
			for (size_t at = 0; at < n; at++) {
				message[at] ^= 0x81;
				kv_decode(d, message, n);
				message[at] ^= 0x81;
			}
			free(message);
		}
	}

	TEST("malformed events are left out, their neighbours are not")
	{
		/* [0, [[BlockRemoved, 5], [BlockRemoved, [1.5]], [BlockRemoved, [7]]]] */
		static const char text[] = "\x92\x00\x93"
					   "\x92\xac"
					   "BlockRemoved\x05"
					   "\x92\xac"
					   "BlockRemoved\x91\xcb\0\0\0\0\0\0\0\0"
					   "\x92\xac"
					   "BlockRemoved\x91\x07";

		CHECK_EQ(kv_decode(d, text, sizeof(text) - 1), 0);
		CHECK_EQ(b->n_events, 1);
		CHECK_EQ(b->malformed_events, 2);
		CHECK_EQ(b->n_hashes, 1);
		CHECK_EQ(b->hashes[b->events[0].hash_at], 7);
	}
	decoded(d, vectors, "empty-events");
	kv_decode_free(d);
	yyjson_doc_free(doc);
	return check_done();
}
