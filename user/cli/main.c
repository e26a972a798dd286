// SPDX-License-Identifier: BSD-2-Clause
/* kvsteer OBJECT VERB …: the tables, and how a word finds its row. */
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "common/config.h"

static const struct cli_object objects[] = {
	{"status", "", "is the agent alive, who decided how much, what is in use", do_status, NULL},
	{"top", "[SECONDS]", "status on a screen, drawn anew", do_top, NULL},
	{"service", "", "what clients connect to", NULL, service_verbs},
	{"backend", "", "inference servers", NULL, backend_verbs},
	{"prefix", "", "which backend is believed to hold which prompt", NULL, prefix_verbs},
	{"session", "", "which backend a session belongs to", NULL, session_verbs},
	{"counters", "[--nonzero]", "every way a packet or a request can go", do_counters, NULL},
	{"apply", "FILE", "make the running agent's configuration that of FILE", do_apply, NULL},
	{"restart", "[--binary PATH]",
	 "another agent takes over, of the program installed now or of PATH", do_restart, NULL},
	{"check", "FILE", "is FILE a configuration", do_check, NULL},
	{"hash", "[--path P] [--tokens] [--block N] [--model M] [--lora L] [--salt S] [--tenant T]",
	 "request body or token ids on stdin -> the KV-Prefix header", do_hash, NULL},
	{"explain",
	 "[FILE] [--hint KV-PREFIX] [--session KEY] [--service S] [--as TENANT] [options of hash]",
	 "where a request (its body in FILE or on stdin, or its hint) would go now, and why",
	 do_explain, NULL},
	{"trace", "[--follow] [--last N] [--service S] [--backend B] [--slow MS] [--why]",
	 "the last requests (20), or with --follow each one as it ends: where it went, why, what "
	 "became of it",
	 do_trace, NULL},
	{"record",
	 "[-o FILE] [--duration TIME] [--service S] [--sample 1/N] [--block TOKENS] "
	 "[--buffer BYTES] [--force]",
	 "live traffic as a trace for simulate: which prompts begin alike, no text, no hashes",
	 do_record, NULL},
	{"simulate",
	 "TRACE|--workload NAME [--policy LIST|all] [--speed LIST] [--backends N] [--blocks B] "
	 "[--block TOKENS] "
	 "[--rate TOKENS/S] [--events|--learned] [--metrics-delay S] [--plot FILE.svg] "
	 "[--learn-rates] [--no-sessions] [--slow ENGINE:FACTOR[@S],…] [--restart ENGINE@S,…] "
	 "[--agent-restart S,…] [--no-cache ENGINE|all[@S[-S]],…] [--affinity auto|full|off] "
	 "[--slice S] [--warmup S]",
	 "what this gateway would do for the traffic of a trace", do_simulate, NULL},
	{"version", "", "of this program and of the maps it reads", do_version, NULL},
	{0},
};

static void object_help(FILE *f, const struct cli_object *object)
{
	char left[128];

	if (object->run)
		fprintf(f, "  kvsteer %s%s%s\n      %s\n", object->name,
			*object->arguments ? " " : "", object->arguments, object->help);
	for (const struct cli_verb *v = object->verbs; v && v->name; v++) {
		snprintf(left, sizeof(left), "%s %s%s%s", object->name, v->name,
			 *v->arguments ? " " : "", v->arguments);
		fprintf(f, "  kvsteer %s\n      %s\n", left, v->help);
	}
}

static int help(FILE *f)
{
	fputs("usage: kvsteer [-j] [--pin DIR] [--control PATH] OBJECT [VERB] [ARGUMENT ...]\n\n",
	      f);
	for (const struct cli_object *o = objects; o->name; o++)
		object_help(f, o);
	fputs("\n"
	      "  -j, --json       one line of JSON\n"
	      "  --pin DIR        the agent's pinned maps (" KV_DEFAULT_PIN ")\n"
	      "  --control PATH   the agent's control socket (" KV_DEFAULT_CONTROL ")\n"
	      "  -h, --help       this; also: kvsteer help [OBJECT], kvsteer OBJECT help\n"
	      "  -V, --version\n\n"
	      "Objects and verbs may be cut short as long as they stay unique. Exit codes: 0 done, "
	      "1 failed, 2 wrong usage.\n",
	      f);
	return CLI_OK;
}

/* Names stand at the same place of rows of a given size. -1: unknown, -2: ambiguous. */
static int find_word(const void *rows, size_t size, const char *word)
{
	int found = -1;

	for (int i = 0;; i++) {
		const char *name = *(const char *const *)((const char *)rows + i * size);

		if (!name)
			return found;
		if (!strcmp(name, word))
			return i;
		if (!strncmp(name, word, strlen(word)))
			found = found == -1 ? i : -2;
	}
}

static int no_such_word(struct cli *cli, const char *kind, const char *word, int why)
{
	return cli_usage(cli, "%s %s \"%s\": see kvsteer help", why == -2 ? "ambiguous" : "unknown",
			 kind, word);
}

static int run_object(struct cli *cli, const struct cli_object *object, int argc, char **argv)
{
	int i;

	if (argc && !strcmp(argv[0], "help")) {
		object_help(stdout, object);
		return CLI_OK;
	}
	if (object->run)
		return object->run(cli, argc, argv);
	if (!argc)
		return cli_usage(cli, "%s: a verb is missing: see kvsteer %s help", object->name,
				 object->name);
	i = find_word(object->verbs, sizeof(*object->verbs), argv[0]);
	if (i < 0)
		return no_such_word(cli, "verb", argv[0], i);
	return object->verbs[i].run(cli, argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
	struct cli cli = {.pin = KV_DEFAULT_PIN};
	bool want_help = false, want_version = false;
	const struct cli_option globals[] = {
		{"-j", NULL, &cli.json},
		{"--json", NULL, &cli.json},
		{"--pin", &cli.pin, NULL},
		{"--control", &cli.control, NULL},
		{"-h", NULL, &want_help},
		{"--help", NULL, &want_help},
		{"-V", NULL, &want_version},
		{"--version", NULL, &want_version},
		{0},
	};
	int i, rc;

	setlocale(LC_CTYPE, ""); /* may the tables use block characters */
	argc--;
	argv++;
	rc = cli_options(&cli, &argc, argv, globals, true);
	if (rc)
		return rc;
	if (want_version)
		return do_version(&cli, 0, NULL);
	if (argc && !strcmp(argv[0], "help")) {
		want_help = true;
		argc--;
		argv++;
	}
	if (!argc && want_help)
		return help(stdout);
	if (!argc)
		return cli_usage(&cli, "nothing to do: see kvsteer help");
	i = find_word(objects, sizeof(*objects), argv[0]);
	if (i < 0)
		return no_such_word(&cli, "object", argv[0], i);
	if (want_help) {
		object_help(stdout, &objects[i]);
		return CLI_OK;
	}
	return run_object(&cli, &objects[i], argc - 1, argv + 1);
}
