// SPDX-License-Identifier: BSD-2-Clause
#include <stdio.h>

#include "cli.h"
#include "common/cleanup.h"
#include "common/version.h"

int do_version(struct cli *cli, int argc, char **argv)
{
	int rc = cli_arguments(cli, &argc, argv, NULL, 0, 0);

	if (rc)
		return rc;
	if (cli->json) {
		_cleanup_json_mut_ yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
		yyjson_mut_val *root = yyjson_mut_obj(doc);

		yyjson_mut_obj_add_str(doc, root, "version", kv_version);
		yyjson_mut_obj_add_uint(doc, root, "schema", KV_SCHEMA);
		return cli_print(cli, doc, root);
	}
	printf("kvsteer %s, map schema %d\n", kv_version, KV_SCHEMA);
	return CLI_OK;
}
