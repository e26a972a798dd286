// SPDX-License-Identifier: BSD-2-Clause
/* What a body asks for. */
#include <string.h>

#include "completion.h"

#define DEFAULT_TOKENS 16
#define TOKENS_MAX 1000000

static bool value_after(struct slice body, const char *key, struct slice *ret)
{
	const char *at = memmem(body.p, body.n, key, strlen(key)), *end = body.p + body.n;

	if (!at)
		return false;
	for (at += strlen(key); at < end && (*at == ' ' || *at == ':'); at++)
		;
	*ret = (struct slice){at, end - at};
	return true;
}

void ask_glance(struct ask *ask, struct slice body)
{
	struct slice ends[2] = {{body.p, body.n < 256 ? body.n : 256}, {body.p, 0}}, v;

	ask->max_tokens = DEFAULT_TOKENS;
	if (body.n > 256)
		ends[1] = (struct slice){body.p + (body.n > 512 ? body.n - 256 : 256),
					 body.n > 512 ? 256 : body.n - 256};
	for (int i = 0; i < 2; i++) {
		if (value_after(ends[i], "\"stream\"", &v) && v.n && *v.p == 't')
			ask->stream = true;
		if (value_after(ends[i], "\"include_usage\"", &v) && v.n && *v.p == 't')
			ask->usage = true;
		if (value_after(ends[i], "\"max_tokens\"", &v))
			for (ask->max_tokens = 0;
			     v.n && *v.p >= '0' && *v.p <= '9' && ask->max_tokens < TOKENS_MAX;
			     v.p++, v.n--)
				ask->max_tokens = ask->max_tokens * 10 + (*v.p - '0');
	}
	if (!ask->max_tokens)
		ask->max_tokens = 1;
}

static uint64_t max_tokens(yyjson_val *root)
{
	static const char *const names[] = {"max_tokens", "max_completion_tokens",
					    "max_output_tokens"};
	yyjson_val *v = yyjson_obj_get(yyjson_obj_get(root, "sampling_params"), "max_new_tokens");

	for (size_t i = 0; i < sizeof(names) / sizeof(*names) && !yyjson_is_uint(v); i++)
		v = yyjson_obj_get(root, names[i]);
	return yyjson_is_uint(v) ? yyjson_get_uint(v) : DEFAULT_TOKENS;
}

int ask_read(struct ask *ask, struct slice body, int api, const char **ret_why)
{
	yyjson_val *root;

	ask->doc = yyjson_read(body.p, body.n, 0);
	root = yyjson_doc_get_root(ask->doc);
	*ret_why = "the body is not JSON";
	if (!ask->doc || prompts_read(root, api, &ask->prompts, ret_why))
		return -1;
	ask->max_tokens = max_tokens(root);
	if (!ask->max_tokens || ask->max_tokens > TOKENS_MAX) {
		*ret_why = "max_tokens is 1 to 1000000";
		return -1;
	}
	ask->model = yyjson_get_str(yyjson_obj_get(root, "model"));
	ask->salt = yyjson_get_str(yyjson_obj_get(root, "cache_salt"));
	ask->stream = yyjson_get_bool(yyjson_obj_get(root, "stream"));
	ask->usage = yyjson_get_bool(
		yyjson_obj_get(yyjson_obj_get(root, "stream_options"), "include_usage"));
	ask->until_close = yyjson_get_bool(yyjson_obj_get(root, "until_close"));
	return 0;
}

void ask_free(struct ask *ask)
{
	prompts_free(&ask->prompts);
	yyjson_doc_free(ask->doc);
}
