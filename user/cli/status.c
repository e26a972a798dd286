// SPDX-License-Identifier: BSD-2-Clause
#include "status.h"

#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "common/cleanup.h"
#include "discover.h"
#include "reached.h"
#include "table.h"

static double seconds(const struct view *view, __u64 since_ns)
{
	return view->now_ns > since_ns ? (view->now_ns - since_ns) / 1e9 : 0;
}

/* ---- for people ----------------------------------------------------------------------- */

static void agent_line(const struct cli *cli, const struct view *view, FILE *f)
{
	char up[TABLE_TEXT];

	if (view->alive)
		fprintf(f, "kvsteerd %.32s: running, pid %u, up %s, pins %s\n", view->meta.version,
			view->meta.agent_pid, short_time(seconds(view, view->meta.started_ns), up),
			cli->pin);
	else
		fprintf(f, "kvsteerd %.32s: DOWN, last seen %s ago, pins %s\n", view->meta.version,
			short_time(seconds(view, view->meta.heartbeat_ns), up), cli->pin);
}

static void requests_lines(const struct view *view, FILE *f)
{
	struct table t = {.columns = "LANE >REQUESTS SHARE >PART"};
	char number[TABLE_TEXT];
	struct view_totals totals;

	view_total(view, KV_NONE, &totals);
	const struct {
		const char *name;
		__u64 n;
	} rows[] = {
		{"express (kernel)", totals.express},
		{"agent", totals.agent},
		{"refused", totals.refused},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		table_add(&t, "%s", rows[i].name);
		table_add(&t, "%llu", (unsigned long long)rows[i].n);
		table_add(&t, "%s", bar(rows[i].n, totals.all, number));
		table_add(&t, "%s", percent(rows[i].n, totals.all, number));
	}
	table_print(&t, f, "");
}

static void connection_lines(const struct view *view, FILE *f)
{
	struct view_totals totals;

	view_total(view, KV_NONE, &totals);
	fprintf(f, "clients    %llu known: %llu lent, %llu in the agent's hands, %llu at home\n",
		(unsigned long long)view->fill[VIEW_CLIENTS].used,
		(unsigned long long)view->clients.lent, (unsigned long long)view->clients.agent,
		(unsigned long long)view->clients.home);
	fprintf(f, "upstreams  %llu open: %u idle, %u lent, %u relayed, %u to be closed\n",
		(unsigned long long)view->fill[VIEW_UPSTREAMS].used, totals.pool.idle,
		totals.pool.lent, totals.pool.relay, totals.pool.done);
}

static void fill_lines(const struct view *view, FILE *f)
{
	struct table t = {.columns = "MAP >USED >OF FILL >PART >EVICTED"};
	char number[TABLE_TEXT];

	for (int i = 0; i < VIEW_FILLS; i++) {
		const struct view_fill *fill = &view->fill[i];

		table_add(&t, "%s", fill->name);
		table_add(&t, "%s", short_number(fill->used, number));
		table_add(&t, "%s", short_number(fill->max, number));
		table_add(&t, "%s", bar(fill->used, fill->max, number));
		table_add(&t, "%s", percent(fill->used, fill->max, number));
		table_add(&t, "%s", short_number(fill->evicted, number));
	}
	table_print(&t, f, "");
}

void status_page(const struct cli *cli, const struct view *view, FILE *f)
{
	agent_line(cli, view, f);
	fputc('\n', f);
	requests_lines(view, f);
	fputc('\n', f);
	connection_lines(view, f);
	fputc('\n', f);
	service_table(view, f, "");
	fputc('\n', f);
	backend_table(view, KV_NONE, f, "");
	discover_lines(view, KV_NONE, f, "\n");
	fputc('\n', f);
	fill_lines(view, f);
	fputc('\n', f);
	reached_lines(view, f);
}

/* ---- for programs --------------------------------------------------------------------- */

static void agent_json(yyjson_mut_doc *doc, yyjson_mut_val *root, const struct view *view)
{
	yyjson_mut_val *agent = yyjson_mut_obj_add_obj(doc, root, "agent");
	char version[sizeof(view->meta.version) + 1] = "";

	memcpy(version, view->meta.version, sizeof(view->meta.version));
	yyjson_mut_obj_add_bool(doc, agent, "alive", view->alive);
	yyjson_mut_obj_add_uint(doc, agent, "pid", view->meta.agent_pid);
	yyjson_mut_obj_add_strcpy(doc, agent, "version", version);
	yyjson_mut_obj_add_real(doc, agent, "uptime_s",
				view->alive ? seconds(view, view->meta.started_ns) : 0);
	yyjson_mut_obj_add_real(doc, agent, "heartbeat_age_s",
				seconds(view, view->meta.heartbeat_ns));
}

static void requests_json(yyjson_mut_doc *doc, yyjson_mut_val *root, const struct view *view)
{
	yyjson_mut_val *obj = yyjson_mut_obj_add_obj(doc, root, "requests");
	struct view_totals totals;

	view_total(view, KV_NONE, &totals);
	yyjson_mut_obj_add_uint(doc, obj, "express", totals.express);
	yyjson_mut_obj_add_uint(doc, obj, "agent", totals.agent);
	yyjson_mut_obj_add_uint(doc, obj, "refused", totals.refused);
	yyjson_mut_obj_add_uint(doc, obj, "total", totals.all);
	yyjson_mut_obj_add_real(doc, obj, "kernel_share",
				totals.all ? (double)totals.express / totals.all : 0);

	obj = yyjson_mut_obj_add_obj(doc, root, "clients");
	yyjson_mut_obj_add_uint(doc, obj, "known", view->fill[VIEW_CLIENTS].used);
	yyjson_mut_obj_add_uint(doc, obj, "lent", view->clients.lent);
	yyjson_mut_obj_add_uint(doc, obj, "agent", view->clients.agent);
	yyjson_mut_obj_add_uint(doc, obj, "home", view->clients.home);

	obj = yyjson_mut_obj_add_obj(doc, root, "upstreams");
	yyjson_mut_obj_add_uint(doc, obj, "open", view->fill[VIEW_UPSTREAMS].used);
	yyjson_mut_obj_add_uint(doc, obj, "idle", totals.pool.idle);
	yyjson_mut_obj_add_uint(doc, obj, "relay", totals.pool.relay);
	yyjson_mut_obj_add_uint(doc, obj, "lent", totals.pool.lent);
	yyjson_mut_obj_add_uint(doc, obj, "done", totals.pool.done);

	obj = yyjson_mut_obj_add_obj(doc, root, "backends");
	yyjson_mut_obj_add_uint(doc, obj, "total", totals.backends);
	yyjson_mut_obj_add_uint(doc, obj, "up", totals.backends_up);
}

static int status_json(struct cli *cli, const struct view *view)
{
	_cleanup_json_mut_ yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *root = yyjson_mut_obj(doc), *list;

	agent_json(doc, root, view);
	yyjson_mut_obj_add_str(doc, root, "pin", cli->pin);
	yyjson_mut_obj_add_uint(doc, root, "schema", view->meta.schema);
	requests_json(doc, root, view);
	list = yyjson_mut_obj_add_arr(doc, root, "services");
	for (__u32 i = 0; i < KV_MAX_SERVICES; i++)
		if (view_service(view, i))
			yyjson_mut_arr_append(list, service_json(doc, view, i));
	list = yyjson_mut_obj_add_arr(doc, root, "maps");
	for (int i = 0; i < VIEW_FILLS; i++) {
		yyjson_mut_val *map = yyjson_mut_arr_add_obj(doc, list);

		yyjson_mut_obj_add_str(doc, map, "name", view->fill[i].name);
		yyjson_mut_obj_add_uint(doc, map, "used", view->fill[i].used);
		yyjson_mut_obj_add_uint(doc, map, "max", view->fill[i].max);
		yyjson_mut_obj_add_uint(doc, map, "evicted", view->fill[i].evicted);
	}
	yyjson_mut_obj_add_val(doc, root, "limits", reached_json(doc, view));
	return cli_print(cli, doc, root);
}

int do_status(struct cli *cli, int argc, char **argv)
{
	_cleanup_pins_ struct kv_pins *pins = NULL;
	_cleanup_free_ struct view *view = malloc(sizeof(*view));
	int rc = cli_arguments(cli, &argc, argv, NULL, 0, 0) ?: cli_pins(cli, &pins)
		?: view_take(cli, pins, true, view);

	if (rc)
		return rc;
	if (cli->json)
		return status_json(cli, view);
	status_page(cli, view, stdout);
	return CLI_OK;
}
