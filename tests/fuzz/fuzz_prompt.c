// SPDX-License-Identifier: BSD-2-Clause
/*
 * Bodies of any bytes. The first byte chooses path and options. What must hold:
 *  - our reader takes for JSON what yyjson takes for JSON; the other way round but for strings
 *    that are not UTF-8, which it does not look into, and nesting that it bounds;
 *  - white space between the tokens of a body changes nothing;
 *  - nor does yyjson's way to write the body, with other escapes;
 *  - the header of a prompt fits, rungs rise.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "kvsteer.h"
#include "lib/facts.h"
#include "lib/json.h"

static const char *const paths[] = {
	NULL,		"/v1/chat/completions", "/v1/completions",
	"/v1/messages", "/v1/responses",	"/generate",
};

static void check_reader(const char *text, size_t len)
{
	struct kv_value root;
	struct kv_json json;
	int ours = kv_json_open(&json, text, len, &root);
	const char *reason = json.reason;
	yyjson_read_err err;
	yyjson_doc *doc;

	kv_json_close(&json);
	doc = yyjson_read_opts((char *)text, len, YYJSON_READ_NUMBER_AS_RAW, NULL, &err);
	yyjson_doc_free(doc);
	if (ours && doc && !strstr(reason, "deep"))
		abort();
	if (!ours && !doc && err.code != YYJSON_READ_ERROR_INVALID_STRING)
		abort();
}

static void check_same(const struct kvsteer_prompt *a, int err_a, const char *path,
		       const char *body, size_t len, const struct kvsteer_options *opts)
{
	struct kvsteer_prompt b;

	struct kv_facts facts = {}, alone;

	if (kv_body(path, body, len, opts, &b, &facts) != err_a)
		abort();
	kv_body_facts(body, len, &alone);
	if (facts.model_len > KV_FACTS_MODEL + 1 ||
	    (!err_a && memcmp(&facts, &alone, sizeof(facts))))
		abort();
	if (!err_a && (a->total != b.total || a->seed != b.seed || a->n_rungs != b.n_rungs ||
		       memcmp(a->rungs, b.rungs, a->n_rungs * sizeof(a->rungs[0]))))
		abort();
}

/* A copy with white space around every token outside strings, in memory of the exact size. */
static char *spread(const char *text, size_t len, size_t *ret_len)
{
	char *out = malloc(3 * len + 1), *p = out, *exact;
	int in_string = 0;

	for (size_t i = 0; i < len; i++) {
		if (in_string) {
			*p++ = text[i];
			if (text[i] == '\\' && i + 1 < len)
				*p++ = text[++i];
			else if (text[i] == '"')
				in_string = 0;
		} else if (strchr("{}[]:,", text[i]) && text[i]) {
			*p++ = " \n\t\r"[i % 4];
			*p++ = text[i];
			*p++ = ' ';
		} else {
			in_string = text[i] == '"';
			*p++ = text[i];
		}
	}
	*ret_len = p - out;
	exact = malloc(*ret_len + 1);
	memcpy(exact, out, *ret_len);
	free(out);
	return realloc(exact, *ret_len + !*ret_len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kvsteer_options opts = {};
	struct kvsteer_prompt prompt;
	char header[KVSTEER_HEADER_SIZE];
	const char *path, *body;
	yyjson_doc *doc;
	char *copy;
	size_t len;
	int err;

	if (!size)
		return 0;
	path = paths[data[0] % 6];
	opts.flags = data[0] & 64 ? KVSTEER_USER_IS_TENANT : 0;
	opts.block = data[0] & 128 ? 1 : 0;
	body = (const char *)data + 1;
	size--;
	check_reader(body, size);
	err = kvsteer_body(path, body, size, &opts, &prompt);
	if (!err != !prompt.reason || (err && prompt.n_rungs))
		abort();
	for (uint32_t i = 0; i < prompt.n_rungs; i++)
		if (prompt.rungs[i].depth > prompt.total || !prompt.rungs[i].depth ||
		    (i && prompt.rungs[i].depth <= prompt.rungs[i - 1].depth))
			abort();
	if (!err && kvsteer_header(&prompt, header, sizeof(header)) != (int)strlen(header))
		abort();

	copy = spread(body, size, &len);
	check_same(&prompt, err, path, copy, len, &opts);
	free(copy);

	doc = yyjson_read(body, size, YYJSON_READ_NUMBER_AS_RAW);
	copy = yyjson_write(doc,
			    data[0] & 32 ? YYJSON_WRITE_ESCAPE_UNICODE | YYJSON_WRITE_PRETTY
					 : YYJSON_WRITE_ESCAPE_SLASHES,
			    &len);
	yyjson_doc_free(doc);
	if (copy)
		check_same(&prompt, err, path, copy, len, &opts);
	free(copy);
	return 0;
}
