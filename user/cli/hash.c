// SPDX-License-Identifier: BSD-2-Clause
#include "hash.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/config_values.h"
#include "common/json.h"

#define SEPARATORS " \t\r\n,[]"

/* Token ids in any list form: "1 2 3", "1,2,3", a JSON array. */
static int read_tokens(struct cli *cli, const char *from, const char *text, uint32_t **ret,
		       size_t *ret_n)
{
	_cleanup_free_ uint32_t *ids = NULL;
	size_t n = 0, room = 0;

	for (text += strspn(text, SEPARATORS); *text; text += strspn(text, SEPARATORS)) {
		size_t len = strcspn(text, SEPARATORS);
		char word[16];
		__u64 id;

		snprintf(word, sizeof(word), "%.*s", (int)len, text);
		if (len >= sizeof(word) || kv_parse_count(word, &id) || id > UINT32_MAX)
			return cli_error(cli,
					 "%s: \"%s\" is not a token id: expected whole "
					 "numbers below 2^32",
					 from, word);
		if (n == room) {
			uint32_t *more = realloc(ids, (room = room ? 2 * room : 4096) * 4);

			if (!more)
				return cli_error(cli, "out of memory");
			ids = more;
		}
		ids[n++] = id;
		text += len;
	}
	if (!n)
		return cli_error(cli, "%s: no token ids", from);
	*ret = kv_take(ids);
	*ret_n = n;
	return 0;
}

int hash_prompt(struct cli *cli, const struct hash_options *o, const char *data, size_t len,
		struct kvsteer_prompt *ret)
{
	struct kvsteer_options options = {
		.model = o->model,
		.lora = o->lora,
		.salt = o->salt,
		.tenant = o->tenant,
	};
	const char *from = o->from ?: "stdin";
	_cleanup_free_ uint32_t *ids = NULL;
	__u64 block = 0;
	size_t n = 0;
	int rc;

	if (o->block && (kv_parse_count(o->block, &block) || !block || block > 65536))
		return cli_usage(cli, "--block: found \"%s\": expected tokens from 1 to 65536",
				 o->block);
	options.block = block;
	if (o->tokens) {
		rc = read_tokens(cli, from, data, &ids, &n);
		if (rc)
			return rc;
		rc = kvsteer_tokens(ids, n, block, &options, ret);
	} else {
		rc = kvsteer_body(o->path, data, len, &options, ret);
	}
	if (rc)
		return cli_error(cli, "%s: %s", from, ret->reason ?: strerror(-rc));
	return 0;
}

static int print_json(struct cli *cli, const struct kvsteer_prompt *prompt, const char *value)
{
	_cleanup_json_mut_ yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *root = yyjson_mut_obj(doc), *list;

	yyjson_mut_obj_add_str(doc, root, "header", KVSTEER_HEADER_NAME);
	yyjson_mut_obj_add_str(doc, root, "value", value);
	yyjson_mut_obj_add_str(doc, root, "domain",
			       prompt->domain == KVSTEER_TOKENS ? "tokens" : "text");
	yyjson_mut_obj_add_uint(doc, root, "total", prompt->total);
	yyjson_mut_obj_add_uint(doc, root, "block", prompt->block);
	list = yyjson_mut_obj_add_arr(doc, root, "rungs");
	for (__u32 i = 0; i < prompt->n_rungs; i++) {
		yyjson_mut_val *rung = yyjson_mut_arr_add_obj(doc, list);

		yyjson_mut_obj_add_uint(doc, rung, "depth", prompt->rungs[i].depth);
		kv_json_add_hex(doc, rung, "hash", prompt->rungs[i].hash);
	}
	return cli_print(cli, doc, root);
}

int do_hash(struct cli *cli, int argc, char **argv)
{
	struct hash_options o = {0};
	const struct cli_option options[] = {HASH_OPTIONS(o), {0}};
	struct kvsteer_prompt prompt;
	char value[KVSTEER_HEADER_SIZE];
	_cleanup_free_ char *data = NULL;
	size_t len;
	int rc = cli_arguments(cli, &argc, argv, options, 0, 0);

	if (rc)
		return rc;
	data = cli_stdin(cli, &len);
	if (!data)
		return CLI_FAILED;
	rc = hash_prompt(cli, &o, data, len, &prompt);
	if (rc)
		return rc;
	if (!prompt.n_rungs)
		return cli_error(cli,
				 "stdin: the prompt is shorter than one block (%u tokens): it "
				 "has no prefix",
				 prompt.block);
	rc = kvsteer_header(&prompt, value, sizeof(value));
	if (rc < 0)
		return cli_error(cli, "cannot write the header: %s", strerror(-rc));
	if (cli->json)
		return print_json(cli, &prompt, value);
	printf(KVSTEER_HEADER_NAME ": %s\n", value);
	return CLI_OK;
}
