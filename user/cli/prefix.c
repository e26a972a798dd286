// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <kvsteer/hint.h>

#include "common/cleanup.h"
#include "common/json.h"
#include "hash.h"
#include "holder.h"
#include "lib/query.h"
#include "steering.h"
#include "table.h"

/* ---- show ----------------------------------------------------------------------------- */

struct census {
	const struct view *view;
	__u64 entries;
	__u64 holders[KV_MAX_BACKENDS];
	__u64 live[KV_MAX_BACKENDS];
	__u64 tentative[KV_MAX_BACKENDS];
};

static int count_prefix(const void *key, const void *value, void *context)
{
	const struct kv_prefix *prefix = value;
	struct census *census = context;

	(void)key;
	census->entries++;
	for (int i = 0; i < KV_HOLDERS; i++) {
		__u64 h = prefix->holder[i];
		__u32 id = kv_holder_backend(h);
		const struct kv_backend *backend = view_backend(census->view, id);

		if (!h || !backend)
			continue;
		census->holders[id]++;
		census->live[id] += steering_live(h, backend);
		census->tentative[id] += h & KV_HOLDER_TENTATIVE;
	}
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
	err = kv_pins_each(view->pins, KV_PIN_kv_prefixes, count_prefix, census);
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
	err = kv_pins_lookup(view->pins, KV_PIN_kv_prefixes, &hash, &prefix);
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

/* ---- lookup --------------------------------------------------------------------------- */

/* What each backend holds of one prompt, its deepest entry. */
struct match {
	__u32 depth;
	__u64 holder;
};

static int match_rungs(const struct view *view, const struct kv_query *query, struct match *matches)
{
	for (__u32 i = 0; i < query->n_rungs; i++) {
		struct kv_prefix prefix;
		int err = kv_pins_lookup(view->pins, KV_PIN_kv_prefixes, &query->rungs[i].hash,
					 &prefix);

		if (err && err != -ENOENT)
			return err;
		for (int j = 0; !err && j < KV_HOLDERS; j++) {
			__u64 h = prefix.holder[j];
			const struct kv_backend *b = view_backend(view, kv_holder_backend(h));
			struct match *held;

			/* Rungs rise in depth: the deeper wins, but never over a live one. */
			if (!h || !b)
				continue;
			held = &matches[kv_holder_backend(h)];
			if (held->holder && steering_live(held->holder, b) && !steering_live(h, b))
				continue;
			*held = (struct match){query->rungs[i].depth, h};
		}
	}
	return 0;
}

/* A header's value, or with its name as kvsteer hash prints it. */
static int parse_hint(struct cli *cli, const char *text, struct kv_query *query)
{
	const size_t name = sizeof(KVSTEER_HEADER_NAME) - 1;
	struct kv_window window = {0};
	struct kv_hint hint = {0};
	struct kv_source source;

	if (!strncasecmp(text, KVSTEER_HEADER_NAME ":", name + 1))
		text += name + 1;
	text += strspn(text, " \t");
	source = (struct kv_source){.data = (const __u8 *)text, .len = strcspn(text, "\r\n")};
	if (kv_hint_parse(&hint, &window, &source, 0, source.len))
		return cli_error(cli, "malformed " KVSTEER_HEADER_NAME
				      ": expected 1;TOTAL,DEPTH:HASH,... as of kvsteer hash");
	query->total = hint.total;
	query->n_rungs = hint.n;
	memcpy(query->rungs, hint.rungs, hint.n * sizeof(*hint.rungs));
	return 0;
}

static int read_query(struct cli *cli, const struct hash_options *o, const char *value,
		      struct kv_query *query)
{
	_cleanup_free_ char *data = NULL;
	struct kvsteer_prompt prompt;
	const char *text;
	size_t len;
	int rc;

	if (value)
		return parse_hint(cli, value, query);
	data = cli_stdin(cli, &len);
	if (!data)
		return CLI_FAILED;
	text = data + strspn(data, " \t\r\n");
	if (*text != '{' && !o->tokens)
		return parse_hint(cli, text, query);
	rc = hash_prompt(cli, o, data, len, &prompt);
	if (!rc)
		kv_query_set_prompt(query, &prompt);
	return rc;
}

static int lookup_json(struct cli *cli, const struct view *view, const struct kv_query *query,
		       const struct match *matches, const struct kv_choice *choice)
{
	_cleanup_json_mut_ yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *root = yyjson_mut_obj(doc), *list;
	const struct kv_backend *chosen = view_backend(view, choice->backend);
	char name[KV_NAME_LEN];

	yyjson_mut_obj_add_uint(doc, root, "total_tokens", query->total);
	yyjson_mut_obj_add_uint(doc, root, "rungs", query->n_rungs);
	list = yyjson_mut_obj_add_arr(doc, root, "holders");
	for (__u32 i = 0; i < KV_MAX_BACKENDS; i++) {
		yyjson_mut_val *obj;

		if (!matches[i].holder)
			continue;
		obj = holder_json(doc, view, matches[i].holder);
		yyjson_mut_obj_add_uint(doc, obj, "matched_tokens", matches[i].depth);
		yyjson_mut_arr_append(list, obj);
	}
	yyjson_mut_obj_add_strcpy(doc, root, "choice", chosen ? view_name(chosen->name, name) : "");
	return cli_print(cli, doc, root);
}

static void lookup_text(const struct view *view, const struct kv_query *query,
			const struct match *matches, const struct kv_choice *choice)
{
	struct table t = {.columns = "BACKEND >TOKENS OF-PROMPT >PART STATE >AGE"};
	const struct kv_backend *chosen = view_backend(view, choice->backend);
	char name[KV_NAME_LEN], text[TABLE_TEXT];

	printf("a prompt of %u tokens, %u rungs\n", query->total, query->n_rungs);
	for (__u32 i = 0; i < KV_MAX_BACKENDS; i++) {
		const struct kv_backend *b = view_backend(view, i);

		if (!b || !matches[i].holder)
			continue;
		table_add(&t, "%s", view_name(b->name, name));
		table_add(&t, "%u", matches[i].depth);
		table_add(&t, "%s", bar(matches[i].depth, query->total, text));
		table_add(&t, "%s", percent(matches[i].depth, query->total, text));
		table_add(&t, "%s", holder_state(view, matches[i].holder));
		table_add(&t, "%s", short_number(steering_age(matches[i].holder, b), text));
	}
	if (t.n)
		table_print(&t, stdout, "  ");
	else
		puts("  no backend is believed to hold any of it");
	if (chosen)
		printf("sent now, it would go to %s\n", view_name(chosen->name, name));
	else
		puts("sent now, it would be refused: no backend takes requests");
}

static int pick_service(struct cli *cli, const struct view *view, const char *name, __u32 *ret)
{
	*ret = KV_NONE;
	if (name) {
		*ret = view_service_id(view, name);
		if (*ret == KV_NONE)
			return cli_error(cli, "service \"%s\": there is none", name);
		return 0;
	}
	for (__u32 i = 0; i < KV_MAX_SERVICES && *ret == KV_NONE; i++)
		if (view_service(view, i))
			*ret = i;
	if (*ret == KV_NONE)
		return cli_error(cli, "%s: there is no service", cli->pin);
	return 0;
}

static int prefix_lookup(struct cli *cli, int argc, char **argv)
{
	_cleanup_pins_ struct kv_pins *pins = NULL;
	_cleanup_free_ struct view *view = malloc(sizeof(*view));
	struct match matches[KV_MAX_BACKENDS] = {0};
	struct kv_query query = {.exclude = KV_NONE};
	struct kv_choice choice;
	struct hash_options o = {0};
	const char *service = NULL;
	const struct cli_option options[] = {{"--service", &service, NULL}, HASH_OPTIONS(o), {0}};
	int rc = cli_arguments(cli, &argc, argv, options, 0, 1) ?: cli_pins(cli, &pins)
		?: view_take(cli, pins, false, view) ?: pick_service(cli, view, service, &query.service)
		?: read_query(cli, &o, argc ? argv[0] : NULL, &query);

	if (rc)
		return rc;
	rc = match_rungs(view, &query, matches);
	if (rc)
		return cli_error(cli, "%s: cannot read the prefixes: %s", cli->pin, strerror(-rc));
	steering_decide(view, &query, &choice);
	cli_say_if_down(cli, pins);
	if (cli->json)
		return lookup_json(cli, view, &query, matches, &choice);
	lookup_text(view, &query, matches, &choice);
	return CLI_OK;
}

const struct cli_verb prefix_verbs[] = {
	{"show", "[HASH]", "how much each backend is believed to hold, or who holds one prefix",
	 prefix_show},
	{"lookup", "[KV-PREFIX] [--service S] [options of hash]",
	 "who holds how much of a prompt: a KV-Prefix value, or that or a body on stdin",
	 prefix_lookup},
	{0},
};
