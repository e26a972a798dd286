// SPDX-License-Identifier: BSD-2-Clause
#include "cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/config.h"
#include "common/json.h"

#define STDIN_MAX (64u << 20)

static int tell(struct cli *cli, int code, const char *format, va_list args)
{
	char message[1024];

	vsnprintf(message, sizeof(message), format, args);
	if (cli->json) {
		_cleanup_json_mut_ yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
		yyjson_mut_val *root = yyjson_mut_obj(doc);

		yyjson_mut_doc_set_root(doc, root);
		yyjson_mut_obj_add_str(doc, root, "error", message);
		/* A message with bytes that are not UTF-8 cannot be a JSON string. */
		if (kv_json_print(stdout, doc))
			puts("{\"error\":\"not told: it is not UTF-8\"}");
	} else {
		fprintf(stderr, "kvsteer: %s\n", message);
	}
	return code;
}

int cli_error(struct cli *cli, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	tell(cli, CLI_FAILED, format, args);
	va_end(args);
	return CLI_FAILED;
}

int cli_usage(struct cli *cli, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	tell(cli, CLI_USAGE, format, args);
	va_end(args);
	return CLI_USAGE;
}

/* ---- options -------------------------------------------------------------------------- */

static const struct cli_option *find_option(const struct cli_option *options, const char *word,
					    size_t len)
{
	for (; options->name; options++)
		if (strlen(options->name) == len && !memcmp(options->name, word, len))
			return options;
	return NULL;
}

int cli_options(struct cli *cli, int *argc, char **argv, const struct cli_option *options,
		bool others)
{
	int left = 0;

	for (int i = 0; i < *argc; i++) {
		const char *word = argv[i], *equals = strchr(word, '=');
		size_t len = equals && word[0] == '-' ? (size_t)(equals - word) : strlen(word);
		const struct cli_option *option = find_option(options, word, len);

		if (!strcmp(word, "--")) {
			if (others)
				argv[left++] = argv[i];
			while (++i < *argc)
				argv[left++] = argv[i];
			break;
		}
		if (!option) {
			if (!others && word[0] == '-' && word[1])
				return cli_usage(cli, "unknown option %s: see kvsteer help", word);
			argv[left++] = argv[i];
		} else if (option->flag) {
			if (word[len])
				return cli_usage(cli, "option %s takes no value", option->name);
			*option->flag = true;
		} else if (word[len]) {
			*option->value = word + len + 1;
		} else if (i + 1 < *argc) {
			*option->value = argv[++i];
		} else {
			return cli_usage(cli, "option %s needs a value", option->name);
		}
	}
	*argc = left;
	return 0;
}

int cli_arguments(struct cli *cli, int *argc, char **argv, const struct cli_option *options,
		  int min, int max)
{
	static const struct cli_option none = {0};
	int rc = cli_options(cli, argc, argv, options ?: &none, false);

	if (rc)
		return rc;
	if (*argc < min)
		return cli_usage(cli, "an argument is missing: see kvsteer help");
	if (*argc > max)
		return cli_usage(cli, "\"%s\" is one argument too many: see kvsteer help",
				 argv[max]);
	return 0;
}

/* ---- input and output ----------------------------------------------------------------- */

int cli_pins(struct cli *cli, struct kv_pins **ret)
{
	char err[KV_CONFIG_ERROR_LEN];

	if (kv_pins_open(cli->pin, false, ret, err, sizeof(err)))
		return cli_error(cli, "%s", err);
	return 0;
}

void cli_say_if_down(struct cli *cli, const struct kv_pins *pins)
{
	if (!cli->json && !kv_meta_alive(&pins->meta, kv_now_ns()))
		fprintf(stderr, "kvsteer: kvsteerd is down: this is what it left in %s\n",
			cli->pin);
}

int cli_print(struct cli *cli, yyjson_mut_doc *doc, yyjson_mut_val *root)
{
	int err;

	yyjson_mut_doc_set_root(doc, root);
	err = kv_json_print(stdout, doc);
	return err ? cli_error(cli, "cannot write: %s", strerror(-err)) : CLI_OK;
}

static char *read_all(struct cli *cli, FILE *f, const char *name, size_t *ret_len)
{
	_cleanup_free_ char *data = NULL;
	size_t len = 0, room = 0, n;

	do {
		if (room - len < 4096) {
			char *more = realloc(data, room = room ? 2 * room : 65536);

			if (!more) {
				cli_error(cli, "out of memory");
				return NULL;
			}
			data = more;
		}
		n = fread(data + len, 1, room - len - 1, f);
		len += n;
	} while (n && len <= STDIN_MAX);
	if (ferror(f)) {
		cli_error(cli, "cannot read %s: %s", name, strerror(errno));
		return NULL;
	}
	if (len > STDIN_MAX) {
		cli_error(cli, "more than 64MiB %s %s", f == stdin ? "on" : "in", name);
		return NULL;
	}
	data[len] = 0;
	*ret_len = len;
	return kv_take(data);
}

char *cli_stdin(struct cli *cli, size_t *ret_len)
{
	return read_all(cli, stdin, "stdin", ret_len);
}

char *cli_file(struct cli *cli, const char *path, size_t *ret_len)
{
	_cleanup_fclose_ FILE *f = NULL;

	if (!path || !strcmp(path, "-"))
		return cli_stdin(cli, ret_len);
	f = fopen(path, "re");
	if (f)
		return read_all(cli, f, path, ret_len);
	cli_error(cli, "cannot read %s: %s", path, strerror(errno));
	return NULL;
}
