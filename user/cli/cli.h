/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What all verbs share: their tables, options, errors. One document per call: text, or with -j one
 * line of JSON on stdout, errors too.
 */
#ifndef KVSTEER_CLI_H
#define KVSTEER_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <yyjson.h>

#include "common/pins.h"

/* Exit codes. */
enum {
	CLI_OK = 0,
	CLI_FAILED = 1,
	CLI_USAGE = 2,
};

struct cli {
	bool json;
	const char *pin;
	const char *control; /* NULL: not given */
};

/* argc and argv hold what follows the verb, options already taken out. Returns an exit code. */
typedef int (*cli_fn)(struct cli *cli, int argc, char **argv);

struct cli_verb {
	const char *name;
	const char *arguments; /* as in the synopsis, "" for none */
	const char *help;      /* one line */
	cli_fn run;
};

/* Either verbs (ended by a nameless one) or run. */
struct cli_object {
	const char *name;
	const char *arguments;
	const char *help;
	cli_fn run;
	const struct cli_verb *verbs;
};

extern const struct cli_verb service_verbs[], backend_verbs[], prefix_verbs[], session_verbs[];
int do_status(struct cli *cli, int argc, char **argv);
int do_top(struct cli *cli, int argc, char **argv);
int do_counters(struct cli *cli, int argc, char **argv);
int do_apply(struct cli *cli, int argc, char **argv);
int do_record(struct cli *cli, int argc, char **argv);
int do_restart(struct cli *cli, int argc, char **argv);
int do_check(struct cli *cli, int argc, char **argv);
int do_explain(struct cli *cli, int argc, char **argv);
int do_hash(struct cli *cli, int argc, char **argv);
int do_simulate(struct cli *cli, int argc, char **argv);
int do_prefix_lookup(struct cli *cli, int argc, char **argv);
int do_trace(struct cli *cli, int argc, char **argv);
int do_version(struct cli *cli, int argc, char **argv);

/* An option of a verb: with value set it takes one, else flag becomes true. */
struct cli_option {
	const char *name; /* "--path" */
	const char **value;
	bool *flag;
};

/* Takes the options out of argv, wherever they stand; what is left has *argc words. Ended by a
 * nameless option. others: leave unknown options alone, for a later call. 0, or an exit code after
 * an error was told. */
int cli_options(struct cli *cli, int *argc, char **argv, const struct cli_option *options,
		bool others);

/* As cli_options, then a usage error unless min to max words are left. */
int cli_arguments(struct cli *cli, int *argc, char **argv, const struct cli_option *options,
		  int min, int max);

/* Tell an error on stderr, or as {"error": …} on stdout; return CLI_FAILED and CLI_USAGE. */
int cli_error(struct cli *cli, const char *format, ...) __attribute__((format(printf, 2, 3)));
int cli_usage(struct cli *cli, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Opens the pinned maps for reading; 0, or an exit code after the error was told. */
int cli_pins(struct cli *cli, struct kv_pins **ret);
/* On stderr, unless JSON is asked for: says that what follows was left by an agent that is gone. */
void cli_say_if_down(struct cli *cli, const struct kv_pins *pins);

/* Prints root as the one document and returns an exit code. */
int cli_print(struct cli *cli, yyjson_mut_doc *doc, yyjson_mut_val *root);

/* Up to 64 MiB of stdin, NUL-terminated beyond len; NULL after the error was told. */
char *cli_stdin(struct cli *cli, size_t *ret_len);
/* The same of a file; "-" or NULL is stdin. */
char *cli_file(struct cli *cli, const char *path, size_t *ret_len);

#endif
