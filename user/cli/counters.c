// SPDX-License-Identifier: BSD-2-Clause
#include <string.h>

#include "cli.h"
#include "common/cleanup.h"
#include "table.h"

static const struct {
	const char *name;
	const char *meaning;
} infos[] = {
#define COUNTER_INFO(name, meaning) [KV_CNT_##name] = {#name, meaning},
	KV_COUNTERS(COUNTER_INFO)
#undef COUNTER_INFO
};

/* Groups as counters.h lists them: each begins with this counter. */
static const struct {
	enum kv_counter first;
	const char *title;
} groups[] = {
	{KV_CNT_requests_express, "requests"},
	{KV_CNT_agent_no_hint, "why a request was left to the agent"},
	{KV_CNT_hint_prefix, "hints"},
	{KV_CNT_lends, "pairs"},
	{KV_CNT_packets_to_backend, "packets of lent pairs"},
	{KV_CNT_decisions, "steering"},
	{KV_CNT_agent_body_unparsed, "agent"},
	{KV_CNT_told_messages, "engines' events"},
};

#define N_GROUPS (sizeof(groups) / sizeof(*groups))

static void print_group(size_t g, const __u64 *counters, bool nonzero)
{
	__u32 end = g + 1 < N_GROUPS ? groups[g + 1].first : KV_CNT_MAX;
	struct table t = {.columns = "COUNTER >VALUE MEANING"};

	for (__u32 i = groups[g].first; i < end; i++) {
		if (nonzero && !counters[i])
			continue;
		table_add(&t, "%s", infos[i].name);
		table_add(&t, "%llu", (unsigned long long)counters[i]);
		table_add(&t, "%s", infos[i].meaning);
	}
	if (!t.n)
		return;
	printf("%s\n", groups[g].title);
	table_print(&t, stdout, "  ");
	putchar('\n');
}

static int print_json(struct cli *cli, const __u64 *counters, bool nonzero)
{
	_cleanup_json_mut_ yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *root = yyjson_mut_obj(doc);
	yyjson_mut_val *obj = yyjson_mut_obj_add_obj(doc, root, "counters");

	for (__u32 i = 0; i < KV_CNT_MAX; i++)
		if (!nonzero || counters[i])
			yyjson_mut_obj_add_uint(doc, obj, infos[i].name, counters[i]);
	return cli_print(cli, doc, root);
}

int do_counters(struct cli *cli, int argc, char **argv)
{
	_cleanup_pins_ struct kv_pins *pins = NULL;
	bool nonzero = false;
	const struct cli_option options[] = {{"--nonzero", NULL, &nonzero}, {0}};
	__u64 counters[KV_CNT_MAX];
	int rc = cli_arguments(cli, &argc, argv, options, 0, 0) ?: cli_pins(cli, &pins);

	if (rc)
		return rc;
	rc = kv_pins_counters(pins, counters);
	if (rc)
		return cli_error(cli, "%s: cannot read the counters: %s", cli->pin, strerror(-rc));
	cli_say_if_down(cli, pins);
	if (cli->json)
		return print_json(cli, counters, nonzero);
	for (size_t g = 0; g < N_GROUPS; g++)
		print_group(g, counters, nonzero);
	return CLI_OK;
}
