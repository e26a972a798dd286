// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <kvsteer/prefixes.h>

#include "common/cleanup.h"
#include "common/json.h"
#include "holder.h"
#include "steering.h"
#include "table.h"

struct census {
	const struct view *view;
	__u64 entries;
	__u64 holders[KV_MAX_BACKENDS];
	__u64 live[KV_MAX_BACKENDS];
	__u64 tentative[KV_MAX_BACKENDS];
};

static void count_prefix(struct census *census, const struct kv_prefix *prefix, __u64 hash)
{
	__u64 holder[KV_HOLDERS];

	census->entries++;
	kv_prefix_copy(holder, prefix, hash);
	for (int i = 0; i < KV_HOLDERS; i++) {
		__u64 h = holder[i];
		__u32 id = kv_holder_backend(h);
		const struct kv_backend *backend = view_backend(census->view, id);

		if (!h || !backend)
			continue;
		census->holders[id]++;
		census->live[id] += steering_live(h, backend);
		census->tentative[id] += h & KV_HOLDER_TENTATIVE;
	}
}

static int count_set(const void *key, const void *value, void *context)
{
	const struct kv_prefix_set *set = value;

	(void)key;
	for (int way = 0; way < KV_WAYS; way++)
		if (set->hash[way])
			count_prefix(context, &set->entry[way], set->hash[way]);
	return 0;
}

static int census_json(struct cli *cli, const struct census *census)
{
	_cleanup_json_mut_ yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *root = yyjson_mut_obj(doc), *list;
	char name[KV_NAME_LEN];

	yyjson_mut_obj_add_uint(doc, root, "entries", census->entries);
	yyjson_mut_obj_add_uint(doc, root, "max", census->view->fill[VIEW_PREFIXES].max);
	list = yyjson_mut_obj_add_arr(doc, root, "backends");
	for (__u32 i = 0; i < KV_MAX_BACKENDS; i++) {
		const struct kv_backend *backend = view_backend(census->view, i);
		yyjson_mut_val *obj;

		if (!backend)
			continue;
		obj = yyjson_mut_arr_add_obj(doc, list);
		yyjson_mut_obj_add_strcpy(doc, obj, "name", view_name(backend->name, name));
		yyjson_mut_obj_add_uint(doc, obj, "entries", census->holders[i]);
		yyjson_mut_obj_add_uint(doc, obj, "live", census->live[i]);
		yyjson_mut_obj_add_uint(doc, obj, "tentative", census->tentative[i]);
	}
	return cli_print(cli, doc, root);
}

static int show_all(struct cli *cli, const struct view *view)
{
	_cleanup_free_ struct census *census = calloc(1, sizeof(*census));
	struct table t = {.columns = "BACKEND >ENTRIES SHARE >LIVE >TENTATIVE"};
	char name[KV_NAME_LEN], text[TABLE_TEXT];
	int err;

	if (!census)
		return cli_error(cli, "out of memory");
	census->view = view;
	err = kv_pins_each(view->pins, KV_PIN_kv_prefixes, count_set, census);
	if (err)
		return cli_error(cli, "%s: cannot read the prefixes: %s", cli->pin, strerror(-err));
	if (cli->json)
		return census_json(cli, census);
	printf("%llu prefixes of at most %llu\n", (unsigned long long)census->entries,
	       (unsigned long long)view->fill[VIEW_PREFIXES].max);
	for (__u32 i = 0; i < KV_MAX_BACKENDS; i++) {
		const struct kv_backend *backend = view_backend(view, i);

		if (!backend)
			continue;
		table_add(&t, "%s", view_name(backend->name, name));
		table_add(&t, "%llu", (unsigned long long)census->holders[i]);
		table_add(&t, "%s", bar(census->holders[i], census->entries, text));
		table_add(&t, "%s", percent(census->live[i], census->holders[i], text));
		table_add(&t, "%llu", (unsigned long long)census->tentative[i]);
	}
	table_print(&t, stdout, "  ");
	return CLI_OK;
}

static int show_one(struct cli *cli, const struct view *view, const char *text)
{
	_cleanup_json_mut_ yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *root = yyjson_mut_obj(doc), *list;
	struct kv_prefix prefix = {0};
	char *end;
	__u64 hash = strtoull(text, &end, 16);
	int err;

	if (!*text || *end || strlen(text) > 16 || strchr("+- ", text[0]))
		return cli_usage(cli, "\"%s\": expected a hash of up to 16 hex digits", text);
	err = kv_pins_prefix(view->pins, hash, &prefix);
	if (err && err != -ENOENT)
		return cli_error(cli, "%s: cannot read the prefixes: %s", cli->pin, strerror(-err));
	if (!cli->json) {
		printf("prefix %016llx: %s\n", (unsigned long long)hash,
		       err ? "not known" : "held by");
		holder_table(view, prefix.holder, KV_HOLDERS);
		return CLI_OK;
	}
	kv_json_add_hex(doc, root, "hash", hash);
	yyjson_mut_obj_add_bool(doc, root, "known", !err);
	list = yyjson_mut_obj_add_arr(doc, root, "holders");
	for (int i = 0; i < KV_HOLDERS; i++)
		if (prefix.holder[i])
			yyjson_mut_arr_append(list, holder_json(doc, view, prefix.holder[i]));
	return cli_print(cli, doc, root);
}

static int prefix_show(struct cli *cli, int argc, char **argv)
{
	_cleanup_pins_ struct kv_pins *pins = NULL;
	_cleanup_free_ struct view *view = malloc(sizeof(*view));
	int rc = cli_arguments(cli, &argc, argv, NULL, 0, 1) ?: cli_pins(cli, &pins)
		?: view_take(cli, pins, false, view);

	if (rc)
		return rc;
	cli_say_if_down(cli, pins);
	return argc ? show_one(cli, view, argv[0]) : show_all(cli, view);
}

const struct cli_verb prefix_verbs[] = {
	{"show", "[HASH]", "how much each backend is believed to hold, or who holds one prefix",
	 prefix_show},
	{"lookup", "[KV-PREFIX] [--service S] [--as TENANT] [options of hash]",
	 "who holds how much of a prompt: a KV-Prefix value, or that or a body on stdin",
	 do_prefix_lookup},
	{0},
};
