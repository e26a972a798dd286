// SPDX-License-Identifier: BSD-2-Clause
/* JSON lines: Mooncake's form, and recordings with their head. */
#include <errno.h>
#include <yyjson.h>

#include "common/cleanup.h"
#include "sim/array.h"
#include "sim/trace_private.h"

static int read_length(struct trace_reader *r, yyjson_val *root, const char *key, uint64_t least,
		       uint32_t *ret, char *err)
{
	yyjson_val *v = yyjson_obj_get(root, key);

	if (!v)
		return trace_wrong(r, err, "\"%s\" is missing: expected tokens", key);
	if (!yyjson_is_uint(v) || yyjson_get_uint(v) < least ||
	    yyjson_get_uint(v) > TRACE_TOKENS_MAX)
		return trace_wrong(r, err, "\"%s\": expected tokens, a whole number from %d to %u",
				   key, (int)least, TRACE_TOKENS_MAX);
	*ret = yyjson_get_uint(v);
	return 0;
}

/* Of a recording it need not be known. */
static int read_output(struct trace_reader *r, yyjson_val *root, struct trace_line *ret, char *err)
{
	if (r->head.block_tokens && !yyjson_obj_get(root, "output_length"))
		return 0;
	return read_length(r, root, "output_length", 0, &ret->output_tokens, err);
}

static int read_ids(struct trace_reader *r, yyjson_val *root, struct trace_line *ret, char *err)
{
	yyjson_val *ids = yyjson_obj_get(root, "hash_ids"), *id;
	uint64_t want = r->head.block_tokens
				? trace_recorded_blocks(ret->input_tokens, r->block)
				: (ret->input_tokens + (uint64_t)r->block - 1) / r->block;
	size_t i, max, n = yyjson_arr_size(ids);

	if (!yyjson_is_arr(ids))
		return trace_wrong(
			r, err,
			"\"hash_ids\" is %s: expected an array of whole numbers, one per "
			"block",
			ids ? "no array" : "missing");
	if (n != want)
		return trace_wrong(
			r, err,
			"%zu hash_ids for %u tokens: expected %llu, as blocks have %u tokens "
			"(--block)",
			n, ret->input_tokens, (unsigned long long)want, r->block);
	if (sim_array_room((void **)&r->ids, &r->ids_room, n, sizeof(*r->ids)))
		return -ENOMEM;
	yyjson_arr_foreach (ids, i, max, id) {
		if (!yyjson_is_uint(id))
			return trace_wrong(r, err, "hash_ids[%zu]: expected a whole number", i);
		r->ids[i] = yyjson_get_uint(id);
	}
	ret->ids = r->ids;
	ret->n_ids = n;
	return 0;
}

static int read_boundaries(struct trace_reader *r, yyjson_val *root, struct trace_line *ret,
			   char *err)
{
	yyjson_val *list = yyjson_obj_get(root, "boundaries"), *v;
	size_t i, max, n = yyjson_arr_size(list);
	uint32_t last = 0;

	if (list && !yyjson_is_arr(list))
		return trace_wrong(r, err, "\"boundaries\" is no array: expected depths in tokens");
	if (sim_array_room((void **)&r->boundaries, &r->boundaries_room, n, sizeof(*r->boundaries)))
		return -ENOMEM;
	yyjson_arr_foreach (list, i, max, v) {
		if (!yyjson_is_uint(v) || yyjson_get_uint(v) < last ||
		    yyjson_get_uint(v) > ret->input_tokens)
			return trace_wrong(
				r, err,
				"boundaries[%zu]: expected rising depths in tokens, up to %u", i,
				ret->input_tokens);
		r->boundaries[i] = last = yyjson_get_uint(v);
	}
	ret->boundaries = r->boundaries;
	ret->n_boundaries = n;
	return 0;
}

static int read_session(struct trace_reader *r, yyjson_val *root, struct trace_line *ret, char *err)
{
	yyjson_val *session = yyjson_obj_get(root, "session");

	if (session && (!yyjson_is_uint(session) || !yyjson_get_uint(session)))
		return trace_wrong(r, err, "\"session\": expected a whole number from 1 on");
	ret->session = yyjson_get_uint(session);
	return 0;
}

int trace_json_line(struct trace_reader *r, size_t len, struct trace_line *ret, char *err)
{
	yyjson_read_err why;
	_cleanup_json_ yyjson_doc *doc = yyjson_read_opts(r->line, len, 0, NULL, &why);
	yyjson_val *root = yyjson_doc_get_root(doc), *at;

	if (!doc)
		return trace_wrong(
			r, err,
			"no JSON (byte %zu: %s): expected one object a line with timestamp, "
			"input_length, output_length, hash_ids",
			why.pos + 1, why.msg);
	if (!yyjson_is_obj(root))
		return trace_wrong(
			r, err,
			"expected an object with timestamp, input_length, output_length, "
			"hash_ids");
	at = yyjson_obj_get(root, "timestamp");
	if (!yyjson_is_num(at) || !(yyjson_get_num(at) >= 0 && yyjson_get_num(at) < 1e15))
		return trace_wrong(r, err,
				   "\"timestamp\"%s: expected milliseconds, a number from 0 on",
				   at ? "" : " is missing");
	ret->at_s = yyjson_get_num(at) / 1000;
	return read_length(r, root, "input_length", 1, &ret->input_tokens, err)
	       ?: read_output(r, root, ret, err)
	       ?: read_session(r, root, ret, err)
	       ?: read_ids(r, root, ret, err)
	       ?: read_boundaries(r, root, ret, err);
}

/* ---- a recording's head --------------------------------------------------------------- */

static int read_head(struct trace_reader *r, yyjson_val *root, char *err)
{
	yyjson_val *block = yyjson_obj_get(root, "block_tokens");
	uint64_t backends = yyjson_get_uint(yyjson_obj_get(root, "backends"));
	double rate = yyjson_get_num(yyjson_obj_get(root, "rate_tokens_per_s"));

	if (yyjson_get_uint(yyjson_obj_get(root, TRACE_HEAD_KEY)) != TRACE_HEAD_VERSION)
		return trace_wrong(
			r, err,
			"a recording of another form than this program's: use the kvsteer that "
			"recorded it");
	if (!yyjson_is_uint(block) || !yyjson_get_uint(block) ||
	    yyjson_get_uint(block) > TRACE_BLOCK_MAX)
		return trace_wrong(r, err, "\"block_tokens\": expected a whole number from 1 to %u",
				   TRACE_BLOCK_MAX);
	if (r->asked && r->asked != yyjson_get_uint(block))
		return trace_wrong(r, err,
				   "recorded in blocks of %llu tokens: expected no other --block",
				   (unsigned long long)yyjson_get_uint(block));
	r->head = (struct trace_head){
		.block_tokens = yyjson_get_uint(block),
		.backends = backends <= UINT32_MAX ? backends : 0,
		.cache_tokens = yyjson_get_uint(yyjson_obj_get(root, "cache_tokens")),
		.rate = rate > 0 ? rate : 0,
	};
	r->block = r->head.block_tokens;
	return 0;
}

int trace_json_head(struct trace_reader *r, size_t len, char *err)
{
	_cleanup_json_ yyjson_doc *doc = NULL;
	yyjson_val *root;

	if (r->line[0] != '{')
		return 0;
	doc = yyjson_read(r->line, len, 0);
	root = yyjson_doc_get_root(doc);
	if (!yyjson_obj_get(root, TRACE_HEAD_KEY))
		return 0;
	return read_head(r, root, err) ?: 1;
}
