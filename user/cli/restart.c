// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli.h"
#include "common/cleanup.h"
#include "control.h"

#define START_MS 60000 /* for the programs to be loaded */
#define LOOK_MS 50

/* The agent that beats now, if it is another one than before. */
static bool another(struct cli *cli, __u32 before, struct kv_meta *ret)
{
	_cleanup_pins_ struct kv_pins *pins = NULL;
	char err[512];

	if (kv_pins_open(cli->pin, false, &pins, err, sizeof(err)))
		return false;
	*ret = pins->meta;
	return ret->agent_pid != before && kv_meta_alive(ret, kv_now_ns());
}

/* The program that runs is the one that was to: the agent falls back to the former one if the new
 * one does not get to serve. */
static int check_program(struct cli *cli, const char *wanted)
{
	_cleanup_json_mut_ yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
	_cleanup_json_ yyjson_doc *answer = NULL;
	const char *program;
	int rc;

	control_request(doc, "status");
	rc = control_call(cli, doc, &answer);
	if (rc)
		return rc;
	program = yyjson_get_str(yyjson_obj_get(yyjson_doc_get_root(answer), "program"));
	if (program && !strcmp(program, wanted))
		return CLI_OK;
	return cli_error(cli, "%s did not get to serve; the program before does again: see its log",
			 wanted);
}

static int tell(struct cli *cli, __u32 before, const struct kv_meta *meta, bool new_maps)
{
	_cleanup_json_mut_ yyjson_mut_doc *doc = NULL;
	yyjson_mut_val *root;

	if (!cli->json) {
		printf("kvsteerd %.32s, pid %u, has taken over from pid %u%s\n", meta->version,
		       meta->agent_pid, before, new_maps ? ", with new maps" : "");
		return CLI_OK;
	}
	doc = yyjson_mut_doc_new(NULL);
	root = yyjson_mut_obj(doc);
	yyjson_mut_obj_add_bool(doc, root, "ok", true);
	yyjson_mut_obj_add_uint(doc, root, "before", before);
	yyjson_mut_obj_add_uint(doc, root, "pid", meta->agent_pid);
	yyjson_mut_obj_add_strcpy(doc, root, "version", meta->version);
	yyjson_mut_obj_add_bool(doc, root, "new_maps", new_maps);
	return cli_print(cli, doc, root);
}

static int wait_for(struct cli *cli, yyjson_val *answer)
{
	__u32 before = yyjson_get_uint(yyjson_obj_get(answer, "pid"));
	bool new_maps = yyjson_get_bool(yyjson_obj_get(answer, "new_maps"));
	__u64 left_ms = yyjson_get_uint(yyjson_obj_get(answer, "drain_ms")) + START_MS;
	const struct timespec look = {.tv_nsec = LOOK_MS * 1000000};
	struct kv_meta meta = {};

	if (new_maps && !cli->json)
		fputs("its maps are laid out otherwise: running requests end first, new "
		      "connections wait\n",
		      stderr);
	while (!another(cli, before, &meta)) {
		if (left_ms < LOOK_MS)
			return cli_error(cli, "no other agent after %llu s: see its log",
					 (unsigned long long)(START_MS / 1000));
		left_ms -= LOOK_MS;
		nanosleep(&look, NULL);
	}
	return check_program(cli, yyjson_get_str(yyjson_obj_get(answer, "program")) ?: "")
		       ?: tell(cli, before, &meta, new_maps);
}

int do_restart(struct cli *cli, int argc, char **argv)
{
	_cleanup_json_mut_ yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *request = control_request(doc, "restart");
	_cleanup_json_ yyjson_doc *answer = NULL;
	const char *binary = NULL;
	const struct cli_option options[] = {{"--binary", &binary, NULL}, {0}};
	_cleanup_free_ char *path = NULL;
	int rc = cli_arguments(cli, &argc, argv, options, 0, 0);

	if (rc)
		return rc;
	if (binary) {
		path = realpath(binary, NULL);
		if (!path)
			return cli_error(cli, "%s: %m", binary);
		yyjson_mut_obj_add_str(doc, request, "program", path);
	}
	rc = control_call(cli, doc, &answer);
	return rc ? rc : wait_for(cli, yyjson_doc_get_root(answer));
}
