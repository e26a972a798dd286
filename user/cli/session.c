// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <kvsteer/request.h>

#include "common/cleanup.h"
#include "common/json.h"
#include "holder.h"
#include "table.h"
#include "tenant.h"

static int print_json(struct cli *cli, const struct view *view, const char *key, __u64 hash,
		      const struct kv_session *session)
{
	_cleanup_json_mut_ yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *root = yyjson_mut_obj(doc);

	yyjson_mut_obj_add_str(doc, root, "key", key);
	kv_json_add_hex(doc, root, "hash", hash);
	yyjson_mut_obj_add_bool(doc, root, "known", session);
	if (session) {
		yyjson_mut_obj_add_val(doc, root, "holder",
				       holder_json(doc, view, session->holder));
		yyjson_mut_obj_add_uint(doc, root, "prompt_tokens", session->total);
		yyjson_mut_obj_add_uint(doc, root, "body_bytes", session->body_len);
	}
	return cli_print(cli, doc, root);
}

static int session_lookup(struct cli *cli, int argc, char **argv)
{
	_cleanup_pins_ struct kv_pins *pins = NULL;
	_cleanup_free_ struct view *view = malloc(sizeof(*view));
	struct kv_session session;
	const char *as = NULL;
	const struct cli_option options[] = {{"--as", &as, NULL}, {0}};
	struct tenant tenant;
	__u64 hash;
	int rc = cli_arguments(cli, &argc, argv, options, 1, 1) ?: cli_pins(cli, &pins)
		?: view_take(cli, pins, false, view) ?: tenant_of(cli, pins, as, &tenant);

	if (rc)
		return rc;
	hash = tenant_hash(&tenant, kv_session_hash(argv[0], strlen(argv[0])));
	rc = kv_pins_lookup(pins, KV_PIN_kv_sessions, &hash, &session);
	if (rc && rc != -ENOENT)
		return cli_error(cli, "%s: cannot read the sessions: %s", cli->pin, strerror(-rc));
	cli_say_if_down(cli, pins);
	if (cli->json)
		return print_json(cli, view, argv[0], hash, rc ? NULL : &session);
	if (rc) {
		printf("session \"%s\": not known: its next request goes by load and prefix\n",
		       argv[0]);
		return CLI_OK;
	}
	printf("session \"%s\": last request of %llu bytes", argv[0],
	       (unsigned long long)session.body_len);
	if (session.total)
		printf(", %u tokens", session.total);
	putchar('\n');
	holder_table(view, &session.holder, 1);
	return CLI_OK;
}

const struct cli_verb session_verbs[] = {
	{"lookup", "KEY [--as TENANT]", "where requests with this session header value go",
	 session_lookup},
	{0},
};
