// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <kvsteer/hint.h>

#include "common/cleanup.h"
#include "hash.h"
#include "holder.h"
#include "lib/query.h"
#include "steering.h"
#include "table.h"
#include "tenant.h"

/* What each backend holds of one prompt, its deepest entry. */
struct match {
	__u32 depth;
	__u64 holder;
};

static int match_rungs(const struct view *view, const struct kv_query *query, struct match *matches)
{
	for (__u32 i = 0; i < query->n_rungs; i++) {
		struct kv_prefix prefix;
		int err = kv_pins_prefix(view->pins, query->rungs[i].hash, &prefix);

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
	struct table t = {.columns = "BACKEND >TOKENS OF-PROMPT >PART STATE >AGE KIND"};
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
		table_add(&t, "%s", holder_kind(view, matches[i].holder));
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

int do_prefix_lookup(struct cli *cli, int argc, char **argv)
{
	_cleanup_pins_ struct kv_pins *pins = NULL;
	_cleanup_free_ struct view *view = malloc(sizeof(*view));
	struct match matches[KV_MAX_BACKENDS] = {0};
	struct kv_query query = {.exclude = KV_NONE};
	struct kv_choice choice;
	struct hash_options o = {0};
	const char *service = NULL, *as = NULL;
	struct tenant tenant;
	const struct cli_option options[] = {
		{"--service", &service, NULL}, {"--as", &as, NULL}, HASH_OPTIONS(o), {0}};
	int rc = cli_arguments(cli, &argc, argv, options, 0, 1) ?: cli_pins(cli, &pins)
		?: view_take(cli, pins, false, view) ?: view_pick_service(cli, view, service, &query.service)
		?: tenant_of(cli, pins, as, &tenant)
		?: read_query(cli, &o, argc ? argv[0] : NULL, &query);

	if (rc)
		return rc;
	for (__u32 i = 0; i < query.n_rungs; i++)
		query.rungs[i].hash = tenant_hash(&tenant, query.rungs[i].hash);
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
