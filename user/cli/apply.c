// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "common/cleanup.h"
#include "common/config.h"
#include "control.h"

static int load(struct cli *cli, const char *path, struct kv_config **ret)
{
	char err[KV_CONFIG_ERROR_LEN];

	if (kv_config_load(path, ret, err, sizeof(err)))
		return cli_error(cli, "%s", err);
	return 0;
}

static int read_text(struct cli *cli, const char *path, char **ret, size_t *ret_len)
{
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	size_t room = 0;
	ssize_t n;

	if (!f)
		return cli_error(cli, "%s: cannot read: %s", path, strerror(errno));
	*ret = NULL;
	n = getdelim(ret, &room, 0, f);
	if (n < 0)
		return cli_error(cli, "%s: cannot read: %s", path, strerror(errno));
	*ret_len = n;
	return 0;
}

static int print_changes(yyjson_val *answer, const char *path)
{
	yyjson_val *changes = yyjson_obj_get(answer, "changes"), *change;
	size_t i, n;

	if (!yyjson_arr_size(changes))
		printf("%s: nothing changes\n", path);
	yyjson_arr_foreach (changes, i, n, change)
		puts(yyjson_get_str(change) ?: "");
	return CLI_OK;
}

/* Checked here first: the message then names the file, also while the agent is down. */
int do_apply(struct cli *cli, int argc, char **argv)
{
	_cleanup_json_mut_ yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *request = control_request(doc, "apply");
	_cleanup_config_ struct kv_config *config = NULL;
	_cleanup_json_ yyjson_doc *answer = NULL;
	_cleanup_json_mut_ yyjson_mut_doc *copy = NULL;
	_cleanup_free_ char *text = NULL;
	size_t len = 0;
	int rc = cli_arguments(cli, &argc, argv, NULL, 1, 1) ?: load(cli, argv[0], &config)
		?: read_text(cli, argv[0], &text, &len);

	if (rc)
		return rc;
	if (!cli->control)
		cli->control = config->control;
	yyjson_mut_obj_add_str(doc, request, "file", argv[0]);
	yyjson_mut_obj_add_strn(doc, request, "config", text, len);
	rc = control_call(cli, doc, &answer);
	if (rc)
		return rc;
	if (!cli->json)
		return print_changes(yyjson_doc_get_root(answer), argv[0]);
	copy = yyjson_doc_mut_copy(answer, NULL);
	return cli_print(cli, copy, yyjson_mut_doc_get_root(copy));
}

int do_check(struct cli *cli, int argc, char **argv)
{
	_cleanup_config_ struct kv_config *config = NULL;
	__u32 backends = 0;
	int rc = cli_arguments(cli, &argc, argv, NULL, 1, 1) ?: load(cli, argv[0], &config);

	if (rc)
		return rc;
	for (__u32 i = 0; i < config->n_services; i++)
		backends += config->services[i].n_backends;
	if (cli->json) {
		_cleanup_json_mut_ yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
		yyjson_mut_val *root = yyjson_mut_obj(doc);

		yyjson_mut_obj_add_bool(doc, root, "ok", true);
		yyjson_mut_obj_add_str(doc, root, "file", argv[0]);
		yyjson_mut_obj_add_uint(doc, root, "services", config->n_services);
		yyjson_mut_obj_add_uint(doc, root, "backends", backends);
		return cli_print(cli, doc, root);
	}
	printf("%s: good: %u service%s, %u backend%s\n", argv[0], config->n_services,
	       config->n_services == 1 ? "" : "s", backends, backends == 1 ? "" : "s");
	return CLI_OK;
}
